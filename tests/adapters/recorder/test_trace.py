"""What a pipeline is seen to do is written down as a native run's events are."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.adapters.recorder.histories import SentStream
from simkit.adapters.recorder.trace import status_after
from simkit.core.errors import LimitExceeded
from simkit.core.messages import JsonValue, Message, ToolCall
from simkit.providers.values import Offer
from simkit.trace import events as e
from tests.adapters.scribes import Desk, assistant, system, tool, user
from tests.building import events_of

LOOK = ToolCall("toolu_9", "look", {"at": "sky"})


def test_a_context_that_grows_is_told_as_what_is_new() -> None:
    desk = Desk()
    history: list[Message] = []
    for text in ("one", "two", "three"):
        desk.turn(text)
        history.append(user(text))
        answers = desk.answers(desk.asks([system("Help."), *history]), f"{text}!")
        history.append(assistant(answers.content))
        desk.ends()

    assert desk.contexts()[-1] == [
        "system/a: Help.", "user: one", "assistant/a: one!", "user: two", "assistant/a: two!",
        "user: three",
    ]  # fmt: skip
    assert desk.log() == [
        (1, "user: one"), (2, "assistant/a: one!"), (3, "user: two"), (4, "assistant/a: two!"),
        (5, "user: three"), (6, "assistant/a: three!"),
    ]  # fmt: skip
    parts = [event.parts[1] for event in events_of(desk.trace, e.ContextBuilt)]
    assert parts == [
        e.HistoryPart("", "s1/a", tail=(1,)),
        e.HistoryPart("", "s1/a", 0, (1,), tail=(2, 3)),
        e.HistoryPart("", "s1/a", 0, (2, 3), tail=(4, 5)),
    ]


def test_a_tool_that_is_found_to_pass_control_later_is_read_as_such_from_then_on() -> None:
    desk = Desk({"ask_boss": "boss"})
    desk.turn("one")
    history = [user("one"), assistant("", ToolCall("toolu_1", "pass_on", {}))]
    desk.asks(history)
    desk.recorder.handoff_tools |= {"pass_on": "expert"}
    desk.asks(history)

    names = [
        [(call.name, call.target) for message in call.context.messages for call in message.calls]
        for call in desk.view.calls.values()
    ]
    assert names == [[("pass_on", "")], [("pass_on", "expert")]]


def test_a_window_that_moves_shows_what_is_left() -> None:
    desk = Desk()
    history = [user("one"), assistant("1"), user("two"), assistant("2")]
    desk.turn("one")
    desk.asks(history)
    desk.asks(history)
    desk.asks(history[2:])
    desk.asks([*history[2:], user("three")])

    assert desk.contexts() == [
        ["user: one", "assistant: 1", "user: two", "assistant: 2"],
        ["user: one", "assistant: 1", "user: two", "assistant: 2"],
        ["user: two", "assistant: 2"],
        ["user: two", "assistant: 2", "user: three"],
    ]
    assert len(desk.log()) == 5


def test_an_edit_in_the_middle_is_a_new_message_and_the_rest_is_known_again() -> None:
    desk = Desk()
    desk.turn("one")
    for middle in ("1", "1", "uno"):
        desk.asks([user("one"), assistant(middle), user("two")])

    assert desk.contexts()[-1] == ["user: one", "assistant: uno", "user: two"]
    assert desk.log() == [
        (1, "user: one"), (2, "assistant: 1"), (3, "user: two"), (4, "assistant: uno"),
    ]  # fmt: skip


def test_what_is_said_twice_is_two_messages_and_found_again_in_order() -> None:
    desk = Desk()
    history = []
    for _ in range(3):
        desk.turn("yes")
        history.append(user("yes"))
        desk.answers(desk.asks(history), "ok")
        history.append(assistant("ok"))
        desk.ends()
    numbers = [[m.number for m in c.context.messages] for c in desk.view.calls.values()]

    assert numbers == [[1], [1, 2, 3], [1, 2, 3, 4, 5]]


def test_agents_know_each_others_words_again() -> None:
    desk = Desk()
    desk.turn("hello")
    answers = desk.answers(desk.asks([system("A."), user("hello")]), "I am a.")
    desk.asks([system("B."), user("hello"), assistant(answers.content)], agent="b")

    assert desk.contexts()[-1] == ["system/b: B.", "user: hello", "assistant/a: I am a."]
    assert len(desk.log()) == 2


def test_sessions_have_logs_of_their_own() -> None:
    desk = Desk()
    for session in ("s1", "s2"):
        desk.turn("hello", session)
        desk.asks([user("hello")])
        desk.ends()
    desk.turn("again", "s1")
    desk.asks([user("hello"), user("again")])

    assert desk.contexts() == [["user: hello"], ["user: hello"], ["user: hello", "user: again"]]
    assert desk.log() == [(1, "user: hello"), (2, "user: hello"), (3, "user: again")]
    last = list(desk.view.calls.values())[-1]
    assert [message.number for message in last.context.messages] == [1, 3]


def test_a_tools_result_that_comes_back_with_the_context_answers_the_call() -> None:
    desk = Desk()
    desk.turn("look")
    desk.answers(desk.asks([user("look")]), "", LOOK)
    desk.asks([user("look"), assistant("", LOOK), tool('{"sky": "grey"}', "toolu_9")])

    (result,) = desk.view.turns[-1].tools
    assert result.fields() == {
        "agent": "a", "tool": "look", "args": {"at": "sky"}, "asked": {"at": "sky"},
        "edited_by": None, "server": None,
        "result": {"sky": "grey"}, "error": None, "call_id": "call1",
        "called_at": 0, "returned_at": 0,
    }  # fmt: skip
    assert desk.contexts()[-1] == [
        "user: look", 'assistant/a: [look{"at":"sky"}]', 'tool/a: {"sky": "grey"}',
    ]  # fmt: skip


def test_a_result_that_was_seen_is_not_told_again_from_the_context() -> None:
    desk = Desk()
    desk.turn("look")
    desk.answers(desk.asks([user("look")]), "", LOOK)
    (request,) = desk.recorder.pending("look")
    desk.recorder.tool_called(request)
    desk.recorder.tool_answered(request, ["grey"])
    desk.asks([user("look"), assistant("", LOOK), tool('["grey"]', "toolu_9")])

    assert [event.result for event in events_of(desk.trace, e.ToolReturned)] == [["grey"]]
    assert list(desk.recorder.pending("look")) == []


def test_foreign_ids_are_counted_anew_and_stay_the_same_call() -> None:
    desk = Desk()
    other = ToolCall("chatcmpl-tool-77", "look", {"at": "sea"})
    desk.turn("look")
    desk.answers(desk.asks([user("look")]), "", LOOK, other)
    results = [tool("grey", "toolu_9"), tool("blue", "chatcmpl-tool-77")]
    desk.asks([user("look"), assistant("", LOOK, other), *results])
    messages = list(desk.view.calls.values())[-1].context.messages

    assert [[call.id for call in m.calls] or m.call_id for m in messages] == [
        "", ["call1", "call2"], "call1", "call2",
    ]  # fmt: skip


def test_a_tool_that_passes_control_is_a_handoff_and_keeps_its_name() -> None:
    desk = Desk({"to_billing": "billing"})
    desk.recorder.handoff_tools.know(["b"])
    desk.turn("pay")
    run, offered = desk.run(), ("look", "to_billing", "transfer_to_b", "transfer_to_c")
    call = desk.recorder.record_request(run, [user("pay")], [*map(Offer, offered)], {})
    desk.answers(call, "", ToolCall("x", "to_billing", {"order": 7}))
    desk.recorder.begin_run("billing")
    (context,) = events_of(desk.trace, e.ContextBuilt)
    (handoff,) = desk.view.turns[-1].handoffs

    assert context.tools == offered
    assert context.handoffs == ("billing", "b")
    assert handoff.fields() == {
        "from": "a", "to": "billing", "type": "handoff", "mode": "transfer", "query": None,
        "payload": {"order": 7}, "outcome": "made",
    }  # fmt: skip
    assert desk.log()[-1] == (2, 'assistant/a: [to_billing{"order":7}]')
    assert desk.view.messages[2].calls[0].target == "billing"


@pytest.mark.parametrize(
    ("schema", "known"),
    [
        ({"properties": {"to": {"enum": ["b", "c"]}}}, ("b", "c")),
        ({"properties": {"to": {"type": "string"}}}, None),
    ],
    ids=["named", "any"],
)
def test_a_tool_that_is_told_the_agent_offers_those_that_its_schema_names(
    schema: JsonValue, known: tuple[str, ...] | None
) -> None:
    desk = Desk()
    desk.recorder.handoff_tools.learn({}, {"pass_on": "to"})
    desk.turn("pay")
    args = {"to": "b", "order": 7}
    call = desk.recorder.record_request(desk.run(), [user("pay")], [Offer("pass_on", schema)], {})
    desk.answers(call, "", ToolCall("x", "pass_on", args))

    (context,) = events_of(desk.trace, e.ContextBuilt)
    (handoff,) = desk.view.turns[-1].handoffs
    assert context.handoffs == known
    assert desk.view.messages[2].calls[0].args == args
    assert handoff.event.payload == {"order": 7}


def test_the_schema_of_a_tool_is_that_of_its_latest_offer() -> None:
    desk = Desk()
    desk.turn("look")
    schemas: list[JsonValue] = [{"type": "object"}, {"properties": {"at": {"type": "string"}}}]
    known: list[JsonValue] = [desk.recorder.schema_of("look")]
    for schema in schemas:
        desk.recorder.record_request(desk.run(), [user("look")], [Offer("look", schema)], {})
        known.append(desk.recorder.schema_of("look"))

    assert known == [None, *schemas]


def test_a_tools_text_that_is_json_is_its_value_and_other_text_stays() -> None:
    results = []
    for text in ('{"a": 1}', "[1]", "12", '{"a": ', "plain", '"quoted"'):
        desk = Desk()
        desk.turn("look")
        desk.answers(desk.asks([user("look")]), "", LOOK)
        desk.asks([user("look"), assistant("", LOOK), tool(text, "toolu_9")])
        results += [event.result for event in events_of(desk.trace, e.ToolReturned)]

    assert results == [{"a": 1}, [1], "12", '{"a": ', "plain", "quoted"]


@pytest.mark.parametrize(
    ("limit", "work"),
    [
        ("agent_runs_per_turn", lambda desk: desk.recorder.begin_run("b")),
        ("model_calls_per_run", lambda desk: desk.asks([])),
        ("handoffs_per_turn", lambda desk: desk.recorder.hand_over("a", "b")),
    ],
)
def test_what_repeats_has_a_limit(limit: str, work: Callable[[Desk], object]) -> None:
    limits: dict[str, Any] = {limit: 3}
    desk = Desk(**limits)
    desk.turn("go")
    if limit != "agent_runs_per_turn":
        desk.run()
    for _ in range(3):
        work(desk)

    with pytest.raises(LimitExceeded) as caught:
        work(desk)

    assert (caught.value.limit, caught.value.allowed) == (limit, 3)
    assert [(event.limit, event.allowed) for event in events_of(desk.trace, e.LimitReached)] == [
        (limit, 3)
    ]


def test_a_run_puts_out_what_it_said_last() -> None:
    desk = Desk()
    desk.turn("go")
    run = desk.run()
    desk.answers(desk.asks([user("go")]), "first")
    desk.answers(desk.asks([user("go"), assistant("first"), user("on")]), "second")
    desk.recorder.end_run(run)
    desk.recorder.end_run(run)

    (ended,) = events_of(desk.trace, e.AgentFinished)
    assert (ended.status, ended.output, ended.message) == ("done", "second", 4)


# Whatever is sent is what judges see.

MESSAGES = st.sampled_from(
    [
        user("a"),
        user("b"),
        assistant("a"),
        assistant("c"),
        assistant("", LOOK),
        tool("d", "toolu_9"),
    ]
)
CONTEXTS = st.lists(st.lists(MESSAGES, max_size=6), max_size=8)


@pytest.mark.slow
@given(CONTEXTS)
def test_every_context_is_read_back_as_it_was_sent(contexts: list[list[Message]]) -> None:
    desk = Desk(model_calls_per_run=99)
    desk.turn("a")
    for context in contexts:
        desk.asks(context)

    results = [
        [(m.role, m.content, len(m.calls)) for m in call.context.messages]
        for call in desk.view.calls.values()
    ]
    assert results == [[(m.role, m.content, len(m.calls)) for m in item] for item in contexts]


@pytest.mark.slow
@given(CONTEXTS)
def test_a_message_is_in_the_log_once_for_each_time_it_was_ever_said_at_once(
    contexts: list[list[Message]],
) -> None:
    desk = Desk(model_calls_per_run=99)
    desk.turn("a")
    for context in contexts:
        desk.asks(context)
    numbers = [[m.number for m in call.context.messages] for call in desk.view.calls.values()]

    results = [number for number, _ in desk.log()]
    assert results == list(range(1, len(results) + 1))
    assert all(number in results for context in numbers for number in context)


# Growth


def measure_trace(turns: int) -> tuple[int, int]:
    """Returns the bytes of a trace, and how many messages its contexts name one by one."""
    desk = Desk(model_calls_per_run=9)
    history = []
    for turn in range(turns):
        desk.turn(f"question {turn}")
        history.append(user(f"question {turn}"))
        call = ToolCall(f"toolu_{turn}", "look", {})
        desk.answers(desk.asks([system("Help."), *history]), "", call)
        history += [assistant("", call), tool("nothing", f"toolu_{turn}")]
        desk.answers(desk.asks([system("Help."), *history]), f"answer {turn}")
        history.append(assistant(f"answer {turn}"))
        desk.ends()
    named = sum(
        len(part.kept) + len(part.tail)
        for event in events_of(desk.trace, e.ContextBuilt)
        for part in event.parts
        if isinstance(part, e.HistoryPart)
    )
    return len(desk.trace.encoded()), named


def test_a_trace_grows_with_what_is_said_and_not_with_what_is_sent() -> None:
    half, whole = measure_trace(250), measure_trace(500)

    assert (half[1], whole[1]) == (8 * 250 - 4, 8 * 500 - 4)
    assert whole[0] < 2.05 * half[0]


def test_a_tool_that_is_told_to_whom_control_passes_asks_for_a_handoff_to_that_agent() -> None:
    desk = Desk()
    desk.recorder.handoff_tools.learn({}, {"transfer_to_agent": "agent_name"})
    desk.turn("one")
    call = desk.asks([user("one")])

    desk.answers(call, "", ToolCall("x", "transfer_to_agent", {"agent_name": "b", "why": "age"}))

    (request,) = events_of(desk.trace, e.HandoffRequested)
    assert (request.to_agent, request.payload) == ("b", {"why": "age"})
    assert desk.recorder.handoff_tools.target_of("transfer_to_agent") == ""


def test_a_tool_whose_message_tells_a_failure_has_failed() -> None:
    desk = Desk()
    desk.turn("one")
    desk.answers(desk.asks([user("one")]), "", LOOK)
    message = tool("no sky", "toolu_9")

    desk.asks([user("one"), msgspec.structs.replace(message, data={"is_error": True})])

    (failed,) = events_of(desk.trace, e.ToolFailed)
    assert (failed.tool, failed.error) == ("look", "no sky")
    assert events_of(desk.trace, e.ToolReturned) == []


class Counting(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counting.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_stream_compares_each_message_of_a_context_a_fixed_number_of_times() -> None:
    def compared(size: int) -> int:
        stream, before = SentStream("s"), Counting.compared
        for _ in range(3):
            prints = [("user", Counting(place), (), "") for place in range(size)]
            stream.take(prints, lambda known: list(range(size)))
        return Counting.compared - before

    assert compared(500) == 2 * compared(250) > 0


class Stopped(Exception):
    """A framework's own way to stop an agent."""


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (None, "done"),
        (CancelledError(), "cancelled"),
        (GeneratorExit(), "cancelled"),
        (Stopped(), "failed"),
        (KeyboardInterrupt(), "failed"),
    ],
)
def test_what_ended_the_work_says_how_it_ended(problem: BaseException | None, status: str) -> None:
    assert status_after(problem) == status


def test_a_frameworks_own_way_to_stop_an_agent_cancels_it() -> None:
    assert status_after(Stopped(), Stopped) == "cancelled"
