"""One run's model calls: what is checked before them, what contexts repeat, what is counted."""

from __future__ import annotations

from typing import Final

import pytest

from simkit.runtime import compiled
from simkit.trace.events import ContextBuilt, MessageAdded
from tests.building import run_yaml

ONE_TOOL: Final = """
version: 1
pipeline: p
channels: {last: {}}
agents: {desk: {instructions: Help., tools: [find], writes: {}, %s}}
tools: {find: {}}
flow: {handoffs: {start: desk}}
"""
CALLED: Final = """
turns:
  - user: Hi
    replies: {desk: [{calls: {find: {id: 1}}}, Hello]}
    tool_results: {find: Done}
"""


def test_rule_that_stands_in_writes_for_an_agent_that_writes_nothing() -> None:
    rule = "before: [{when: {user: Hi}, writes: {last: rule}}]"
    ran = run_yaml(ONE_TOOL % rule, "turns: [{user: Hi}]")

    assert (ran.runs("desk")[0].status, ran.state("last")) == ("stood_in", "rule")


def test_input_is_checked_before_an_answer_is_used() -> None:
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


def test_second_context_of_a_run_repeats_no_part() -> None:
    contexts = run_yaml(ONE_TOOL % "sees: [desk]", CALLED).events(ContextBuilt)

    assert [(bool(event.parts), event.base) for event in contexts] == [(True, ""), (False, "c1")]


def test_messages_are_counted_by_the_counter_of_the_pipeline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiled, "counter_named", lambda _: lambda text: 7)

    messages = run_yaml(ONE_TOOL % "sees: [desk]", CALLED).events(MessageAdded)

    # A message with calls has a name and arguments, and no text.
    assert [event.tokens for event in messages] == [7, 14, 7, 7]
