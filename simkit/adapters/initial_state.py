"""What a scenario gives: put into the state of code by the function that `app.given` names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

from simkit.adapters.entry import found_as
from simkit.adapters.trace_recorder import TraceRecorder
from simkit.core.messages import JsonValue
from simkit.runtime.initial_values import Gifts
from simkit.spec.scenario.apps import App
from simkit.trace.events import PipelineFacts
from simkit.trace.store import copied


def gifts_of(
    initial_state: Mapping[str, JsonValue], facts: PipelineFacts, project: str | None = None
) -> Gifts:
    """Returns what sessions are given, by how long the pipeline's channels last."""
    scopes = {name: channel.scope for name, channel in facts.channels.items()}
    return Gifts(initial_state, lambda name: scopes.get(name, "session"), project)


def give(app: App, recorder: TraceRecorder, thing: Any, **more: Any) -> None:
    """Has what the scenario gives put into ``thing``; of ``start``, its first moment, and what
    ``more`` there is to tell, the function gets what it takes. Raises FunctionMissing."""
    if not recorder.initial_state or app.options.given is None:
        return
    put = found_as(app.options.given)
    takes = inspect.signature(put).parameters
    values = {"start": recorder.clock.iso(0), "project": recorder.project, **more}
    state = copied(dict(recorder.initial_state))
    put(thing, state, **{name: value for name, value in values.items() if name in takes})


def object_behind(talk: Any) -> Any:
    """Returns the object that has a method; a function itself."""
    while isinstance(talk, partial):
        talk = talk.func
    return getattr(talk, "__self__", talk)
