"""What filters of somebody's code took out of a context is told, once, with their names."""

from __future__ import annotations

from typing import Any

import msgspec

from simkit.adapters.recorder.histories import cuts_between
from simkit.core.messages import Message, ToolCall
from simkit.trace import events as e
from tests.adapters.scribes import Desk


def user(text: str, number: int = 0) -> Message:
    return Message("user", text, id=f"m{number}" if number else "")


def make_reply(text: str, *calls: ToolCall, number: int = 0) -> Message:
    return Message("assistant", text, calls=calls, id=f"m{number}" if number else "")


def dropped(desk: Desk) -> list[list[tuple[str, str, str]]]:
    """Returns what was dropped from each context: text, how, by which filter."""
    return [
        [(drop.message.content, drop.what, drop.by) for drop in call.context.dropped()]
        for call in desk.view.calls.values()
    ]


def shown_parts(desk: Desk) -> list[e.HistoryPart]:
    return [
        part
        for event in desk.trace.events
        if isinstance(event, e.ContextBuilt)
        for part in event.parts
        if isinstance(part, e.HistoryPart)
    ]


def test_a_message_that_a_filter_took_out_is_dropped_by_its_name() -> None:
    desk = Desk()
    desk.turn("Hi")
    run = desk.run()
    before, after = [user("old"), make_reply("Yes"), user("Hi")], [user("Hi")]

    desk.recorder.filtered(run, before, after, "latest_only")
    desk.asks(after)

    assert dropped(desk) == [[("old", "message", "latest_only"), ("Yes", "message", "latest_only")]]


def test_filters_that_follow_each_other_are_told_one_by_one() -> None:
    desk = Desk()
    desk.turn("Hi")
    run = desk.run()
    messages, two, three = [user("a"), user("b"), user("Hi")], [user("b"), user("Hi")], [user("Hi")]

    desk.recorder.filtered(run, messages, two, "first")
    desk.recorder.filtered(run, two, three, "second")
    desk.asks(three)

    assert dropped(desk) == [[("a", "message", "first"), ("b", "message", "second")]]


def test_a_filter_counts_for_the_next_call_alone_unless_it_lasts() -> None:
    desk = Desk()
    desk.turn("Hi")
    run = desk.run()
    desk.recorder.filtered(run, [user("once"), user("Hi")], [user("Hi")], "now", lasting=False)
    desk.recorder.filtered(run, [user("always"), user("Hi")], [user("Hi")], "on", lasting=True)

    desk.answers(desk.asks([user("Hi")]), "Hello")
    desk.asks([user("Hi"), make_reply("Hello")])

    assert dropped(desk) == [
        [("once", "message", "now"), ("always", "message", "on")],
        [("always", "message", "on")],
    ]


def test_what_two_contexts_have_lost_alike_is_told_once() -> None:
    desk = Desk()
    desk.turn("Hi")
    run = desk.run()
    history = [user("a"), user("b"), user("Hi")]
    for _ in range(3):
        desk.recorder.filtered(run, history, [user("Hi")], "latest")
        desk.answers(desk.asks([user("Hi")]), "Hello")

    parts = shown_parts(desk)

    assert [(len(part.cuts), len(part.tail_cuts)) for part in parts] == [(0, 2), (2, 0), (0, 0)]
    assert dropped(desk) == [[("a", "message", "latest"), ("b", "message", "latest")]] * 3


def test_what_is_let_through_again_is_dropped_no_longer() -> None:
    desk = Desk()
    desk.turn("Hi")
    run = desk.run()
    history = [user("a"), user("Hi")]
    for _ in range(2):
        desk.recorder.filtered(run, history, [user("Hi")], "latest")
        desk.asks([user("Hi")])

    desk.asks(history)

    assert dropped(desk)[-1] == []
    assert [m.content for m in list(desk.view.calls.values())[-1].context.messages] == ["a", "Hi"]


def test_a_context_of_which_nothing_is_left_still_says_what_was_dropped() -> None:
    desk = Desk()
    desk.turn("Hi")
    run = desk.run()

    desk.recorder.filtered(run, [user("Hi")], [], "nothing")
    desk.asks([])

    assert dropped(desk) == [[("Hi", "message", "nothing")]]


def test_a_changed_message_is_told_as_changed_and_one_without_its_calls_too() -> None:
    call = ToolCall("call1", "find", {})
    before = [user("my card is 4111", 1), make_reply("Wait", call, number=2), user("Hi", 3)]
    after = [user("my card is ****"), make_reply("Wait"), user("Hi")]

    cuts = cuts_between(before, after, "redact")

    assert cuts == [
        e.Omission(1, "redact", "content", becomes=user("my card is ****", 1)),
        e.Omission(2, "redact", "tool_calls", becomes=make_reply("Wait")),
    ]


def test_a_summary_in_the_place_of_several_messages_changes_none_of_them() -> None:
    before = [user("a", 1), user("b", 2), user("Hi", 3)]
    after = [user("Summary: a and b"), user("Hi")]

    assert cuts_between(before, after, "s") == [e.Omission(1, "s"), e.Omission(2, "s")]


def test_of_messages_that_are_the_same_the_latest_are_left() -> None:
    before = [user("yes", 1), user("yes", 2), user("yes", 3)]

    assert cuts_between(before, [user("yes")], "s") == [e.Omission(1, "s"), e.Omission(2, "s")]


def test_a_list_refers_to_the_last_of_equal_messages_however_often_one_comes() -> None:
    desk = Desk()
    messages: list[Message] = []
    for turn in range(5):
        desk.turn("Hi")
        messages += [user("Hi"), make_reply("Yes" if turn % 2 else f"No {turn}")]
        references = desk.recorder.references_of(messages, "messages")

        numbers = {m.content: m.number for m in desk.view.messages.values()}
        assert references == [{"$message": numbers[message.content]} for message in messages]


def test_saves_restores_and_uses_of_stores_are_told_as_they_come() -> None:
    desk = Desk()
    desk.turn("Hi")

    desk.recorder.read("notes", "user", "a")
    desk.recorder.stored("notes", "user", "a")
    desk.recorder.saved()
    desk.recorder.restored()

    events = [msgspec.structs.replace(event, at=0) for event in desk.trace.events[-4:]]
    where: dict[str, Any] = {"at": 0, "turn": 1, "session": "s1"}
    use: dict[str, Any] = {"channel": "notes", "scope": "user", "agent": "a"}
    assert events == [
        *(e.StoreRead(**where, **use), e.StoreWritten(**where, **use)),
        *(kind(**where, checkpoint="k1") for kind in (e.CheckpointSaved, e.CheckpointRestored)),
    ]
