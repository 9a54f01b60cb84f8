"""CTX-07: messages that stand in a context twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.checks.findings import Hit
from simkit.checks.lints import duplicates
from simkit.core.messages import ToolCall
from simkit.trace.store import Trace
from tests.checks.traces import Story, context_message, history, hits_of, ran, run_lints, texts_of

STREAM = "s1/a/history"


def make_story(*texts: str) -> Story:
    """Turn 1, in which agent ``a`` says the texts (m2, m3, …), then the start of turn 2."""
    story = Story(["a", "b"])
    story.turn("hello", agent="a")
    story.call()
    for text in texts:
        story.says(text)
    story.finish_turn()
    story.turn("and now?", agent="a")
    return story


def test_a_reply_stored_under_a_second_id_is_found_once() -> None:
    story = make_story("Done.", "Done.")
    story.call(history(STREAM, numbers=[1, 2, 3]))
    story.call(history(STREAM))

    assert hits_of("CTX-07", story.trace) == [
        Hit(
            "CTX-07", "agent 'a' is sent message m2 = m3 twice (section history) in turn 2",
            2, "a", 0, "W", {"ids": [["m2", "m3"]], "sections": ["history", "history"]},
        )
    ]  # fmt: skip


def test_the_same_id_twice_in_a_history_is_found() -> None:
    story = make_story("Done.")
    story.call(history(STREAM, numbers=[1, 2, 2]))

    assert texts_of("CTX-07", story.trace) == [
        "agent 'a' is sent message m2 twice (section history) in turn 2"
    ]


def test_an_old_message_that_comes_again_in_this_turn_is_found() -> None:
    story = make_story("Done.")
    story.call(history(STREAM, numbers=[1, 2], tail=[2]))

    assert texts_of("CTX-07", story.trace) == [
        "agent 'a' is sent message m2 twice (section history) in turn 2"
    ]


def test_a_pair_that_the_window_cuts_apart_passes() -> None:
    story = make_story("Done.", "Done.")
    story.call(history(STREAM, numbers=[1, 2, 3], lo=2))

    assert hits_of("CTX-07", story.trace) == []


def test_one_message_through_two_histories_is_found_once_for_all() -> None:
    story = make_story("Done.", "Sure.")
    parts = [
        history(STREAM, numbers=[1, 2, 3], tail=[4]),
        history("s1/a/log", numbers=[1, 2, 3], tail=[4], section="log"),
    ]
    story.call(*parts)
    story.call(history(STREAM, tail=[4]), history("s1/a/log", tail=[4], section="log"))

    assert texts_of("CTX-07", story.trace) == [
        "agent 'a' is sent all of the earlier turns again in turn 2: "
        "3 messages twice (sections history and log): m1, m2, m3"
    ]


def test_two_histories_without_a_common_message_pass() -> None:
    story = make_story("Done.", "Sure.")
    story.call(history(STREAM, numbers=[1, 2]), history("s1/a/log", numbers=[3], section="log"))

    assert hits_of("CTX-07", story.trace) == []


def test_the_same_text_from_two_sections_is_found() -> None:
    story = make_story("Done.")
    story.call(context_message("notes", "Likes tea."), context_message("memories", "Likes tea."))

    assert texts_of("CTX-07", story.trace) == [
        "agent 'a' is sent the same text twice (sections notes and memories) in turn 2"
    ]


def test_a_query_that_repeats_the_users_message_is_found() -> None:
    story = make_story("Done.")
    query = context_message("current_message", "and now?", role="user", turn=2)
    story.call(history(STREAM, numbers=[1, 2], tail=[3]), query)

    assert texts_of("CTX-07", story.trace) == [
        "agent 'a' is sent the same text twice (sections current_message and history) in turn 2"
    ]


def test_a_user_may_say_the_same_in_every_turn() -> None:
    story = Story()
    for results in ([], [1, 2], [3, 4]):
        number = story.turn("yes")
        current = context_message(
            "current_message", "yes", role="user", of=number, turn=story.number
        )
        story.answers("a", "Done.", history(STREAM, numbers=results), current)
        story.end()

    assert hits_of("CTX-07", story.trace) == []


def test_tools_may_be_asked_and_answer_the_same_twice() -> None:
    story = Story()
    story.turn(agent="a")
    base = story.call()
    results = []
    for call in ("call1", "call2"):
        results += [story.says("", ToolCall(call, "look", {})), story.hears(call, "nothing")]
        story.call(base=base, numbers=results)
    story.finish_turn()
    story.turn(agent="a")
    story.call(history(STREAM, numbers=[1, *results]))

    assert hits_of("CTX-07", story.trace) == []


def test_one_result_twice_is_found() -> None:
    story = Story()
    story.turn(agent="a")
    base = story.call()
    items = [story.says("", ToolCall("call1", "look", {}), ToolCall("call2", "look", {}))]
    items += [story.hears("call1", "no"), story.hears("call2", "no"), story.hears("call1", "no")]
    story.call(base=base, numbers=items)

    assert texts_of("CTX-07", story.trace) == [
        "agent 'a' is sent message m3 = m5 twice (section run) in turn 1"
    ]


def test_repeated_instructions_and_the_current_message_are_left_to_their_own_lints() -> None:
    story = make_story("Done.")
    current = context_message("current_message", "and now?", role="user", of=3, turn=2)
    story.call(
        story.instructions(), story.instructions(), current, history(STREAM, [1, 2], tail=[3])
    )

    assert hits_of("CTX-07", story.trace) == []


def test_a_restarted_history_is_read_anew() -> None:
    story = make_story("Done.")
    story.call(history(STREAM, numbers=[1, 2]))
    story.call(history(STREAM, numbers=[1, 2], restarts=True))

    assert hits_of("CTX-07", story.trace) == []


NATIVE = """\
version: 1
pipeline: echo
agents:
  a:
    instructions: I am a.
    context: [instructions, {{history: {{from: log}}}}, current_message]
    writes: {{messages: {written}}}
