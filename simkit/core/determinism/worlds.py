"""A world: what the time is, and what chance gives, for the user code of one scenario.

A world belongs to a context (`contextvars`): tasks and threads that the user's code starts carry
it. Threads that are older than the run do not, and have real time and chance.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from types import FrameType
from typing import Any, Final, Protocol, TypeAlias

from simkit.core.rng import Chance

IMPORT_START: Final = datetime(2026, 1, 5, 9, tzinfo=UTC)
"""The time at which every module is imported: the same for all scenarios, as `sys.modules` is."""

PATIENCE: Final = 10_000
"""How often the clock may be read at one moment. More is taken for code that waits by looking at
it, which would wait for ever: from then on each reading takes a millisecond."""

IDS_OF_A_TURN: Final = 2**20
"""By how many the ids that count upwards are ahead with each turn, whoever took those before."""

MACHINERY: Final = frozenset(
    (
        *("_pytest", "anyio", "asyncio", "bdb", "cProfile", "concurrent", "coverage", "execnet"),
        *("multiprocessing", "pdb", "pluggy", "profile", "pytest", "pytest_timeout", "queue"),
        *("selectors", "signal", "simkit", "socket", "socketserver", "ssl", "subprocess"),
        *("threading", "time_machine", "tornado", "trio", "uvloop", "xdist"),
    )
)
"""Top-level packages that measure how long something real takes: they wait for threads, children
and sockets, and virtual time would let them wait for ever or not at all."""

_CARRIERS: Final = frozenset(("Handle._run", "Thread.run", "Timer.run", "_WorkItem.run"))
"""Functions of the machinery that call what they were given: ``to_thread(time.time)``."""
_CARRYING: Final = frozenset(
    (
        *("simkit.adapters.entry", "simkit.adapters.pools", "simkit.adapters.toolbox"),
        *("simkit.runtime.functions", "simkit.capture.http.guards"),
    )
)
"""Modules of simkit's that call what users gave, and look at no clock themselves."""

_PASSING: Final = frozenset(
    (
        *("attr", "attrs", "dataclasses", "fastuuid", "pydantic", "random", "secrets", "tempfile"),
        *("uuid", "uuid_utils"),
    )
)
"""Top-level packages that draw in the name of whoever calls them."""


_PUTTING_IN_PLACE: Final = "simkit.core.determinism.kept"


Anew: TypeAlias = Callable[[str, str], bool]
"""Of a module's name and file, whether it is imported anew for one world."""


class Clock(Protocol):
    """A virtual clock."""

    @property
    def start(self) -> datetime:
        """The date and time at its beginning."""

    def now(self) -> int:
        """Return the milliseconds that have passed."""

    def advance_to(self, at: int) -> None:
        """Jump to a later time."""


class World:
    """Answers what user code asks of clocks and chance while it is at work."""

    __slots__ = (
        "_anew",
        "_chance",
        "_clock",
        "_moment",
        "_of_sessions",
        "_readings",
        "_seeds",
        "_start_ns",
        "_streams",
        "_turn",
        "_turns",
        "counter",
        "real",
        "records",
        "zone",
    )  # fmt: skip

    def __init__(
        self,
        clock: Clock,
        chance: Chance,
        *,
        zone: str = "",
        real: Collection[str] = (),
        anew: Anew | None = None,
        seeds: Chance | None = None,
    ) -> None:
        """``zone`` is the local time zone, as in ``TZ``; else the offset of the clock's start.

        ``real`` holds `clock` and `chance` where user code is to have the real ones. ``anew`` says
        of a module's name and file whether it is imported anew for this world alone. ``seeds`` is
        the chance of what is kept once a process, where that is another.
        """
        self._clock, self._chance, self._anew = clock, chance, anew
        self._seeds = seeds or chance
        self._start_ns = round(clock.start.timestamp() * 1_000) * 1_000_000
        self._moment, self._readings = -1, 0
        self._streams: dict[str, Chance] = {}
        self._turn = ""
        self._turns = 0
        self.zone = zone or zone_of(clock.start)
        self.real = frozenset(real)
        self.counter = 0
        """How many ids that count upwards were made."""
        self.records: dict[Any, Any] = {}
        """What this world has of what a process keeps once (`simkit.core.determinism.kept`)."""
        self._of_sessions: dict[str, tuple[Chance, dict[Any, Any]]] = {}

    @property
    def start_ns(self) -> int:
        """The nanoseconds since 1970 at the start of virtual time."""
        return self._start_ns

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Answer whoever asks in this context."""
        from simkit.core.determinism.installing import installed
        from simkit.core.determinism.kept import entering

        if _current.get() is self:
            yield
            return
        with installed, entering(self):
            before = _current.set(self)
            try:
                yield
            finally:
                _current.reset(before)

    def in_its_zone(self) -> AbstractContextManager[None]:
        """Has the process in the world's time zone, from its first turn to its last."""
        from simkit.core.determinism.kept import zoned

        return nullcontext() if "clock" in self.real else zoned(self.zone)

    def elapsed_ns(self) -> int:
        """Return the nanoseconds of virtual time since the start."""
        now = self._clock.now()
        if now != self._moment:
            self._moment, self._readings = now, 0
        self._readings += 1
        if self._readings > PATIENCE:
            now = self._moment = now + 1
            self._clock.advance_to(now)
        return now * 1_000_000 + self._turns * 1_000

    def wall_ns(self) -> int:
        """Return the nanoseconds of virtual time since 1970."""
        return self._start_ns + self.elapsed_ns()

    def stream(self, place: str) -> Chance:
        """Return the chance of a place in code: a new draw in one place moves nothing elsewhere.

        What is drawn once a process, by whichever scenario is the first, would move all others.
        """
        generator = self._streams.get(place)
        if generator is None:
            generator = self._streams[place] = self._chance.child(f"{self._turn}/{place}")
        return generator

    def begin_turn(
        self, name: str, turns_before: int, seeds_anew: bool = False, of_session: str = ""
    ) -> None:
        """Begin with new draws, which depend on the turn's name alone: a run that goes on in
        another process draws what it would have drawn in this one.

        A microsecond passes between two turns, also where nothing takes time: frameworks order
        what is said by when it was said.

        With ``seeds_anew`` the generators that all share begin anew, too. ``of_session`` has its
        own of what a process keeps once: what other sessions draw moves nothing in it. The first
        one goes on with what there was before the first turn.
        """
        self._turn, self._turns = name, max(self._turns, turns_before)
        self._streams.clear()
        self._moment = -1
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
        """Return the seed of a generator that is not a place's; the same whenever it is asked."""
        return self._seeds.child(name).random.getrandbits(32)

    def importing(self, module: str, file: str, is_library: bool) -> World:
        """Return the world in which a module is imported.

        A module is imported once, for all scenarios of a process: what it reads and draws then
        must not depend on which of them comes first. One that is imported anew is so at the start,
        wherever it is imported: a session alone may be the first to do it.
        """
        if self._anew is not None and self._anew(module, file):
            return World(
                Still(self._clock.start),
                self._chance.child(f"import/{module}"),
                zone=self.zone,
                real=self.real,
                anew=self._anew,
            )
        # Another time zone takes too long for each module of a library.
        zone = self.zone if is_library else ""
        return world_of_import(module, is_library, self.real, self._anew, zone)


