"""FLW-01, 02, 04, 05, 06, 08: limits, edges, cycles, ends, questions, ambiguous routes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simkit.checks.findings import Hit
from simkit.checks.runs import groups_of
from simkit.core.messages import ToolCall
from simkit.trace import events as e
from tests.checks.traces import Story, context_message, hits_of, ran, run_lints, texts_of

PAIR = """\
version: 1
pipeline: pair
agents:
  a: {instructions: I am a., handoffs: [b]}
  b: {instructions: I am b., handoffs: [a]}
flow: {handoffs: {start: a}}
limits: {agent_runs_per_turn: 4}
---
version: 1
scenario: one
pipeline: pair
turns:
  - user: hello
    replies:
"""
CIRCLE = (
    PAIR
    + """\
      a: [{handoff: {to: b}}, {handoff: {to: b}}]
      b: [{handoff: {to: a}}, {handoff: {to: a}}]
    expect: {error: {type: LimitExceeded}}
"""
)
STRAIGHT = (
    PAIR
    + """\
      a: {handoff: {to: b}}
      b: Done.
"""
)


def test_a_limit_that_was_reached_is_found() -> None:
    story = Story()
    story.turn()
    story.emit(e.LimitReached(*story.where(), limit="handoffs_per_turn", allowed=8))
    story.end()
    story.emit(e.LimitReached(0, limit="turns", allowed=1))

    assert hits_of("FLW-01", story.trace) == [
        Hit("FLW-01", subject, 1, data={"limit": limit, "allowed": allowed})
        for subject, limit, allowed in (
            ("limit `handoffs_per_turn` was reached in turn 1: 8 allowed", "handoffs_per_turn", 8),
            ("limit `turns` was reached: 1 allowed", "turns", 1),
        )
    ]


def test_two_agents_that_hand_off_in_circles_are_found_natively(tmp_path: Path) -> None:
    trace = ran(tmp_path, CIRCLE)

    assert texts_of("FLW-04", trace) == [
        "agent 'b' runs in circles in turn 1: run r4 starts with the same state and input as run r2"
    ]
    assert texts_of("FLW-01", trace) == [
        "limit `agent_runs_per_turn` was reached in turn 1: 4 allowed"
    ]


def test_a_handoff_that_ends_passes_natively(tmp_path: Path) -> None:
    trace = ran(tmp_path, STRAIGHT)

    for lint in ("FLW-04", "FLW-01", "FLW-02", "FLW-05"):
        assert hits_of(lint, trace) == []


def flowing(**facts: Any) -> Story:
    story = Story(
        {
            "router": e.AgentFacts("Choose."),
            "a": e.AgentFacts("I am a.", handoffs=("b",)),
            "b": e.AgentFacts("I am b."),
            "c": e.AgentFacts("I am c."),
        },
        **facts,
    )
    story.turn()
    return story


def test_a_start_that_the_pipeline_does_not_name_is_found() -> None:
    story = flowing(decider="router", starts=("router",))
    story.start("a")

    assert hits_of("FLW-02", story.trace) == [
        Hit("FLW-02", "agent 'a' started in turn 1, but a turn starts with: router", 1, "a")
    ]


def test_an_agent_that_the_last_route_does_not_name_is_found() -> None:
    story = flowing(decider="router", starts=("router",))
    story.start("router")
    story.route("a", "b")
    story.finish()
    story.answers("a")
    story.answers("c")

    assert texts_of("FLW-02", story.trace) == [
        "agent 'c' started in turn 1, but the last route names: a, b"
    ]


def test_a_route_of_the_turn_before_is_no_reason() -> None:
    story = flowing(decider="router", starts=("router",))
    story.start("router")
    story.route("a")
    story.finish()
    story.answers("a")
    story.end()
    story.turn("Once more")
    story.answers("a")

    assert texts_of("FLW-02", story.trace) == [
        "agent 'a' started in turn 2, but a turn starts with: router"
    ]


def test_a_second_start_without_a_reason_is_found() -> None:
    story = flowing()
    story.answers("a")
    story.answers("b")

    assert texts_of("FLW-02", story.trace) == [
        "agent 'b' started in turn 1, but no edge, route or handoff leads to it"
    ]


def test_a_handoff_between_agents_that_do_not_declare_it_is_found() -> None:
    story = flowing(contracts=(e.ContractFacts(("a",), "c", "other", "transfer", "all"),))
    story.start("a")
    story.passes_to("c", type="analysis")

    assert texts_of("FLW-02", story.trace) == [
        "agent 'c' started in turn 1, by a handoff from 'a', which neither declares it nor has a "
        "contract of type 'analysis' with it"
    ]


def test_a_start_by_a_handoff_that_was_not_made_is_found() -> None:
    story = flowing()
    story.start("a")
    fields = story.requests("b")
    story.emit(e.HandoffRejected(*story.where(), **fields, reason="no"))
    story.start("b", handoff="h1", source="a")

    assert texts_of("FLW-02", story.trace) == [
        "agent 'b' started in turn 1, by handoff h1, which was not made"
    ]


def test_routes_edges_handoffs_and_starts_are_reasons() -> None:
    story = flowing(
        decider="router",
        starts=("router", "a"),
        edges=(("b", "c"),),
        contracts=(e.ContractFacts(("*",), "c", "analysis", "transfer", "all"),),
    )
    story.start("router")
    story.route("a", "b")
    story.finish()
    story.start("a")
    story.passes_to("b")
    story.passes_to("c", type="analysis")
    story.finish()
    story.answers("c")
    story.end()
    story.turn()
    story.start("router", group="g1")
    story.start("a", group="g1")

    assert hits_of("FLW-02", story.trace) == []


def test_an_edge_leads_on_only_from_a_run_that_finished() -> None:
    story = flowing(edges=(("a", "b"),), starts=("a",))
    story.start("a")
    story.start("b")

    assert texts_of("FLW-02", story.trace) == [
        "agent 'b' started in turn 1, but no edge, route or handoff leads to it"
    ]


def test_the_source_of_a_rejected_handoff_may_run_again_and_nobody_else() -> None:
    story = flowing(starts=("a",), edges=(("a", "b"),))
    story.start("a")
    fields = story.requests("b")
    story.emit(e.HandoffRejected(*story.where(), **fields, reason="no"))
    story.finish()
    story.answers("a")
    story.answers("c")

    assert texts_of("FLW-02", story.trace) == [
        "agent 'c' started in turn 1, but no edge, route or handoff leads to it"
    ]


def circling(**second: Any) -> Story:
    """Agents ``a`` and ``b`` pass control to and fro; the second round may differ."""
    story = Story(["a", "b"])
    story.turn()
    story.start("a", given="hello")
    story.passes_to("b", query="yours")
    story.passes_to("a", query="mine")
    if second.pop("writes", False):
        story.write({"messages": []})
    story.passes_to("b", **{"query": "yours", **second})
    return story


def reading(*texts: str, **facts: Any) -> Story:
    """Agent ``a`` runs once for each text, which is what its first context says."""
    story = Story(["a"], **facts)
    story.turn()
    for text in texts:
        story.start("a", given="hello")
        story.call(context_message("history", text, role="user"))
        story.finish()
    story.end()
    return story


def test_the_same_agent_with_the_same_state_and_handoff_is_found() -> None:
    story = circling()
    story.end()

    assert hits_of("FLW-04", story.trace) == [
        Hit(
            "FLW-04",
            "agent 'b' runs in circles in turn 1: run r4 starts with the same state and input as "
            "run r2",
            1, "b", data={"runs": ["r2", "r4"]},
        )
    ]  # fmt: skip


def test_where_the_driver_sees_no_state_no_cycle_is_told() -> None:
    story = Story(["a", "b"], observes=("runs", "handoffs"))
    story.turn(agent="a")
    for target in ("b", "a", "b"):
        story.passes_to(target)

    assert hits_of("FLW-04", story.trace) == []


CODE: dict[str, Any] = {"observes": ("state", "runs", "handoffs")}


@pytest.mark.parametrize("facts", [{}, CODE], ids=["native", "code"])
def test_runs_that_read_the_same_are_a_cycle_and_others_are_none(facts: dict[str, Any]) -> None:
    assert len(hits_of("FLW-04", reading("again", "again", **facts).trace)) == 1
    assert hits_of("FLW-04", reading("first", "second", **facts).trace) == []


def test_an_unknown_input_of_code_equals_no_other() -> None:
    story = Story(["a"], **CODE)
    story.turn()
    for _ in range(2):
        story.start("a")
        story.call(context_message("history", "again", role="user"))
        story.finish()
    story.end()

    assert hits_of("FLW-04", story.trace) == []


def test_a_context_of_code_that_nobody_saw_equals_no_other() -> None:
    story = Story(["a"], **CODE)
    story.turn()
    for _ in range(2):
        story.start("a", given="hello")
        story.finish()
    story.end()

    assert hits_of("FLW-04", story.trace) == []


def test_agents_that_two_calls_of_one_message_run_are_one_parallel_group() -> None:
    story = Story(["boss", "worker"])
    story.turn()
    boss = story.start("boss")
    calls = [ToolCall(f"call{n}", "task", {"n": n}) for n in (1, 2)]
    story.says("", *calls)
    for number, call in enumerate(calls, 2):
        story.resume("worker", f"r{number}")
        story.emit(e.AgentStarted(*story.where(), parent=boss, call_id=call.id))
        story.finish()
    story.end()

    view, hits = run_lints(story.trace, ["FLW-04"])
    assert hits == []
    assert groups_of(view.turns[0].runs) == ["boss", ["worker", "worker"]]


def test_a_longer_cycle_is_found_once_for_each_agent() -> None:
    story = circling()
    for target, query in (("a", "mine"), ("b", "yours"), ("a", "mine")):
        story.passes_to(target, query=query)
    story.end()

    assert [hit.data for hit in hits_of("FLW-04", story.trace)] == [
        {"runs": ["r2", "r4"]},
        {"runs": ["r3", "r5"]},
    ]


@pytest.mark.parametrize(
    "second",
    [{"query": "other"}, {"payload": {"try": 2}}, {"type": "other"}, {"writes": True}],
    ids=["query", "payload", "type", "state"],
)
def test_a_second_round_that_differs_passes(second: dict[str, Any]) -> None:
    story = circling(**second)
    story.end()

    assert hits_of("FLW-04", story.trace) == []


def refused(*reasons: str) -> Story:
    """Agent ``a`` runs again each time what it passes on is refused."""
    story = Story(["a", "b"])
    story.turn()
    for reason in reasons:
        story.start("a", given="hello")
        fields = story.requests("b")
        story.emit(e.HandoffRejected(*story.where(), **fields, reason=reason))
        story.finish()
    story.start("a", given="hello")
    story.end()
    return story


def test_an_agent_that_is_told_why_it_was_refused_does_not_run_in_circles() -> None:
    assert hits_of("FLW-04", refused("no data", "no sales").trace) == []


def test_an_agent_that_is_refused_for_the_same_reason_again_runs_in_circles() -> None:
    assert [hit.data for hit in hits_of("FLW-04", refused("no data", "no data").trace)] == [
        {"runs": ["r2", "r3"]}
    ]


def test_another_turn_and_a_parallel_group_are_no_cycle() -> None:
    story = Story(["a"])
    for _ in range(2):
        story.turn()
        story.start("a", given="hello")
        story.end()
    story.turn()
    story.start("a", group="g1")
    story.start("a", group="g1")

    assert hits_of("FLW-04", story.trace) == []


def test_a_model_call_after_the_turn_is_found() -> None:
    story = Story(["a"])
    story.turn()
    run = story.start("a")
    story.call()
    story.says("Done.")
    story.end()
    story.resume("a", run)
    story.call()

    assert hits_of("FLW-05", story.trace) == [
        Hit("FLW-05", "agent 'a' made a model call after turn 1 had ended", 1, "a", 1)
    ]


def test_a_model_call_of_the_next_turn_passes() -> None:
    story = Story(["a"])
    for _ in range(2):
        story.turn()
        story.answers("a")
        story.end()

    assert hits_of("FLW-05", story.trace) == []


def decided(*labels: str) -> Story:
    story = Story(["classify", "make", "change"])
    story.turn(agent="classify")
    story.emit(e.RouteChosen(*story.where(), targets=("make",), labels=labels))
    return story


def test_a_decision_that_matches_two_labels_is_found() -> None:
    story = decided("create", "recreate")

    assert hits_of("FLW-08", story.trace) == [
        Hit(
            "FLW-08",
            "what 'classify' decided in turn 1 matches 2 labels: create, recreate; the edge that "
            "was taken: classify → make",
            1, "classify", data={"labels": ["create", "recreate"], "targets": ["make"]},
        )
    ]  # fmt: skip


@pytest.mark.parametrize("labels", [("create",), ()], ids=["one label", "a router's choice"])
def test_a_clear_decision_passes(labels: tuple[str, ...]) -> None:
    assert hits_of("FLW-08", decided(*labels).trace) == []


def asks(story: Story, agent: str = "a", question: Any = "Which one?") -> None:
    """An agent starts, asks the user, and the turn ends."""
    story.start(agent)
    leaves(story, question)
    story.end()


def leaves(story: Story, question: Any = "Which one?") -> None:
    story.emit(e.TurnInterrupted(*story.where(), question=question))
    story.finish("interrupted")


def answers(story: Story) -> None:
    """The user answers: the next turn resumes."""
    story.turn("the red one")
    story.emit(e.TurnResumed(*story.where(), value="the red one"))


def make_story(*agents: str) -> Story:
    story = Story(["a", "b", "c"])
    story.turn()
    for agent in agents:
        story.start(agent)
        leaves(story)
    story.end()
    return story


def test_the_same_question_after_its_answer_is_found() -> None:
    story = make_story("a")
    answers(story)
    asks(story)
    answers(story)
    asks(story, question="Which size?")

    assert hits_of("FLW-06", story.trace) == [
        Hit(
            "FLW-06",
            "agent 'a' asks again in turn 2 what the user has answered: 'Which one?'",
            2, "a", data={"question": "Which one?"},
        )
    ]  # fmt: skip


def test_the_same_question_after_another_one_is_found() -> None:
    story = make_story("a")
    for question in ("Which size?", "Which one?"):
        answers(story)
        asks(story, question=question)

    assert [hit.turn for hit in hits_of("FLW-06", story.trace)] == [3]


def test_another_question_passes() -> None:
    story = make_story("a")
    answers(story)
    asks(story, question={"text": "Which one?"})

    assert hits_of("FLW-06", story.trace) == []


def test_the_same_question_of_another_agent_passes() -> None:
    story = make_story("a")
    answers(story)
    story.start("a")
    story.finish()
    asks(story, "b")

    assert hits_of("FLW-06", story.trace) == []


def test_the_same_question_after_a_write_passes() -> None:
    story = make_story("a")
    answers(story)
    story.start("a")
    story.finish(messages=[])
    asks(story)

    assert hits_of("FLW-06", story.trace) == []


def test_the_same_question_in_a_new_turn_passes() -> None:
    story = make_story("a")
    answers(story)
    story.start("a")
    story.finish_turn()
    story.turn("something else")
    asks(story)

    assert hits_of("FLW-06", story.trace) == []


def test_a_question_that_was_never_answered_may_be_asked_again() -> None:
    story = make_story("a")
    story.turn("something else")
    asks(story)

    assert hits_of("FLW-06", story.trace) == []


def test_an_answer_that_goes_to_another_agent_is_found() -> None:
    story = make_story("a")
    answers(story)
    story.start("b")
    story.finish()
    story.start("a")
    story.finish_turn()

    assert hits_of("FLW-06", story.trace) == [
        Hit(
            "FLW-06", "the user's answer went to agent 'b' in turn 2, but 'a' asked",
            2, "b", data={"asked": ["a"]},
        )
    ]  # fmt: skip


def test_an_answer_that_goes_to_who_asked_passes() -> None:
    story = make_story("a")
    answers(story)
    story.start("a")
    story.finish()
    story.start("b")
    story.finish_turn()

    assert hits_of("FLW-06", story.trace) == []


def test_of_two_that_asked_each_may_be_answered_first() -> None:
    story = make_story("a", "b")
    answers(story)
    story.start("a")
    story.finish_turn()
    answers(story)
    story.start("b")
    story.finish_turn()

    assert hits_of("FLW-06", story.trace) == []


def test_a_question_that_the_user_left_behind_waits_no_longer() -> None:
    story = make_story("a")
    story.turn("something else")
    asks(story, "b")
    answers(story)
    story.start("a")

    assert texts_of("FLW-06", story.trace) == [
        "the user's answer went to agent 'a' in turn 3, but 'b' asked"
    ]


def test_a_session_is_not_answered_by_another() -> None:
    story = make_story("a")
    story.turn(session="s2")
    story.emit(e.TurnResumed(*story.where(), value="yes"))
    story.start("b")
    story.end()

    assert hits_of("FLW-06", story.trace) == []