flow: {{handoffs: {{start: a}}}}
---
version: 1
scenario: two turns
pipeline: echo
turns:
  - {{user: hello, replies: {{a: Hi.}}}}
  - {{user: hello, replies: {{a: Hi.}}}}
"""


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ('["${run.reply}"]',
         ["agent 'a' is sent message m2 = m3 twice (section history) in turn 2"]),
        ('["${run.final_message}"]', []),
    ],
    ids=["the reply is stored again", "the message itself is stored"],
)  # fmt: skip
def test_a_copy_of_the_reply_is_found_natively(tmp_path: Path, text: str, texts: list[str]) -> None:
    trace = ran(tmp_path, NATIVE.format(written=text))

    assert texts_of("CTX-07", trace) == texts


def long_story(turns: int) -> Trace:
    """Every turn one agent reads the whole conversation through two histories."""
    story = Story()
    numbers: list[int] = []
    for turn in range(turns):
        number = story.turn(f"question {turn // 2}")
        parts = [history(STREAM, numbers), history("s1/a/log", numbers[:1], section="log")]
        answers = story.answers(
            "a", f"answer {turn // 2}", *parts,
            context_message("current_message", f"question {turn // 2}", role="user", of=number,
                            turn=turn + 1),
        )  # fmt: skip
        numbers = [number, answers]
        story.end()
    return story.trace


@pytest.mark.slow
def test_work_grows_with_the_conversation_and_not_with_its_square(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = []
    key_of, twin = duplicates._key_of, duplicates._StreamState.twin
    for turns in (1000, 2000):
        made_keys: list[int] = []
        request: list[int] = []
        monkeypatch.setattr(
            duplicates, "_key_of", lambda m, result=made_keys: (result.append(1), key_of(m))[1]
        )
        monkeypatch.setattr(
            duplicates._StreamState,
            "twin",
            lambda s, m, call=request: (call.append(1), twin(s, m))[1],
        )
        run_lints(long_story(turns), ["CTX-07"])
        counts.append(len(made_keys) + len(request))

    assert counts[0] > 1000
    assert counts[1] <= 2.1 * counts[0]
