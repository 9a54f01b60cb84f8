"""Answers at hand change nothing: what needs no waiting emits what waits for each answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple

import pytest

from simkit.core.errors import SimkitError
from simkit.runtime import compiled, flows, running
from simkit.runtime.context.assembly import Assembly
from simkit.runtime.functions import function_named
from simkit.runtime.models.script import ScriptedModel
from simkit.session.simulate import run
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.replies import compiled_script, line_of
from simkit.trace.events import ContextBuilt, MessageAdded
from tests.building import run_yaml
from tests.oracle.comparing import played
from tests.oracle.generator import FLOWS, Draw
from tests.runtime.passing import passing

Patch = pytest.MonkeyPatch


def waits_for_each(patch: Patch) -> None:
    """No answer is at hand, so that each model call has a request and is waited for."""
    patch.setattr(ScriptedModel, "at_hand", lambda *of: None)


def builds_each_context(patch: Patch) -> None:
    """No recipe is plain, so that each context is built entry by entry."""
    patch.setattr(Assembly, "plain", lambda *of: None)
    patch.setattr(compiled._COMPILED, "known", {})


def steps_each_run(patch: Patch) -> None:
    """No run is straight."""
    patch.setattr(flows, "ran_straight", lambda *of: None)


def writes_in_general(patch: Patch) -> None:
    """No writes are plain."""
    patch.setattr(running, "_wrote_plainly", lambda *of: False)


LESS: Final[tuple[Callable[[Patch], None], ...]] = (
    waits_for_each,
    builds_each_context,
    steps_each_run,
    writes_in_general,
)
"""What is done without a shortcut."""


KINDS: Final = (
    "ToolCalled", "ToolReturned", "ToolFailed", "HandoffRejected transfer", "HandoffMade transfer",
    "HandoffMade delegate", "HandoffMade replace", "ModelFailed", "FaultInjected", "LimitReached",
    "HistorySummarised", "ReplyParsed", "AgentFinished cancelled", "AgentFinished failed",
    "AgentFinished handed_off", "AgentFinished stood_in", "AgentFinished",
)  # fmt: skip
"""What happens in some of the conversations."""


def result_of(work: Callable[[], Any]) -> Any:
    """Returns what work returns, or the text of its error."""
    try:
        return work()
    except SimkitError as problem:
        return f"{type(problem).__name__}: {problem}"


def same(work: Callable[[], Any]) -> Any:
    """Asserts that a result is the same without each shortcut, and without all; returns it."""
    quick = result_of(work)
    with pytest.MonkeyPatch.context() as patch:
        for take in LESS:
            with pytest.MonkeyPatch.context() as alone:
                take(alone)
                assert result_of(work) == quick, take.__name__
            take(patch)
        assert result_of(work) == quick
    return quick


def lines(scenario: Prepared) -> Callable[[], Any]:
    return lambda: run(scenario).lines()


def events(draw: Draw) -> Any:
    return played(draw.pipeline, draw.scenario).events


def kinds_of(seeds: range) -> Counter[str]:
    """Returns what happens in drawn conversations, which are the same without shortcuts."""
    kinds = Counter[str]()
    for seed in seeds:
        trace = same(lines(passing(Random(seed))))
        for line in trace if isinstance(trace, list) else ():  # else an error of its file
            event = json.loads(line)
            of = event.get("status") or event.get("mode") or ""
            kinds[f"{event.get('kind')} {of}".strip()] += 1
    return kinds


def test_drawn_conversations_with_tools_and_handoffs() -> None:
    kinds = kinds_of(range(12))

    assert kinds["HandoffMade transfer"]
    assert kinds["ToolReturned"]


@pytest.mark.slow
def test_many_drawn_conversations_with_tools_and_handoffs() -> None:
    kinds = kinds_of(range(12, 250))

    assert [kind for kind in KINDS if not kinds[kind]] == []


@pytest.mark.slow
@pytest.mark.parametrize("flow", FLOWS)
def test_drawn_pipelines(flow: str) -> None:
    for seed in range(4_000, 4_010):
        draw = Draw(seed, flow=flow)
        same(partial(events, draw))


class Offers(NamedTuple):
    """What an agent's calls permit."""

    tools: tuple[str, ...]
    output: Any = None


def test_call_of_a_tool_that_is_not_offered_is_not_at_hand() -> None:
    # A file that says this is refused, unless a function computes the line.
    line = line_of({"calls": {"find": {}}})
    assert line is not None
    model = ScriptedModel([compiled_script({"desk": line})], {}, {}, function_named)
    model.begin_turn(0)

    assert model.at_hand("desk", Offers(("count",))) is None
    assert model.at_hand("desk") is None
    assert model.at_hand("desk", Offers(("count", "find"))) == line.answer()


ONE_TOOL: Final = """
version: 1
pipeline: p
channels: {last: {}}
agents: {desk: {instructions: Help., tools: [find], writes: {}, %s}}
tools: {find: {}}
flow: {handoffs: {start: desk}}
"""


def test_rule_that_stands_in_writes_for_an_agent_that_writes_nothing() -> None:
    rule = "before: [{when: {user: Hi}, writes: {last: rule}}]"
    ran = run_yaml(ONE_TOOL % rule, "turns: [{user: Hi}]")

    assert (ran.runs("desk")[0].status, ran.state("last")) == ("stood_in", "rule")


def test_input_is_checked_before_an_answer_at_hand_is_used() -> None:
    ran = run_yaml(
        ONE_TOOL % "input: {type: object}",
        "turns: [{user: Hi, replies: {desk: Hello}}]",
        fits=False,
    )

    assert (ran.error() or ("",))[0] == "InputInvalid"


def test_single_result_with_a_condition_answers_only_what_it_names() -> None:
    turn = """
    turns:
      - user: Hi
        replies: {desk: [{calls: {find: {id: 1}}}, Hello]}
        tool_results: {find: {returns: 3, when: {id: 2}}}
    """
    ran = run_yaml(ONE_TOOL % "sees: [desk]", turn, fits=False)

    assert (ran.error() or ("",))[0] == "ToolMissing"


CALLED: Final = """
turns:
  - user: Hi
    replies: {desk: [{calls: {find: {id: 1}}}, Hello]}
    tool_results: {find: Done}
"""


def test_second_context_of_a_run_repeats_no_part() -> None:
    contexts = run_yaml(ONE_TOOL % "sees: [desk]", CALLED).events(ContextBuilt)

    assert [(bool(event.parts), event.base) for event in contexts] == [(True, ""), (False, "c1")]


def test_messages_are_counted_by_the_counter_of_the_pipeline(monkeypatch: Patch) -> None:
    monkeypatch.setattr(compiled, "counter_named", lambda _: lambda text: 7)

    messages = run_yaml(ONE_TOOL % "sees: [desk]", CALLED).events(MessageAdded)

    # A message with calls has a name and arguments, and no text.
    assert [event.tokens for event in messages] == [7, 14, 7, 7]
