"""simulate(): the whole of simkit on one screen."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from simkit.errors import FunctionMissing, ScriptBroken, SourceError
from simkit.expect.judge import Judgement, judge
from simkit.messages import JsonValue
from simkit.models.script import ScriptedModel, ScriptedTools, call_with
from simkit.pipeline.model import Limits, Pipeline
from simkit.ports import Driver
from simkit.runtime.compiled import compiled
from simkit.runtime.functions import function_named
from simkit.runtime.kernel import NativeDriver, UserTurn
from simkit.scenario.files import Prepared
from simkit.scenario.model import Scenario, Turn
from simkit.scenario.replies import ToolAnswers
from simkit.trace import Trace, canonical, copied


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
        return Outcome(trace, judge(prepared.scenario, prepared.document, trace, function_named))


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
    scenario, pipeline = prepared.scenario, prepared.pipeline
    limits = _limits(pipeline, scenario)
    shared_results, given = _shared(prepared)
    ready = compiled(pipeline)
    functions = ready.functions
    driver: Driver = NativeDriver(
        ready,
        scenario=prepared.item.name,
        seed=scenario.seed,
        start=scenario.start,
        turns=[_user_turn(turn) for turn in scenario.turns],
        given=given,
        model=ScriptedModel(
            [turn.replies for turn in scenario.turns],
            ready.tool_args,
            ready.schemas,
            functions.named,
        ),
        tools=ScriptedTools(
            [turn.tool_results for turn in scenario.turns],
            shared_results,
            {name: t.function for name, t in pipeline.tools.items() if t.function},
            lambda name, args: copied(call_with(functions.named(name), copied(args))),
        ),
        limits=limits,
    )
    trace = Trace()
    try:
        driver.run(trace)
    except ScriptBroken as problem:
        where = prepared.document.position(problem.path)
        raise SourceError(where, problem.what) from problem
    return trace


def _limits(pipeline: Pipeline, scenario: Scenario) -> Limits:
    changed = {k: v for k, v in scenario.limits.model_dump().items() if v is not None}
    return pipeline.limits.model_copy(update=changed) if changed else pipeline.limits


def _shared(prepared: Prepared) -> tuple[Mapping[str, ToolAnswers], Mapping[str, Any]]:
    """Tool results and given state, with those of the files under ``use`` beneath."""
    results: dict[str, ToolAnswers] = {}
    given: dict[str, Any] = {}
    for shared in prepared.shared:
        results.update(shared.tool_results)
        given.update(shared.given.state)
    return results, canonical({**given, **prepared.scenario.given.state})


def _user_turn(turn: Turn) -> UserTurn:
    user = turn.user
    text, value = "", None
    if user is not None and user.text is not None:
        text = user.text
    elif user is not None:
        value = canonical(user.json_)
        text = value if isinstance(value, str) else _json(value)
    return UserTurn(text, value, turn.session, turn.project, turn.expect.has("error"))


def _json(value: JsonValue) -> str:
    return msgspec.json.encode(value).decode()
