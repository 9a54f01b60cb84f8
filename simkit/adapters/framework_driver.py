"""Interface of adapters: an adapter runs a framework's pipelines; everything else is shared.

An adapter is a module with a function ``driver(subject, app, adapter_context)``. It returns a
FrameworkDriver for a subject of its framework, and None for any other. simkit finds the adapter in
the entry point group ``simkit.adapters``, under the name of a module that only this framework has,
and calls it once that module is imported. (`agents` alone could be anybody's own package.)
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, Final, Generic, Protocol, TypeVar, runtime_checkable

from simkit.adapters.entry import Caller, Responder, build, found_as
from simkit.adapters.input_shapes import (
    fields_taken,
    fitted,
    given_input,
    input_advice,
    parameter_type,
    type_advice,
)
from simkit.adapters.plain_values import Snapshots
from simkit.adapters.recorder.sessions import Run
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.adapters.tool_use import ToolUse
from simkit.core import errors
from simkit.core.compat import GROUP, unfit
from simkit.core.messages import JsonValue
from simkit.core.stopping import halting_at
from simkit.language.yaml import SourcePath
from simkit.runtime.ports import UserTurn
from simkit.runtime.sessions import Gifts
from simkit.spec.scenario.apps import App, AppOptions
from simkit.trace.events import PipelineFacts
from simkit.trace.store import copied

EVERYBODYS_OPTIONS: Final = frozenset(
    ("env", "errors", "fresh", "given", "logs", "path", "process", "real", "setup", "tools")
)
"""The options of an app that simkit itself reads, whatever runs the pipeline."""
DRIVER_OPTIONS: Final = tuple(sorted({*AppOptions.model_fields} - EVERYBODYS_OPTIONS))
"""The options of an app that a driver reads, or does not: all others."""
COMPUTED_PROMPT: Final = "${instructions}"
"""Placeholder for instructions that a function computes."""


def refuse_options(app: App, name: str, app_options: Collection[str]) -> None:
    """Raise ScriptBroken for an option that a driver does not read: it would do nothing.

    ``name`` is the driver's; ``app_options`` are those of `DRIVER_OPTIONS` that it reads.
    """
    for option in DRIVER_OPTIONS:
        if getattr(app.options, option) and option not in app_options:
            known = " and ".join(f"`{each}`" for each in app_options)
            raise errors.ScriptBroken(
                f"`{option}` does nothing here: what runs `{app.entry}` (the driver `{name}`) "
                f"reads {known}.\nLeave it out.",
                ("app", option),
            )


def choose_method(app: App, ways: Sequence[str], noun: str = "an agent") -> str:
    """Return the method that runs ``noun``: the app's, or else the first.

    Raise FunctionMissing for an unknown method.
    """
    way = app.options.call or ways[0]
    if way not in ways:
        raise errors.FunctionMissing(f"{noun} is run by {', '.join(ways)}: not by `{way}`", way)
    return way


def make_run_options(app: App, session: str) -> dict[str, Any]:
    """Return the options with which a session's agent is run.

    Raise FunctionMissing if the function does not exist, or returns no mapping.
    """
    options = app.options.run_options or {}
    if isinstance(options, str):
        entry, make = options, found_as(options)
        named = "session" in inspect.signature(make).parameters
        options = make(session=session) if named else make()
        if not isinstance(options, Mapping):
            raise errors.FunctionMissing(
                f"`{entry}` returns an object of class `{type(options).__name__}`, not a mapping "
                "of what an agent is run with, by its names",
                entry,
            )
        return dict(options)
    # Each session gets objects of its own, which its run may change.
    return dict(copied(options))


def gifts_of(
    initial_state: Mapping[str, JsonValue], facts: PipelineFacts, project: str | None = None
) -> Gifts:
    """Return the given state of sessions, by the scopes of the pipeline's channels."""
    scopes = {name: channel.scope for name, channel in facts.channels.items()}
    return Gifts(initial_state, lambda name: scopes.get(name, "session"), project)


def put_given_state(app: App, recorder: TraceRecorder, thing: Any, **more: Any) -> None:
    """Call the scenario's function that puts given state into ``thing``.

    It gets ``start``, the first moment, and ``more``, if it has these parameters. Raise
    FunctionMissing.
    """
    if not recorder.initial_state or app.options.given is None:
        return
    put = found_as(app.options.given)
    takes = inspect.signature(put).parameters
    values = {"start": recorder.clock.iso(0), "project": recorder.project, **more}
    state = copied(dict(recorder.initial_state))
    put(thing, state, **{name: value for name, value in values.items() if name in takes})


def object_behind(responder: Any) -> Any:
    """Return the object of a method, or the function itself."""
    while isinstance(responder, partial):
        responder = responder.func
    return getattr(responder, "__self__", responder)


class HeldState:
    """The last seen fields of one scenario's objects."""

    def __init__(self, recorder: TraceRecorder) -> None:
        self._recorder, self._snapshots = recorder, Snapshots()
        self._known: dict[tuple[str, str], dict[str, JsonValue]] = {}

    def look_into(self, name: str, values: Mapping[str, JsonValue], run: Run | None) -> None:
        """Record the changed values of a state with a name, which ``run`` wrote.

        Without a run they are given.
        """
        recorded = self._known.setdefault((self._recorder.session, name), {})
        update = {name: value for name, value in values.items() if recorded.get(name, ...) != value}
        recorded |= update
        if update:
            agent, cause = (run.agent, "writes") if run is not None else ("", "given")
            self._recorder.wrote(update, agent, run, cause=cause)

    def look(self, thing: Any, otherwise: str, run: Run | None) -> None:
        """Record the changed fields of an object: ``run`` wrote them, unless the object is new.

        An object without fields is one channel with the name ``otherwise``.
        """
        if thing is None:
            return
        update, is_new = self._snapshots.changes(self._recorder.session, thing, otherwise)
        if not update:
            return
        writer = None if is_new else run
        agent = writer.agent if writer is not None else ""
        self._recorder.wrote(update, agent, writer, cause="given" if is_new else "writes")


