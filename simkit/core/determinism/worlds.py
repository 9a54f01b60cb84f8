"""A world: the time and the random numbers for the user code of one scenario.

A world belongs to a context (`contextvars`): tasks and threads that the user's code starts inherit
it. Threads that are older than the run do not, and get real time and real random numbers.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import lru_cache
from random import Random
from types import FrameType
from typing import Any, Final, Protocol

from simkit.core.context_values import set_until_reset
from simkit.core.rng import Chance

IMPORT_START: Final = datetime(2026, 1, 5, 9, tzinfo=UTC)
"""The time at which every module is imported: the same for all scenarios, because `sys.modules`
is shared."""

PATIENCE: Final = 10_000
"""The number of readings of the clock at one moment before it moves. More readings mean code
that waits by polling the clock and would wait for ever: from then on each reading takes a
millisecond."""

IDS_OF_A_TURN: Final = 2**20
"""The gap between the counting ids of two turns, so that a turn's ids do not depend on the turns
before."""

MACHINERY: Final = frozenset(
    (
        *("_pytest", "anyio", "asyncio", "bdb", "cProfile", "concurrent", "coverage", "execnet"),
        *("multiprocessing", "pdb", "pluggy", "profile", "pytest", "pytest_timeout", "queue"),
        *("selectors", "signal", "simkit", "socket", "socketserver", "ssl", "subprocess"),
        *("threading", "time_machine", "tornado", "trio", "uvloop", "xdist"),
    )
)
"""Top-level packages that get real time because they wait for threads, children and sockets:
with virtual time they would wait for ever or not at all."""

_WAITING: Final = frozenset(("concurrent", "queue", "threading"))
"""Those whose waits with a limit virtual time ends: `simkit.capture.http.timers`."""

_CARRIERS: Final = frozenset(("Handle._run", "Thread.run", "Timer.run", "_WorkItem.run"))
"""Functions of these packages that call a function they were given: ``to_thread(time.time)``."""
_CARRYING: Final = frozenset(
    (
        *("simkit.adapters.concurrency.pools", "simkit.adapters.entry", "simkit.adapters.toolbox"),
        *("simkit.runtime.functions", "simkit.capture.http.guards"),
    )
)
"""Modules of simkit that call user functions and never read a clock themselves."""

_PASSING: Final = frozenset(
    (
        *("attr", "attrs", "dataclasses", "fastuuid", "pydantic", "random", "secrets", "tempfile"),
        *("uuid", "uuid_utils"),
    )
)
"""Top-level packages that draw random numbers on behalf of their caller."""


@lru_cache(maxsize=4096)
def belongs_to(packages: frozenset[str], module: Any) -> bool:
    """Return whether a module, by its name, belongs to one of some top-level packages."""
    return isinstance(module, str) and module.partition(".")[0] in packages


_PUTTING_IN_PLACE: Final = "simkit.core.determinism.library_rng"


_TURN_NS: Final = 1_000_000
_ANSWER_NS: Final = 1_000
"""Turns are so far apart that a turn's time does not depend on the answers of turns before it."""
_ANSWERS_MAX: Final = _TURN_NS // _ANSWER_NS - 1
"""Later answers of a turn take no time, so that time does not go back in the next turn."""


class Clock(Protocol):
    """A virtual clock."""

    @property
    def start(self) -> datetime:
        """Return the date and time at which the clock starts."""

    @property
    def now(self) -> int:
        """Return the current time in milliseconds."""

    @property
    def answers(self) -> int:
        """Return how many answers of models and tools the turn has had."""

    def advance_to(self, at: int) -> None:
        """Jump to a later time."""


