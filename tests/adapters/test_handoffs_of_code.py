"""What becomes of a handoff that a model of code asks for: made, made for a while, or refused."""

from __future__ import annotations

from typing import Any

from simkit.core.messages import ToolCall
from simkit.trace import events as e
from tests.adapters.scribes import Desk, assistant, tool, user
from tests.building import events_of

CALL = ToolCall("c1", "ask_research", {"type": "lookup", "query": "Why?", "payload": {"a": 1}})


def make_desk() -> Desk:
    """A desk whose agent `a` has asked to hand over to research."""
    desk = Desk({"ask_research": "research"})
    desk.turn("Hello")
    desk.answers(desk.asks([user("Hello")]), "", CALL)
    return desk


def handoffs(desk: Desk) -> list[dict[str, Any]]:
    return [dict(handoff.fields()) for handoff in desk.view.handoffs.values()]


DATA = {
    "from": "a", "to": "research", "type": "lookup", "mode": "transfer", "query": "Why?",
    "payload": {"a": 1}, "outcome": "requested",
}  # fmt: skip


def test_type_query_and_payload_of_a_call_are_those_of_the_handoff() -> None:
    assert handoffs(make_desk()) == [DATA]


def test_a_handoff_whose_target_works_inside_its_source_comes_back() -> None:
    desk = make_desk()
    desk.recorder.begin_run("research", parent=desk.recorder.runs[0].id)

    assert handoffs(desk) == [{**DATA, "mode": "delegate", "outcome": "made"}]


def test_a_handoff_whose_target_works_inside_another_run_is_a_transfer() -> None:
    desk = make_desk()
    outer = desk.recorder.begin_run("b")
    desk.recorder.begin_run("research", parent=outer.id)

    assert handoffs(desk) == [{**DATA, "outcome": "made"}]


def test_a_source_that_goes_on_with_an_answer_was_refused() -> None:
    desk = make_desk()
    desk.asks([user("Hello"), assistant("", CALL), tool("No document.", "c1", "ask_research")])

    assert handoffs(desk) == [{**DATA, "outcome": "rejected", "reason": "No document."}]
    assert desk.recorder.requested == []
    assert [event.run for event in events_of(desk.trace, e.HandoffRejected)] == ["r1"]


def test_what_another_run_is_told_of_a_handoff_that_was_not_made_refuses_nothing() -> None:
    desk = make_desk()
    desk.recorder.end_run(desk.recorder.runs[0], "handed_off")
    messages = [user("Hello"), assistant("", CALL), tool("Transferred.", "c1", "ask_research")]
    desk.asks(messages, agent="b")

    assert handoffs(desk) == [DATA]


def test_the_answer_of_a_delegate_that_came_back_refuses_nothing() -> None:
    desk = make_desk()
    delegate = desk.recorder.begin_run("research", parent=desk.recorder.runs[0].id)
    desk.recorder.end_run(delegate)
    desk.asks([user("Hello"), assistant("", CALL), tool("Because.", "c1", "ask_research")])

    assert handoffs(desk) == [{**DATA, "mode": "delegate", "outcome": "made"}]


# A framework that passes control after its agent has ended


def answered_desk() -> Desk:
    """A desk with the span of an agent that continues with a handoff tool's answer."""
    desk = make_desk()
    desk.recorder.runs[0].ends_with_span = True
    call = desk.asks([user("Hello"), assistant("", CALL), tool("Soon.", "c1", "ask_research")])
    desk.answers(call, "I have passed it on.")
    return desk


def test_a_handoff_is_made_if_its_target_begins_after_the_source_has_ended() -> None:
    desk = answered_desk()
    desk.recorder.end_run(desk.recorder.runs[0])
    desk.recorder.begin_run("research")

    assert handoffs(desk) == [{**DATA, "outcome": "made"}]


def test_a_handoff_with_an_answer_is_rejected_if_another_agent_begins() -> None:
    desk = answered_desk()
    desk.recorder.end_run(desk.recorder.runs[0])
    desk.recorder.begin_run("b")
    desk.recorder.begin_run("research")

    assert handoffs(desk) == [{**DATA, "outcome": "rejected", "reason": "Soon."}]


def test_a_handoff_with_an_answer_is_rejected_while_the_source_goes_on() -> None:
    desk = answered_desk()
    desk.recorder.begin_run("research")

    assert handoffs(desk) == [{**DATA, "outcome": "rejected", "reason": "Soon."}]


def test_a_handoff_with_an_answer_is_rejected_at_the_end_of_the_turn() -> None:
    desk = answered_desk()
    desk.ends("I have passed it on.")

    assert handoffs(desk) == [{**DATA, "outcome": "rejected", "reason": "Soon."}]


def test_a_handoff_with_an_answer_is_rejected_if_its_source_asks_for_another_one() -> None:
    desk = answered_desk()
    desk.recorder.hand_over("a", "b", run=desk.recorder.runs[0])
    desk.recorder.end_run(desk.recorder.runs[0])
    desk.recorder.begin_run("b")

    assert [handoff["outcome"] for handoff in handoffs(desk)] == ["rejected", "made"]


def test_an_agent_that_begins_beside_the_source_decides_nothing() -> None:
    desk = answered_desk()
    desk.recorder.begin_run("b")
    desk.recorder.end_run(desk.recorder.runs[0])
    desk.recorder.begin_run("research")

    assert handoffs(desk) == [{**DATA, "outcome": "made"}]