def world_of_import(
    module: str,
    is_library: bool,
    real: Collection[str] = (),
    anew: Anew | None = None,
    zone: str = "",
) -> World:
    """Return the world in which a module is imported for all scenarios."""
    chance = Chance(0).child(f"import/{module}")
    seeds = _LIBRARIES if is_library else chance
    return World(Still(IMPORT_START), chance, zone=zone, real=real, anew=anew, seeds=seeds)


_LIBRARIES: Final = Chance(0).child("import")
"""Libraries share what is seeded once a process: there are many, and seeding takes its time."""


class Still:
    """A clock that stands: what is done by it takes no time."""

    __slots__ = ("_now", "start")

    def __init__(self, start: datetime) -> None:
        self.start, self._now = start, 0

    def now(self) -> int:
        """Return the milliseconds that have passed: none, unless somebody waits for them."""
        return self._now

    def advance_to(self, at: int) -> None:
        """Jump to a later time."""
        self._now = at


_current: Final = contextvars.ContextVar[World | None]("simkit_world", default=None)


def current_world() -> World | None:
    """Return the world of this context."""
    return _current.get()


def world_of_time(caller: FrameType) -> World | None:
    """Return the world that tells a caller the time; None for the real time."""
    world = _current.get()
    if world is None or "clock" in world.real or _is_machinery(caller):
        return None
    return world


def world_of_chance(caller: FrameType) -> tuple[World, str] | None:
    """Return the world that draws for a caller, and the place in code it draws for; None for
    real chance."""
    world = _current.get()
    if world is None or "chance" in world.real:
        return None
    frame, way, is_stand_in = caller, "", False
    while frame.f_back is not None:
        if frame.f_globals.get("__name__") == _PUTTING_IN_PLACE:
            is_stand_in = True  # For what it calls, the next one does.
        elif _top(frame) not in _PASSING:
            break
        elif is_stand_in:
            is_stand_in = False
        else:
            way = f"{frame.f_code.co_qualname}<{way}"
        frame = frame.f_back
    if _is_machinery(frame):
        return None
    return world, f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}<{way}"


def _is_machinery(frame: FrameType) -> bool:
    return (
        _top(frame) in MACHINERY
        and frame.f_code.co_qualname not in _CARRIERS
        and frame.f_globals.get("__name__") not in _CARRYING
    )


def _top(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")
    return name.partition(".")[0] if isinstance(name, str) else ""


def zone_of(moment: datetime) -> str:
    """Return the local time zone of a moment as ``TZ`` has it: ``UTC0``, ``<+02:00>-02:00``."""
    offset = moment.utcoffset()
    minutes = round(offset.total_seconds() / 60) if offset is not None else 0
    if not minutes:
        return "UTC0"
    hours = f"{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    ahead, behind = ("+", "-") if minutes > 0 else ("-", "+")
    return f"<{ahead}{hours.replace(':', '')}>{behind}{hours}"