class _Generators(dict[str, Random]):
    """The generators of a turn, by place; ids are drawn so often that one is a subscript."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance

    def __missing__(self, name: str) -> Random:
        generator = self[name] = self._chance.child(name).random
        return generator


class World:
    """The clock and the random numbers that answer user code while it is installed."""

    def __init__(
        self,
        clock: Clock,
        chance: Chance,
        *,
        zone: str = "",
        real: Collection[str] = (),
        seeds: Chance | None = None,
    ) -> None:
        """``zone`` is the local time zone, as in ``TZ``; if empty, the offset of the clock's start.

        ``real`` contains `clock` or `chance` if user code gets the real one. ``seeds`` is the
        source for state that a process has once, if it is not ``chance``.
        """
        self.clock, self._chance = clock, chance
        self._seeds = seeds or chance
        self.start_ns = round(clock.start.timestamp() * 1_000) * 1_000_000
        """The start of virtual time in nanoseconds since 1970."""
        self.moment = -1
        """The virtual time of the last reading, in milliseconds."""
        self.readings = 0
        """The number of readings at this moment."""
        self.generators = _Generators(chance.child(""))
        """The sources of random numbers, by place in code.

        A new draw in one place changes nothing elsewhere. A value that is drawn once a process, by
        the scenario that happens to come first, would otherwise change the draws of all others.
        """
        self._turns = 0
        self.zone = zone or zone_of(clock.start)
        self.real = frozenset(real)
        self.counter = 0
        """The number of counting ids made so far."""
        self.records: dict[Any, Any] = {}
        """This world's values of state that a process has once, by `library_rng`."""
        self._of_sessions: dict[str, tuple[Chance, dict[Any, Any]]] = {}

    def at_work(self) -> AbstractContextManager[None]:
        """Return what installs this world for code of this context."""
        return _AtWork(self)

    @contextmanager
    def in_its_zone(self) -> Iterator[None]:
        """Put the process in the world's time zone, from the first turn to the last.

        All that the turns replace stays in place until then.
        """
        from simkit.core.determinism.installing import installed
        from simkit.core.determinism.library_rng import zoned

        with installed.keep(), nullcontext() if "clock" in self.real else zoned(self.zone):
            yield

    def wall_ns(self) -> int:
        """Return the virtual time in nanoseconds since 1970."""
        now = self.clock.now
        if now != self.moment:
            self.moment, self.readings = now, 0
        self.readings += 1
        if self.readings > PATIENCE:
            now = self.moment = now + 1
            self.clock.advance_to(now)
        passed_ns = self._turns * _TURN_NS + min(self.clock.answers, _ANSWERS_MAX) * _ANSWER_NS
        return self.start_ns + now * 1_000_000 + passed_ns

    def elapsed_ns(self) -> int:
        """Return the virtual time since the start in nanoseconds."""
        return self.wall_ns() - self.start_ns

    def begin_turn(
        self, name: str, turns_before: int, seeds_anew: bool = False, of_session: str = ""
    ) -> None:
        """Begin a turn with new draws that depend on the turn's name only.

        So a run that continues in another process draws the same numbers. A millisecond passes
        between two turns, and a microsecond with each answer of a model or a tool, even if nothing
        takes time: applications and frameworks sort messages by time.

        With ``seeds_anew`` the shared generators are seeded again, too. ``of_session`` is the
        session that has its own copy of process state, so that draws of other sessions do not
        change it. The first session continues with the state from before the first turn.
        """
        self.generators, self.moment = _Generators(self._chance.child(name)), -1
        self._turns = max(self._turns, turns_before)
        self.counter = max(self.counter, turns_before * IDS_OF_A_TURN)
        if of_session:
            if of_session not in self._of_sessions:
                self._of_sessions[of_session] = (
                    (self._chance.child(f"session/{of_session}"), {})
                    if turns_before
                    else (self._seeds, self.records)
                )
            self._seeds, self.records = self._of_sessions[of_session]
        if seeds_anew:
            self._seeds = self._chance.child(name)
            self.records = {}

    def seed(self, name: str) -> int:
        """Return the seed of a generator that belongs to no place; equal names give equal seeds."""
        return self._seeds.child(name).random.getrandbits(32)

    def importing(self, module: str, is_library: bool) -> World:
        """Return the world in which a module is imported.

        A module is imported once, for all scenarios of a process: the values that it reads and
        draws then must not depend on the scenario that comes first, nor on whether it comes again.
        """
        # Changing the time zone takes too long to do it for each module of a library.
        zone = self.zone if is_library else ""
        return world_of_import(module, is_library, self.real, zone)


