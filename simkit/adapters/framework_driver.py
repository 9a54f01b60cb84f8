"""What an adapter does for its framework: it runs a pipeline's turns; all else is shared.

An adapter is a module with a function ``driver(subject, app, adapter_context)``. It returns a
FrameworkDriver for a subject of its framework, and None for any other. simkit finds the adapter in
the entry point group ``simkit.adapters``, under the name of a module that only this framework has,
and asks it once that module is imported. (`agents` alone could be anybody's own package.)
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from threading import RLock
from types import ModuleType
from typing import Any, Final, Protocol, runtime_checkable

from simkit.adapters.activations import Run, ToolRequest
from simkit.adapters.entry import Caller
from simkit.adapters.libraries import unfit
from simkit.adapters.trace_recorder import TraceRecorder
from simkit.core.errors import RunHalted, ScriptMisfit, SimkitError, Unsupported
from simkit.runtime.ports import UserTurn
from simkit.spec.scenario.apps import App
from simkit.trace.events import PipelineFacts

GROUP: Final = "simkit.adapters"
COMPUTED_PROMPT: Final = "${instructions}"
"""Stands for an agent's instructions where a function makes them."""


class UseTool(Protocol):
    """Carries out a call of one of the pipeline's tools."""

    def __call__(
        self,
        tool: str,
        args: Mapping[str, Any],
        real: Callable[[], Any],
        request: ToolRequest | None = None,
        returns: Any = None,
    ) -> Any:
        """Return the result, or an awaitable of it; ``request`` is the model's request, if known.

        ``returns`` is what the tool says that it returns, if it does: an annotation
        (``returned_by(function)``), or a JSON Schema.
        """


class _Writing:
    """Holds a recorder's lock; entered many times a turn, from any thread, and also when inside."""

    __slots__ = ("_halt", "_lock")

    def __init__(self, lock: RLock, halt: Callable[[SimkitError], RunHalted]) -> None:
        self._lock, self._halt = lock, halt

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: object
    ) -> None:
        try:
            if isinstance(problem, SimkitError):
                raise self._halt(problem) from problem
        finally:
            self._lock.release()


class AdapterContext:
    """What a driver works with: who writes down what it sees, and who runs coroutines."""

    __slots__ = ("_writing", "caller", "halt", "recorder", "use_tool")

    def __init__(
        self,
        recorder: TraceRecorder,
        caller: Caller,
        use_tool: UseTool,
        halt: Callable[[SimkitError], RunHalted],
    ) -> None:
        """``use_tool`` carries out a tool's call by the scenario or for real, and writes it down.

        ``halt`` remembers why the run cannot go on, and returns what to raise.
        """
        self.recorder, self.caller, self.use_tool, self.halt = recorder, caller, use_tool, halt
        self._writing = _Writing(recorder.lock, halt)

    def writing(self) -> AbstractContextManager[None]:
        """Let one thread write; where the run cannot go on, the pipeline's code must not."""
        return self._writing

    async def carry_out(
        self,
        tool: str,
        args: Mapping[str, Any],
        call_id: str,
        real: Callable[[], Any],
        returns: Any = None,
    ) -> Any:
        """Carry out the call that a model has made under an id; return the result."""
        with self.recorder.lock:
            request = self.recorder.call_request(call_id)
        result = self.use_tool(tool, args, real, request, returns)
        return await result if inspect.isawaitable(result) else result

    def asks_nothing(self, because: str) -> ScriptMisfit:
        """Return what to raise where a turn answers an interrupt that there is not."""
        turn = self.recorder.turn
        return ScriptMisfit(
            f"turn {turn} answers an interrupt, {because}", ("turns", turn - 1, "resume")
        )


class FrameworkDriver(Protocol):
    """Runs the turns of a pipeline of one framework, and sees what a wire cannot show.

    Who inherits from it has to write ``run_turn`` alone.
    """

    name: str
    """The driver's name in traces and findings."""

    def facts(self, facts: PipelineFacts) -> PipelineFacts:
        """Return what judges need to know of the pipeline, put into what is known without it."""
        return facts

    def run_turn(self, turn: UserTurn) -> Any:
        """Run one turn to its end; return the reply. What it raises is the pipeline's error."""

    def run_now(self) -> Run | None:
        """Return the activation to which a model call made by this code belongs; None where the
        framework does not know."""
        return None

    def ends_runs(self) -> bool:
        """Return whether it says itself when an activation is over."""
        return False

    def close(self) -> None:
        """Take away what it put into the framework."""
        return None


@runtime_checkable
class Restartable(Protocol):
    """A driver whose pipeline keeps something that outlives its process."""

    def restart(self) -> None:
        """Build the pipeline anew, as a new process would; raise ScriptMisfit where nothing of
        it would be left."""


Make = Callable[[Any, App, AdapterContext], FrameworkDriver | None]


@lru_cache(maxsize=1)
def _adapters() -> tuple[EntryPoint, ...]:
    """Every adapter that is installed."""
    return tuple(entry_points(group=GROUP))


def pilot_for(subject: Any, app: App, adapter_context: AdapterContext) -> FrameworkDriver | None:
    """Return the driver for a pipeline's object; None where no adapter knows its type.

    Raises Unsupported for an adapter that cannot be imported.
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
    """Yield name and module of every adapter whose framework is imported; raise Unsupported."""
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
"""What is asked in the place of installed adapters, by their names."""


@contextmanager
def standing_in(name: str, adapter: Any) -> Iterator[None]:
    """Let another adapter be asked in the place of the one that is installed under a name."""
    _stand_ins[name] = adapter
    try:
        yield
    finally:
        del _stand_ins[name]


def _imported(entry: EntryPoint) -> ModuleType:
    try:
        return import_module(entry.value)
    except Exception as problem:  # Of another version of the framework anything may be missing.
        kind = "" if isinstance(problem, Unsupported) else f"{type(problem).__name__}: "
        raise Unsupported(
            f"the adapter for {entry.name!r} cannot be used: {kind}{problem}"
        ) from problem


def known() -> Iterator[str]:
    """Yield the names of the adapters that are installed."""
    yield from (entry.name for entry in _adapters())
