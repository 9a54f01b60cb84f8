"""CTX-05, CTX-06: facts that must be in a context, and facts that must not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simkit.checks.findings import Hit
from simkit.core.messages import ToolCall
from simkit.trace import events as e
from tests.checks.traces import Story, context_message, history, hits_of, ran, run_lints

STREAM = "s1/b/history"


# CTX-05


def requiring(*facts: Any) -> Story:
    """Agent ``a`` says "No nuts, please." (m2) in turn 1; ``b`` starts in turn 2 (m3)."""
    story = Story({"a": e.AgentFacts("I am a."), "b": e.AgentFacts("I am b.", requires=facts)})
    story.turn("hello", agent="a")
    story.call()
    story.says("No nuts, please.", ToolCall("call1", "look", {"in": "larder"}))
    story.finish_turn()
    story.turn("and now?", agent="b")
    return story


def test_a_required_text_that_no_message_holds_is_found() -> None:
    story = requiring("No nuts", "hello")
    story.call(story.instructions(), history(STREAM, numbers=[1]))

    assert hits_of("CTX-05", story.trace) == [
        Hit(
            "CTX-05", "agent 'b' is not sent what it requires in turn 2: 'No nuts'",
            2, "b", 0, data={"missing": ["'No nuts'"]},
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    "parts",
    [
        [history(STREAM, numbers=[1, 2])],
        [history(STREAM, numbers=[1], tail=[2])],
        [context_message("notes", "Remember: No nuts!")],
        [context_message("notes", "x\nNo nuts", pieces=[("notes", "x"), ("memories", "No nuts")])],
    ],
    ids=["settled", "this turn", "made", "shared message"],
)
def test_a_required_text_anywhere_in_a_context_passes(parts: list[e.Part]) -> None:
    story = requiring("No nuts")
    story.call(*parts)

    assert hits_of("CTX-05", story.trace) == []


@pytest.mark.parametrize(
    ("fact", "missing"),
    [
        ({"agent": "a"}, []),
        ({"agent": "c"}, ['{"agent":"c"}']),
        ({"$regex": "No n[ua]ts"}, []),
        ({"role": "system", "$contains": "nuts"}, ['{"role":"system","$contains":"nuts"}']),
        ({"section": "history", "role": "user"}, []),
    ],
)
def test_a_required_message_is_matched_whole(fact: Any, missing: list[str]) -> None:
    story = requiring(fact)
    story.call(history(STREAM, numbers=[1, 2]))

    names = [hit.data["missing"] for hit in hits_of("CTX-05", story.trace)]

    assert names == ([missing] if missing else [])


def test_a_fact_that_a_window_left_behind_is_missing_from_each_run() -> None:
    story = requiring("No nuts")
    base = story.call(history(STREAM, numbers=[1, 2]))
    story.call(base=base, numbers=[2])
    for _ in range(2):
        story.start("b")
        base = story.call(history(STREAM, lo=2))
        story.call(base=base, numbers=[2])

    assert [(hit.turn, hit.call) for hit in hits_of("CTX-05", story.trace)] == [(2, 2), (2, 4)]


# CTX-06


def keeping(value: Any = "tulip seven", **channel: Any) -> Story:
    """Agent ``a`` writes a value to its private channel ``pin``; ``b`` starts in turn 2 (m3)."""
    story = Story(
        {"a": e.AgentFacts("I am a.", private=("pin",)), "b": e.AgentFacts("Grow a tulip seven.")},
        channels={"pin": e.ChannelFacts("replace", "session", **channel)},
    )
    story.turn("hello", agent="a")
    story.call()
    story.says("It is tulip seven.")
    story.finish(pin=value)
    story.end()
    story.turn("and now?", agent="b")
    return story


@pytest.mark.parametrize(
    ("part", "section"),
    [
        (history(STREAM, numbers=[1, 2]), "history"),
        (history(STREAM, numbers=[1], tail=[2]), "history"),
        (context_message("shared", '{"pin":"tulip seven"}'), "shared"),
        (
            context_message("x", "x\ntulip seven", pieces=[("x", "x"), ("notes", "tulip seven")]),
            "notes",
        ),
    ],
    ids=["settled", "this turn", "made", "shared message"],
)
def test_a_private_value_in_another_agents_context_is_found_once(
    part: e.Part, section: str
) -> None:
    story = keeping()
    story.call(part)
    story.call(context_message("shared", "tulip seven"))

    assert hits_of("CTX-06", story.trace) == [
        Hit(
            "CTX-06",
            "agent 'b' is sent a value of channel `pin` in turn 2, through section "
            f"{section}; it is private to 'a'",
            2, "b", 0, data={"channel": "pin", "section": section, "owners": ["a"]},
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        ["rose", {"code": "tulip seven"}],
        {"$set": "tulip seven"},
        {"$message": 2},
        {"$unlogged": {"role": "user", "content": "tulip seven"}},
    ],
    ids=["nested", "reset", "a message", "a message of no log"],
)
def test_every_text_within_a_private_value_counts(value: Any) -> None:
    story = keeping(value)
    story.call(context_message("shared", "It is tulip seven."))

    assert len(hits_of("CTX-06", story.trace)) == 1


def test_defaults_given_values_and_those_of_users_reducers_count() -> None:
    default, given, reduced = keeping("rose", default="oak tree"), keeping("rose"), keeping("rose")
    given.write({"pin": "oak tree"}, cause="given")
    reduced.write({"pin": 1}, values={"pin": ["oak tree"]})
    for story in (default, given, reduced):
        story.call(context_message("shared", "an oak tree"))

        assert len(hits_of("CTX-06", story.trace)) == 1


def test_a_text_with_quotes_is_found_within_json() -> None:
    story = keeping('the "big" one')
    story.call(context_message("shared", '{"pin": "the \\"big\\" one"}'))

    assert len(hits_of("CTX-06", story.trace)) == 1


def test_a_value_that_becomes_private_later_is_found_in_what_has_settled() -> None:
    story = keeping("rose")
    story.call(history(STREAM, numbers=[1, 2]))
    story.write({"pin": "tulip seven"})
    story.call(history(STREAM))

    assert [hit.call for hit in hits_of("CTX-06", story.trace)] == [1]


def test_a_private_value_in_a_restarted_history_is_found() -> None:
    story = keeping()
    story.call(history(STREAM, numbers=[1]))
    story.call(history(STREAM, numbers=[2], restarts=True))

    assert [hit.call for hit in hits_of("CTX-06", story.trace)] == [1]


def test_the_owner_may_see_it_and_others_what_is_not_it() -> None:
    story = keeping()
    story.call(
        story.instructions(),
        context_message("notes", "tulip sevens, stulip seven, tulip, seven"),
        history(STREAM, numbers=[1, 2], lo=2),
    )
    story.start("a")
    story.call(context_message("shared", "tulip seven"))

    assert hits_of("CTX-06", story.trace) == []


def test_what_an_agent_says_and_hears_itself_is_not_leaked_to_it() -> None:
    story = keeping()
    reply = story.says("I guess tulip seven.", ToolCall("call1", "look", {"for": "tulip seven"}))
    response = story.hears("call1", "tulip seven")
    base = story.call(history(STREAM, numbers=[1], tail=[reply, response]))
    story.call(base=base, numbers=[reply, response])

    assert hits_of("CTX-06", story.trace) == []


@pytest.mark.parametrize("value", ["a", "abc", "....", 12345, True, "b", "messages"])
def test_what_any_context_may_hold_and_the_pipelines_own_names_are_no_secrets(value: Any) -> None:
    story = keeping(value)
    story.call(context_message("shared", "a abc .... 12345 true b messages"))

    assert hits_of("CTX-06", story.trace) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12, "pin: 12"),
        (12, '{"pin":12,"x":1}'),
        (True, '{"pin": true}'),
        ("A+", "The pin is A+."),
        (4711.5, "pin = 4,711.50"),
        (4711223, "number 4,711,223 it is"),
        ({"salary": 850}, '{"salary":850}'),
        ([{"age": 42, "vip": True}], "age: 42, vip: True"),
    ],
)
def test_a_short_value_is_a_secret_behind_its_key(value: Any, text: str) -> None:
    story = keeping(value)
    story.call(context_message("shared", text))

    assert len(hits_of("CTX-06", story.trace)) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12, "12 spins, pin: 123, pins: 12, 12 pin"),
        (True, "pin: untrue, it is true"),
        (4711223, "4711223-1, x4711223, 14711223"),
        (1000000, "over 1,000,000"),
        ({"age": 42, "vip": True}, "age: 42"),
        ({"status": "ok"}, "status: ok"),
        (None, "pin: null"),
        ({}, "pin: {}"),
    ],
)
def test_a_short_value_elsewhere_is_not_observable(value: Any, text: str) -> None:
    story = keeping(value)
    story.call(context_message("shared", text))

    assert hits_of("CTX-06", story.trace) == []


NATIVE = """\
version: 1
pipeline: clinic
channels:
  diagnosis: {{scope: session}}