def world_of_import(
    module: str, is_library: bool, real: Collection[str] = (), zone: str = ""
) -> World:
    """Return the world in which a module is imported for all scenarios."""
    chance = Chance(0).child(f"import/{module}")
    seeds = _LIBRARIES if is_library else chance
    return World(Still(IMPORT_START), chance, zone=zone, real=real, seeds=seeds)


_LIBRARIES: Final = Chance(0).child("import")
"""Libraries share one set of seeds for process state: they are many, and seeding takes time."""


class Still:
    """A clock that stands still: nothing takes time."""

    def __init__(self, start: datetime) -> None:
        self.start = start
        self.now = self.answers = 0
        """The current time in milliseconds: 0, unless code waited."""

    def advance_to(self, at: int) -> None:
        """Jump to a later time."""
        self.now = at


class _AtWork:
    """A context in which a world is installed; every turn enters one, so it is a class."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._token: contextvars.Token[World | None] | None = None

    def __enter__(self) -> None:
        from simkit.core.determinism.installing import installed
        from simkit.core.determinism.library_rng import enter

        if _current.get() is self._world:
            return
        installed.__enter__()
        try:
            enter(self._world)
        except BaseException:
            installed.__exit__()
            raise
        self._token = set_until_reset(_current, self._world, None)

    def __exit__(self, *problem: object) -> None:
        from simkit.core.determinism.installing import installed
        from simkit.core.determinism.library_rng import leave

        if self._token is None:
            return
        try:
            _current.reset(self._token)
            leave(self._world)
        finally:
            installed.__exit__()


_current: Final = contextvars.ContextVar[World | None]("simkit_world", default=None)


current_world: Final[Callable[[], World | None]] = _current.get
"""Return the world of this context."""


def world_of_time(caller: FrameType) -> World | None:
    """Return the world that gives the time to a caller, or None for real time."""
    world = _current.get()
    if world is None or "clock" in world.real:
        return None
    # Code that `exec` runs may have no module.
    is_machinery = belongs_to(MACHINERY, caller.f_globals.get("__name__"))
    return None if is_machinery and not _carries(caller) else world


def waited_ns(caller: FrameType) -> int:
    """Return the virtual time by which the clock of a thread's wait is ahead of the real one.

    Code of these packages reads it to know how long to wait still.
    """
    world = _current.get()
    if world is None or "clock" in world.real:
        return 0
    is_waiting = belongs_to(_WAITING, caller.f_globals.get("__name__"))
    return world.clock.now * 1_000_000 if is_waiting else 0


def world_of_chance(caller: FrameType) -> tuple[World, str] | None:
    """Return the world that draws for a caller, and the place in code.

    None means real random numbers.
    """
    world = _current.get()
    if world is None or "chance" in world.real:
        return None
    frame, way, is_stand_in = caller, "", False
    while True:
        name = frame.f_globals.get("__name__")
        if frame.f_back is None:
            break
        if name == _PUTTING_IN_PLACE:
            is_stand_in = True  # The next frame decides for the functions that it calls.
        elif not belongs_to(_PASSING, name):
            break
        elif is_stand_in:
            is_stand_in = False
        else:
            way = f"{frame.f_code.co_qualname}<{way}"
        frame = frame.f_back
    if belongs_to(MACHINERY, name) and not _carries(frame):
        return None
    return world, f"{name}.{frame.f_code.co_qualname}<{way}"


def _carries(frame: FrameType) -> bool:
    """Return whether code of these packages calls a function that it was given."""
    return frame.f_code.co_qualname in _CARRIERS or frame.f_globals.get("__name__") in _CARRYING


def zone_of(moment: datetime) -> str:
    """Return the local time zone of a moment as ``TZ`` has it: ``UTC0``, ``<+02:00>-02:00``."""
    offset = moment.utcoffset()
    minutes = round(offset.total_seconds() / 60) if offset is not None else 0
    if not minutes:
        return "UTC0"
    hours = f"{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    ahead, behind = ("+", "-") if minutes > 0 else ("-", "+")
    return f"<{ahead}{hours.replace(':', '')}>{behind}{hours}"
