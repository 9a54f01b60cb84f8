"""Comparison runs of a scenario: without its restarts, and with one session only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from simkit.runtime.compiled import compile_pipeline
from simkit.session.execution.own_process import (
    call_in_another,
    is_own_process,
    wants_own_process,
)
from simkit.session.execution.running import Execution
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.model import Turn
from simkit.trace.store import Trace


def unbroken(prepared: Prepared) -> Trace:
    """Return the trace of a scenario without its restarts."""
    return _apart(prepared, [_without_place(turn) for turn in prepared.scenario.turns])


def alone(prepared: Prepared, session: str, starts: Sequence[int]) -> Trace:
    """Return the trace of one session of a scenario alone.

    ``starts`` are the virtual times at which the scenario's turns began; its turns begin then, too.
    """
    turns = prepared.scenario.turns
    places = [place for place, turn in enumerate(turns) if turn.session == session]
    places = [place for place in places if place < len(starts)]
    return _apart(
        prepared,
        [_without_place(turns[place]) for place in places],
        [starts[place] for place in places],
        given_project=turns[0].project,
        numbers=[place + 1 for place in places],
    )


def _without_place(turn: Turn) -> Turn:
    return turn.model_copy(update={"restart": False})


def _apart(
    prepared: Prepared,
    turns: Sequence[Turn],
    starts: Sequence[int] = (),
    given_project: str | None = None,
    numbers: Sequence[int] = (),
) -> Trace:
    """Run turns without influence of module state from another run."""
    pipeline, is_apart = prepared.pipeline, False
    run: Callable[..., Any] = _run
    if not isinstance(pipeline, App):
        is_apart = compile_pipeline(pipeline).functions.were_called
    elif wants_own_process(prepared):
        is_apart = True
    elif is_own_process():
        run = partial(call_in_another, _run)
    else:
        apart = msgspec.structs.replace(pipeline, is_apart=True)
        prepared = msgspec.structs.replace(prepared, pipeline=apart)
    options = {"is_apart": is_apart, "given_project": given_project, "numbers": numbers}
    trace: Trace = run(prepared, turns, starts, options)
    return trace


def _run(
    prepared: Prepared, turns: Sequence[Turn], starts: Sequence[int], options: Mapping[str, Any]
) -> Trace:
    with Execution(prepared, **options, outlives_crashes=True) as execution:
        execution.follow(turns, starts)
        return execution.finish()