@dataclass(slots=True, eq=False)
class AdapterContext:
    """The object that simkit passes to an adapter: recorder, caller, `use_tool`, `halt`."""

    recorder: TraceRecorder
    caller: Caller
    use_tool: ToolUse
    """Executes a tool's call by the scenario or for real, and records it."""
    halt: Callable[[errors.SimkitError], errors.RunHalted | errors.SimkitError]
    """Records why the run cannot continue, and returns the exception to raise."""

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Let one thread write; raise RunHalted after an error by which the run cannot continue."""
        with self.recorder.lock, halting_at(self.halt):
            yield

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

    def asks_nothing(self, because: str) -> errors.ScriptMisfit:
        """Return the error of a turn that answers an interrupt although there is none."""
        turn = self.recorder.turn
        return errors.ScriptMisfit(
            f"turn {turn} answers an interrupt, {because}", ("turns", turn - 1, "resume")
        )

    def gone_on(self, reply: Any) -> Any:
        """Return the reply of code that nobody can answer: what its agents ask, it decides."""
        self.recorder.waits_for = ""
        return reply


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


MakeDriver = Callable[[Any, App, AdapterContext], FrameworkDriver | None]


@lru_cache(maxsize=1)
def _adapters() -> tuple[EntryPoint, ...]:
    """Return every installed adapter."""
    return tuple(entry_points(group=GROUP))


def driver_for(subject: Any, app: App, adapter_context: AdapterContext) -> FrameworkDriver | None:
    """Return the driver for a pipeline's object; None if no adapter knows its type.

    Raise Unsupported for an adapter that cannot be imported.
    """
    for name, module in loaded_adapters():
        make_driver: MakeDriver | None = getattr(module, "driver", None)
        if make_driver is None and not hasattr(module, "instrumentation"):
            raise _unusable(name, f"module {module.__name__!r} has no attribute 'driver'")
        driver = make_driver and make_driver(subject, app, adapter_context)
        if driver is not None:
            return driver
    return None


def loaded_adapters() -> Iterator[tuple[str, ModuleType]]:
    """Yield name and module of every adapter with an imported framework; raise Unsupported."""
    for entry in _adapters():
        if entry.name not in sys.modules:
            continue
        yield entry.name, _stand_ins.get(entry.name) or _imported(entry)


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
    if why := unfit(entry):
        raise _unusable(entry.name, f"{why}.")
    try:
        return import_module(entry.value)
    except Exception as problem:  # With another version of the framework, anything may be missing.
        kind = "" if isinstance(problem, errors.Unsupported) else f"{type(problem).__name__}: "
        raise _unusable(entry.name, f"{kind}{problem}") from problem


def _unusable(name: str, why: str) -> errors.Unsupported:
    return errors.Unsupported(f"the adapter for {name!r} cannot be used: {why}")


def known() -> Iterator[str]:
    """Yield the names of the installed adapters."""
    yield from (entry.name for entry in _adapters())


class FunctionDriver(FrameworkDriver):
    """Runs a function of the user's message.

    It does not observe nodes, sections, and state without annotations (`simkit.state`).
    """

    name = "python"
    app_options: Collection[str] = ("call", "input")

    def __init__(
        self, subject: Any, app: App, adapter_context: AdapterContext, subject_value: Any = None
    ) -> None:
        """``subject_value`` is the result of the factory ``subject`` for the first session."""
        self._subject, self._app, self._adapter_context = subject, app, adapter_context
        self._subject_value = subject_value
        self._responders = SessionMemory(self._begin)

    def run_turn(self, turn: UserTurn) -> Any:
        """Call the function with the user's message."""
        if turn.resumes:
            raise self._adapter_context.asks_nothing(
                f"which `{self._app.entry}` cannot make: it is a function of the user's message."
            )
        return self._adapter_context.gone_on(self.reply_to(turn))

    def reply_to(self, turn: UserTurn) -> Any:
        """Return what the function replies to the user's message, or to what is made of it."""
        value = turn.message
        path: SourcePath = ("turns", self._adapter_context.recorder.turn - 1, "user")
        if self._app.options.input is not None:
            value, path = given_input(self._app.options.input, turn), ("app", "input")
        responder = self._responders.of(turn)
        if not isinstance(value, str):
            value = fitted(value, parameter_type(responder), self._app.entry, path)
        return self._adapter_context.caller.call(responder, value)

    def input_advice(self, turn: UserTurn, problem: BaseException) -> str:
        """Return what to do if the function takes no text, and got one."""
        if turn.resumes or self._app.options.input is not None:
            return ""
        if not isinstance(turn.value, str | None):
            return ""
        responder = self._responders.of(turn)
        schemas = fields_taken(responder)
        if schemas is not None:
            return input_advice(self._app.entry, schemas)
        return type_advice(self._app.entry, parameter_type(responder))

    def _begin(self, turn: UserTurn) -> Responder:
        # The object made before the first turn belongs to another session if others came before.
        subject_value = None if turn.turns_before else self._subject_value
        self._subject_value = None
        responder = build(
            self._app.entry,
            self._subject,
            self._app.options.call,
            turn.session,
            subject_value,
            self._adapter_context.caller.call,
        )
        recorder = self._adapter_context.recorder
        put_given_state(self._app, recorder, object_behind(responder), session=turn.session)
        return responder
