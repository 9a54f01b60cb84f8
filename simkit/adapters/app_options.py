"""Options of an agent's run (``app: {call: …, run_options: …}``), and objects that hold state."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from simkit.adapters.entry import found_as
from simkit.adapters.plain_values import Snapshots
from simkit.adapters.recorder.sessions import Run
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.core.errors import FunctionMissing
from simkit.core.messages import JsonValue
from simkit.runtime.sessions import Gifts
from simkit.spec.scenario.apps import App, AppOptions
from simkit.trace.events import PipelineFacts
from simkit.trace.store import copied

EVERYBODYS_OPTIONS: Final = frozenset(
    ("env", "errors", "fresh", "given", "logs", "path", "real", "setup", "tools")
)
"""The options of an app that simkit itself reads, whatever runs the pipeline."""
DRIVER_OPTIONS: Final = tuple(sorted({*AppOptions.model_fields} - EVERYBODYS_OPTIONS))
"""The options of an app that a driver reads, or does not: all others."""


def choose_method(app: App, ways: Sequence[str], noun: str = "an agent") -> str:
    """Return the method that runs ``noun``: the app's, or else the first.

    Raise FunctionMissing for an unknown method.
    """
    way = app.options.call or ways[0]
    if way not in ways:
        raise FunctionMissing(f"{noun} is run by {', '.join(ways)}: not by `{way}`", way)
    return way


def make_run_options(app: App, session: str) -> dict[str, Any]:
    """Return the options with which a session's agent is run.

    Raise FunctionMissing if the function does not exist, or returns no mapping.
    """
    options = app.options.run_options or {}
    if isinstance(options, str):
        return options_made(options, found_as(options), session)
    # Each session gets objects of its own, which its run may change.
    return dict(copied(options))


def options_made(entry: str, make: Callable[..., Any], session: str) -> dict[str, Any]:
    """Return the options from ``make``, which gets the session's name if it takes one."""
    named = "session" in inspect.signature(make).parameters
    options = make(session=session) if named else make()
    if not isinstance(options, Mapping):
        raise FunctionMissing(
            f"`{entry}` returns an object of class `{type(options).__name__}`, not a mapping of "
            "what an agent is run with, by its names",
            entry,
        )
    return dict(options)


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
