"""One conversation that nobody wrote: it is run, judged by the lints, and kept as a script."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from simkit.checks.findings import CLAIM, Finding
from simkit.core.messages import JsonValue
from simkit.explore.choices import Choices, TurnPlan
from simkit.explore.interfaces import ChoosingModel, ChoosingTools, Lines
from simkit.runtime.compiled import CompiledPipeline
from simkit.runtime.models.script import call_with
from simkit.runtime.ports import Tools, TurnModel
from simkit.runtime.schemas import schema_of
from simkit.session.simulate import Conversation
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.model import Turn
from simkit.trace.store import canonical, copied

_ERROR: Final = re.compile(r"ended with error (\w+)")
NO_SCHEMAS: Final[Mapping[str, Any]] = {}


class Cause(NamedTuple):
    """The kind of a finding, without what differs from run to run: one cause is one discovery."""

    id: str
    """The lint, or ``claim`` for an error that ended a turn."""
    agent: str
    error_type: str
    """The type of the error; empty for lints, whose id says what is wrong."""


class ExploredRun(msgspec.Struct, frozen=True):
    """A conversation that was run."""

    turns: tuple[Mapping[str, Any], ...]
    """The turns of a scenario that repeats it."""
    causes: Mapping[Cause, Finding]
    model_calls: int


def converse(prepared: Prepared, plans: Sequence[TurnPlan], texts: Sequence[str]) -> ExploredRun:
    """Run a conversation and judge it by the lints; ``texts`` are what a user may say.

    Raise SourceError, as `simkit.simulate` does, if the pipeline cannot be run.
    """
    users = [Choices(plan.user).one_of(texts) for plan in plans]
    turns = tuple(_turn(text) for text in users)
    scenario = prepared.scenario.model_copy(update={"turns": turns})
    data = {**prepared.document.data, "turns": [{"user": text} for text in users]}
    scripted = msgspec.structs.replace(
        prepared, scenario=scenario, document=prepared.document.with_data(data), waiting={}
    )
    lines = Lines()

    def simulate(ready: CompiledPipeline | None) -> tuple[TurnModel, Tools]:
        return _choosing(ready, plans, lines)

    with Conversation(scripted, simulate=simulate) as conversation:
        conversation.follow(scripted)
        conversation.end()
        judgement = conversation.judgement()
        calls = sum(len(turn.calls) for turn in conversation.view.turns)
    return ExploredRun(
        tuple(_script(users, lines)),
        {cause_of(finding): finding for finding in judgement.findings if not finding.follows},
        calls,
    )


def cause_of(finding: Finding) -> Cause:
    """Return the cause of a finding."""
    error = _ERROR.search(finding.what) if finding.id == CLAIM else None
    return Cause(finding.id, finding.agent, error[1] if error else "")


@lru_cache(maxsize=256)
def _turn(text: str) -> Turn:
    return Turn.model_validate({"user": text})


def _choosing(
    ready: CompiledPipeline | None, plans: Sequence[TurnPlan], lines: Lines
) -> tuple[TurnModel, Tools]:
    if ready is None:
        model = ChoosingModel(plans, lines, {}, NO_SCHEMAS, lambda source, target: None, ())
        # Tools of code run for real: the code itself calls them.
        return model, ChoosingTools(
            plans, lines, lambda tool: True, lambda tool, args: None, {}, NO_SCHEMAS
        )
    pipeline, schemas = ready.pipeline, ready.schemas
    functions = {name: tool.function for name, tool in pipeline.tools.items() if tool.function}

    def payload_of(source: str, target: str) -> JsonValue:
        for contract in ready.contracts:
            if contract.to == target and {source, "*"} & {*contract.from_}:
                return canonical(schema_of(contract.payload, schemas))
        return None

    def run(tool: str, args: JsonValue) -> JsonValue:
        return copied(call_with(ready.functions.named(functions[tool]), copied(args)))

    names = tuple(ready.agents)
    return ChoosingModel(plans, lines, ready.tool_args, schemas, payload_of, names), ChoosingTools(
        plans, lines, functions.__contains__, run, ready.tool_returns, schemas
    )


def _script(users: Sequence[str], lines: Lines) -> Iterator[dict[str, Any]]:
    """Yield each turn that was taken, as a scenario says it."""
    for text, replies, results in zip(users, lines.replies, lines.results, strict=False):
        turn: dict[str, Any] = {"user": text}
        if replies:
            turn["replies"] = {
                agent: given[0] if len(given) == 1 else given for agent, given in replies.items()
            }
        if results:
            turn["tool_results"] = results
        yield turn
