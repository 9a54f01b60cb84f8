"""simulate(): the whole of simkit on one screen."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from simkit.errors import FunctionMissing, ProcessFailed, ScriptBroken, SourceError
from simkit.execution import alone, traced, unbroken
from simkit.expect.findings import Hit
from simkit.expect.judge import Judgement, judge
from simkit.expect.twins import reached_by_others, resumed_differs, session_differs
from simkit.runtime.functions import function_named
from simkit.scenario.files import Prepared
from simkit.trace import Trace
from simkit.views import view_of


class Outcome(msgspec.Struct, frozen=True):
    """What came of a scenario: everything that happened, and what did not hold."""

    trace: Trace
    judgement: Judgement

    @property
    def passed(self) -> bool:
        """Whether every claim and lint held."""
        return self.judgement.passed


def simulate(prepared: Prepared, *, seed: int | None = None) -> Outcome:
    """Runs a scenario and judges it; ``seed`` replaces the scenario's own.

    Raises SourceError where the script cannot be served as it is written.
    """
    with _collecting_later():
        if seed is not None:
            prepared = prepared.with_seed(seed)
        trace = run(prepared)
        judgement = judge(
            prepared.scenario, prepared.document, trace, function_named,
            list(_compared(prepared, trace)),
        )  # fmt: skip
        return Outcome(trace, judgement)


def _compared(prepared: Prepared, trace: Trace) -> Iterator[Hit]:
    """Yields where a run differs from the same without restarts, a session from the same alone."""
    scenario = prepared.scenario
    restarts = [place for place, turn in enumerate(scenario.turns, 1) if turn.restart]
    sessions = list(dict.fromkeys(turn.session for turn in scenario.turns))
    if (not restarts or "STA-06" in scenario.lints) and (
        len(sessions) == 1 or "STA-08" in scenario.lints
    ):
        return
    view = view_of(trace.events)
    if restarts and "STA-06" not in scenario.lints:
        yield from resumed_differs(view, view_of(unbroken(prepared).events), restarts)
    if len(sessions) > 1 and "STA-08" not in scenario.lints:
        starts = [turn.at for turn in view.turns]
        reached = reached_by_others(view)
        for session in sessions:
            if session not in reached:
                other = view_of(alone(prepared, session, starts).events)
                yield from session_differs(view, other, session)


@contextmanager
def _collecting_later() -> Iterator[None]:
    """Leaves the garbage collector out of a run.

    Events and views only grow and hold no cycles, so each full collection would walk all of them
    to find nothing: about a third of the time at 10,000 turns.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def run(prepared: Prepared, *, seed: int | None = None) -> Trace:
    """Runs a scenario without judging it; ``seed`` and errors are those of `simulate`."""
    if seed is not None:
        prepared = prepared.with_seed(seed)
    try:
        return _run(prepared)
    except FunctionMissing as problem:
        for document in (prepared.pipeline_document, prepared.document):
            path = document.path_of(problem.name)
            if path is not None:
                raise SourceError(document.position(path), problem.what) from problem
        raise


def _run(prepared: Prepared) -> Trace:
    try:
        return traced(prepared)
    except (ProcessFailed, ScriptBroken) as problem:
        where = prepared.document.position(problem.path)
        raise SourceError(where, problem.what) from problem