agents:
  doctor:
    instructions: Diagnose.
    private: [diagnosis]
    handoffs: [desk]
    context: [instructions, current_message]
    after: [{{writes: {{diagnosis: "${{run.reply}}"}}}}]
    writes: {{messages: {kept}}}
  desk:
    instructions: Make an appointment.
    requires: [Tuesday]
    context: [instructions, history, current_message]
flow: {{handoffs: {{start: "${{state.next}}"}}}}
---
version: 1
scenario: two turns
pipeline: clinic
turns:
  - {{user: It hurts on Tuesday, replies: {{doctor: A broken toe.}}}}
  - {{user: When, replies: {{desk: Friday.}}}}
"""


@pytest.mark.parametrize(
    ("expected", "result"),
    [('["${run.final_message}"]', ["CTX-06"]), ("[]", [])],
    ids=["the diagnosis is told to all", "it is not"],
)
def test_facts_are_found_natively(tmp_path: Path, expected: str, result: list[str]) -> None:
    text = NATIVE.format(kept=expected).replace(
        "channels:\n", "channels:\n  next: {scope: session, default: doctor}\n"
    ).replace('diagnosis: "${run.reply}"', 'diagnosis: "${run.reply}", next: desk')  # fmt: skip
    trace = ran(tmp_path, text)

    _, hits = run_lints(trace, ["CTX-05", "CTX-06"])

    assert [hit.id for hit in hits] == result
