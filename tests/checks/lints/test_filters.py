"""CTX-17: what a filter took out of an agent's context stays out of it."""

from __future__ import annotations

from simkit.checks.findings import Hit
from simkit.core.messages import Message
from tests.adapters.scribes import Desk, assistant, user
from tests.checks.traces import hits_of


def two_turns(second: list[Message], *, filters: bool = False, agent: str = "a") -> Desk:
    """The first turn loses "old" and what was said to it to a filter; the second shows more."""
    desk = Desk()
    first = [user("old"), assistant("Yes"), user("one")]
    desk.turn("one")
    desk.recorder.filtered(desk.run(), first, [user("one")], "latest_only")
    desk.answers(desk.asks([user("one")]), "1")
    desk.ends()
    desk.turn("two")
    if filters:
        desk.recorder.filtered(desk.run(agent), [*first, *second], second, "latest_only")
    desk.answers(desk.asks(second, agent), "2", agent=agent)
    desk.ends()
    return desk


def test_what_a_filter_took_out_and_a_later_context_shows_is_found_once() -> None:
    raw = [user("old"), assistant("Yes"), user("one"), assistant("1"), user("two")]
    desk = two_turns(raw)

    desk.turn("three")
    desk.asks([*raw, assistant("2"), user("three")])

    assert hits_of("CTX-17", desk.trace) == [
        Hit(
            "CTX-17",
            "agent 'a' is sent messages in turn 2 that filter `latest_only` took out of its "
            "context in turn 1: m2, m3",
            2, "a", 0, data={"filter": "latest_only", "ids": ["m2", "m3"]},
        )
    ]  # fmt: skip


def test_what_stays_out_passes() -> None:
    desk = two_turns([user("one"), assistant("1"), user("two")])

    assert hits_of("CTX-17", desk.trace) == []


def test_what_the_same_filter_lets_through_again_while_it_is_at_work_passes() -> None:
    desk = two_turns([assistant("Yes"), user("one"), assistant("1"), user("two")], filters=True)

    assert hits_of("CTX-17", desk.trace) == []


def test_what_another_agent_is_shown_passes() -> None:
    raw = [user("old"), assistant("Yes"), user("one"), assistant("1"), user("two")]

    assert hits_of("CTX-17", two_turns(raw, agent="b").trace) == []


def test_what_is_settled_when_it_comes_back_is_found_too() -> None:
    desk = Desk()
    history = [user("old"), user("Hi")]
    desk.turn("Hi")
    for _ in range(3):
        desk.recorder.filtered(desk.run(), history, [user("Hi")], "latest_only")
        desk.asks([user("Hi")])

    desk.asks(history)

    assert [hit.data["ids"] for hit in hits_of("CTX-17", desk.trace)] == [["m2"]]


def test_a_message_of_which_one_copy_is_left_was_not_dropped() -> None:
    desk = Desk()
    desk.turn("one")
    desk.recorder.filtered(desk.run(), [user("one"), user("one")], [user("one")], "latest_only")
    call = desk.asks([user("one")])

    assert desk.view.calls[call].context.dropped() == []
