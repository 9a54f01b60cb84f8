"""Interface of adapters: an adapter runs a framework's pipelines; everything else is shared.

An adapter is a module with a function ``driver(subject, app, adapter_context)``. It returns a
FrameworkDriver for a subject of its framework, and None for any other. simkit finds the adapter in
the entry point group ``simkit.adapters``, under the name of a module that only this framework has,
and calls it once that module is imported. (`agents` alone could be anybody's own package.)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from threading import RLock
from types import ModuleType
from typing import Any, Final, Generic, Protocol, TypeVar, runtime_checkable

from simkit.adapters.app_options import DRIVER_OPTIONS
from simkit.adapters.entry import Caller
from simkit.adapters.libraries import unfit
from simkit.adapters.recorder.sessions import Run
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.adapters.tool_use import ToolUse
from simkit.core.errors import RunHalted, ScriptMisfit, SimkitError, Unsupported
from simkit.runtime.ports import UserTurn
from simkit.spec.scenario.apps import App
from simkit.trace.events import PipelineFacts

GROUP: Final = "simkit.adapters"
COMPUTED_PROMPT: Final = "${instructions}"
"""Placeholder for instructions that a function computes."""


class _Writing:
    """A recorder's lock, as a cheap context manager; reentrant, for any thread."""

    __slots__ = ("_halt", "_lock")

    def __init__(self, lock: RLock, halt: Callable[[SimkitError], RunHalted]) -> None:
        self._lock, self._halt = lock, halt

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: object
    ) -> None:
        try:
            if problem is not None and isinstance(problem, SimkitError):
                raise self._halt(problem) from problem
        finally:
            self._lock.release()


class AdapterContext:
    """The object that simkit passes to an adapter: recorder, caller, `use_tool`, `halt`."""

    __slots__ = ("_writing", "caller", "halt", "recorder", "use_tool")

    def __init__(
        self,
        recorder: TraceRecorder,
        caller: Caller,
        use_tool: ToolUse,
        halt: Callable[[SimkitError], RunHalted],
    ) -> None:
        """``use_tool`` executes a tool's call by the scenario or for real, and records it.

        ``halt`` records why the run cannot continue, and returns the exception to raise.
        """
        self.recorder, self.caller, self.use_tool, self.halt = recorder, caller, use_tool, halt
        self._writing = _Writing(recorder.lock, halt)

    def writing(self) -> AbstractContextManager[None]:
        """Return what lets one thread write; it raises if the run cannot continue.

        It may be kept, and entered again.
        """
        return self._writing

    async def carry_out(
        self,
        tool: str,
        args: Mapping[str, Any],
        call_id: str,
        real: Callable[[], Any],
        returns: Any = None,
    ) -> Any:
        """Execute the call that a model has made under an id; return the result."""
        with self.recorder.lock:
            request = self.recorder.call_request(call_id)
        return await self.use_tool.in_loop(tool, args, real, request, returns)

    def asks_nothing(self, because: str) -> ScriptMisfit:
        """Return the error of a turn that answers an interrupt although there is none."""
        turn = self.recorder.turn
        return ScriptMisfit(
            f"turn {turn} answers an interrupt, {because}", ("turns", turn - 1, "resume")
        )


class FrameworkDriver(Protocol):
    """Runs the turns of a pipeline of one framework, and observes what requests do not show.

    A subclass must define only ``run_turn``.
    """

    name: str
    """The driver's name in traces and findings."""
    app_options: Collection[str] = DRIVER_OPTIONS
    """Those of `DRIVER_OPTIONS` that it reads: a scenario that sets another one is refused."""

    def facts(self, facts: PipelineFacts) -> PipelineFacts:
        """Return the pipeline's facts, added to those known without the driver."""
        return facts

    def run_turn(self, turn: UserTurn) -> Any:
        """Run one turn to its end; return the reply. An exception is the pipeline's error."""

    def run_now(self) -> Run | None:
        """Return the agent run of a model call from this code; None if unknown."""
        return None

    def ends_runs(self) -> bool:
        """Return whether it reports the end of agent runs itself."""
        return False

    def close(self) -> None:
        """Remove what it installed in the framework."""
        return None


@runtime_checkable
class Restartable(Protocol):
    """A driver whose pipeline keeps something that outlives its process."""

    def restart(self) -> None:
        """Build the pipeline again, as a new process would.

        Raise ScriptMisfit if nothing of it would be left.
        """


@runtime_checkable
class ExplainsInput(Protocol):
    """A driver that knows which input its pipeline takes."""

    def input_advice(self, turn: UserTurn, problem: BaseException) -> str:
        """Return how the pipeline is given its input, if a wrong one may have made it fail."""


MemoryT = TypeVar("MemoryT")


class SessionMemory(Generic[MemoryT]):
    """The conversation memories of a driver: each turn continues the memory of its session.

    A scenario has a driver of its own, so it begins without any memory. Example::

        self._memory = SessionMemory(lambda turn: Conversation())
        ...
        conversation = self._memory.of(turn)
    """

    def __init__(self, make: Callable[[UserTurn], MemoryT]) -> None:
        """``make`` returns an empty memory for a session, of which it gets the first turn."""
        self._make = make
        self._memories: dict[str, MemoryT] = {}

    def of(self, turn: UserTurn) -> MemoryT:
        """Return the memory that a turn continues, an empty one in the first turn of a session."""
        if turn.session not in self._memories:
            self._memories[turn.session] = self._make(turn)
        return self._memories[turn.session]


Make = Callable[[Any, App, AdapterContext], FrameworkDriver | None]


@lru_cache(maxsize=1)
def _adapters() -> tuple[EntryPoint, ...]:
    """Return every installed adapter."""
    return tuple(entry_points(group=GROUP))


def pilot_for(subject: Any, app: App, adapter_context: AdapterContext) -> FrameworkDriver | None:
    """Return the driver for a pipeline's object; None if no adapter knows its type.

    Raise Unsupported for an adapter that cannot be imported.
    """
    for name, module in loaded_adapters():
        try:
            make: Make = module.driver
        except AttributeError as problem:
            raise Unsupported(f"the adapter for {name!r} cannot be used: {problem}") from problem
        make_driver = make(subject, app, adapter_context)
        if make_driver is not None:
            return make_driver
    return None


def loaded_adapters() -> Iterator[tuple[str, ModuleType]]:
    """Yield name and module of every adapter with an imported framework; raise Unsupported."""
    for entry in _adapters():
        if entry.name not in sys.modules:
            continue
        if entry.name in _stand_ins:
            yield entry.name, _stand_ins[entry.name]
            continue
        problem = unfit(entry)
        if problem:
            raise Unsupported(f"the adapter for {entry.name!r} cannot be used: {problem}.")
        yield entry.name, _imported(entry)


_stand_ins: Final[dict[str, Any]] = {}
"""Replacements for installed adapters, by name."""


@contextmanager
def standing_in(name: str, adapter: Any) -> Iterator[None]:
    """Replace the adapter that is installed under a name."""
    _stand_ins[name] = adapter
    try:
        yield
    finally:
        del _stand_ins[name]


def _imported(entry: EntryPoint) -> ModuleType:
    try:
        return import_module(entry.value)
    except Exception as problem:  # With another version of the framework, anything may be missing.
        kind = "" if isinstance(problem, Unsupported) else f"{type(problem).__name__}: "
        raise Unsupported(
            f"the adapter for {entry.name!r} cannot be used: {kind}{problem}"
        ) from problem


def known() -> Iterator[str]:
    """Yield the names of the installed adapters."""
    yield from (entry.name for entry in _adapters())
