"""NET-01 to NET-05: what a pipeline's own code does where a provider fails, or a server is slow."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.checks.findings import Hit
from simkit.trace import events as e
from tests.checks.traces import Story, context_message, history, hits_of


def failing(
    *, error: str = "rate_limit", status: int = 429, after: int = 0, partial: str = ""
) -> tuple[Story, str]:
    """Turn 1 in which the first call of ``a`` fails."""
    story = Story()
    story.turn(agent="a")
    call = story.call()
    story.emit(
        e.ModelFailed(
            *story.where(),
            call=call,
            error=error,
            status=status,
            message="no",
            retry_after_ms=after,
            partial=partial,
        )
    )
    return story, call


def again(story: Story, call: str, attempt: int = 2, **settings: Any) -> None:
    """The call is made again, as it was or with other settings."""
    story.emit(e.ModelRetried(*story.where(), call=call, attempt=attempt))
    text = story.next("c")
    part = story.instructions()
    story.emit(
        e.ContextBuilt(*story.where(), call=f"c{text}", parts=(part,), settings=settings or None)
    )
    story.emit(e.ModelCalled(*story.where(), call=f"c{text}"))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 451])
def test_what_is_refused_for_good_is_not_sent_again(status: int) -> None:
    story, call = failing(error="invalid_request", status=status)
    again(story, call)
    story.call()  # It is no repetition: nothing failed before it.

    assert hits_of("NET-01", story.trace) == [
        Hit(
            "NET-01",
            "agent 'a' sends call c1 again in turn 1, unchanged, after invalid_request with "
            f"status {status}: the provider will refuse it again",
            1, "a", 0, data={"error": "invalid_request", "status": status},
        )
    ]  # fmt: skip


@pytest.mark.parametrize("status", [0, 200, 408, 409, 425, 429, 500, 503, 529])
def test_what_may_be_over_a_moment_later_may_be_sent_again(status: int) -> None:
    story, call = failing(status=status)
    again(story, call)

    assert hits_of("NET-01", story.trace) == []


def test_another_model_is_another_question() -> None:
    story, call = failing(status=404, after=1000)
    again(story, call, model="another")

    assert hits_of("NET-01", story.trace) == []
    assert hits_of("NET-02", story.trace) == []


def test_the_same_question_in_a_later_turn_is_another() -> None:
    story, call = failing(status=400)
    story.end()
    story.turn(agent="a")
    again(story, call)

    assert hits_of("NET-01", story.trace) == []


def test_asking_again_before_the_provider_lets_is_found() -> None:
    story, call = failing(after=2000)
    story.at = 1_989
    again(story, call)

    assert hits_of("NET-02", story.trace) == [
        Hit(
            "NET-02",
            "agent 'a' sends call c1 again in turn 1 after 1989 ms, but the provider asks for "
            "2000 ms",
            1, "a", 0, data={"waited_ms": 1989, "retry_after_ms": 2000},
        )
    ]  # fmt: skip


@pytest.mark.parametrize(("after", "waited"), [(2000, 2000), (2000, 1990), (0, 0)])
def test_who_waited_may_ask_again(after: int, waited: int) -> None:
    story, call = failing(after=after)
    story.at = waited
    again(story, call)

    assert hits_of("NET-02", story.trace) == []


def test_a_program_that_is_only_served_waits_unseen() -> None:
    story, call = failing(after=2000)
    again(story, call)
    started = story.trace.events[0]
    assert isinstance(started, e.RunStarted)
    story.trace.events[0] = e.RunStarted(0, driver="served", pipeline=started.pipeline)

    assert hits_of("NET-02", story.trace) == []


def broken_off(partial: str = "Take two") -> Story:
    return failing(error="cut_stream", status=200, partial=partial)[0]


def test_what_broke_off_is_no_reply() -> None:
    story = broken_off("Take two ")
    story.finish()
    story.end("Take two")

    assert hits_of("NET-03", story.trace) == [
        Hit(
            "NET-03",
            "the half reply 'Take two' is the reply of turn 1: cut_stream ended call c1 of agent "
            "'a' in turn 1",
            1, "a", 0, data={"error": "cut_stream", "partial": "Take two "},
        )
    ]  # fmt: skip


@pytest.mark.parametrize("reply", ["Take two … (not whole)", {"text": "Take two"}, None])
def test_who_says_that_it_is_not_whole_has_not_taken_it(reply: Any) -> None:
    story = broken_off()
    story.finish()
    story.end(reply)

    assert hits_of("NET-03", story.trace) == []


def test_a_reply_that_is_that_text_after_all_is_whole() -> None:
    story = broken_off()
    story.call()
    story.says("Take two")
    story.finish()
    story.end("Take two")

    assert hits_of("NET-03", story.trace) == []


def remembered(*, after: str = "", is_said: bool = False) -> Story:
    """Turn 2 shows what broke off in turn 1 as what the assistant said, with something after it."""
    story = broken_off()
    story.end("Sorry.")
    story.turn("and?", agent="a")
    if is_said:
        story.call()
        number = story.says("Take two")
    else:
        number = story.message("assistant", "Take two")
    parts: list[e.Part] = [story.instructions(), history("s1/a", tail=[number])]
    if after:
        parts.append(context_message("current_message", after, role="user"))
    story.call(*parts)
    return story


def test_what_broke_off_is_nothing_that_the_assistant_said() -> None:
    assert hits_of("NET-03", remembered(after="and?").trace) == [
        Hit(
            "NET-03",
            "the half reply 'Take two' stands in a context of agent 'a' in turn 2: cut_stream "
            "ended call c1 of agent 'a' in turn 1",
            2, "a", data={"error": "cut_stream", "partial": "Take two"},
        )
    ]  # fmt: skip


def test_a_model_may_be_asked_to_go_on_from_it() -> None:
    assert hits_of("NET-03", remembered().trace) == []


def test_what_a_model_is_heard_to_say_may_be_remembered() -> None:
    assert hits_of("NET-03", remembered(after="and?", is_said=True).trace) == []


def test_a_call_that_is_made_again_and_again_is_found_once() -> None:
    story, call = failing(error="overloaded", status=529)
    for attempt in range(2, 9):
        again(story, call, attempt)

    assert hits_of("NET-04", story.trace) == [
        Hit(
            "NET-04",
            "agent 'a' makes one call for the 6th time in turn 1; it last failed with overloaded",
            1, "a", 0, data={"attempt": 6},
        )
    ]  # fmt: skip


def test_five_attempts_are_enough() -> None:
    story, call = failing(error="overloaded", status=529)
    for attempt in range(2, 6):
        again(story, call, attempt)

    assert hits_of("NET-04", story.trace) == []


@pytest.mark.parametrize(
    ("took_ms", "server", "error", "count"),
    [(60_000, "files", None, 1), (59_999, "files", None, 0), (60_000, "", None, 0),
     (60_000, "files", e.ErrorFacts("FunctionFailed", "no"), 0)],
)  # fmt: skip
def test_a_server_that_takes_a_minute_is_told_unless_the_turn_failed(
    took_ms: int, server: str, error: e.ErrorFacts | None, count: int
) -> None:
    story = Story()
    story.turn(agent="a")
    story.emit(e.ToolCalled(*story.where(), call_id="c", tool="read_file", args={}))
    story.at += took_ms
    story.emit(e.ToolReturned(*story.where(), call_id="c", tool="read_file", server=server))
    story.emit(e.TurnFinished(*story.where(), error=error))

    problem = "agent 'a' called 'read_file' in turn 1, and server `files` took 60 s to answer"
    hit = Hit("NET-05", problem, 1, "a", data={"server": "files"})
    assert hits_of("NET-05", story.trace) == [hit] * count
