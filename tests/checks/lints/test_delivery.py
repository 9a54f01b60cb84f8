"""HND-03, HND-10, HND-12: what a handoff brings its target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simkit.checks.findings import Hit
from simkit.checks.lints import delivery
from simkit.core.messages import Message
from simkit.trace import events as e
from simkit.trace.store import Trace
from tests.adapters.scribes import Desk, user
from tests.checks.traces import Story, context_message, history, hits_of, ran, run_lints, texts_of

WORDS = " ".join(f"word{number}" for number in range(60))
"""A document of over 400 characters."""
PAIR = {"from": "a", "to": "b", "type": "handoff"}


def handed(*parts: e.Part, agent: str = "b", facts: dict[str, Any] | None = None,
           **request: Any) -> Story:  # fmt: skip
    """Agent ``a`` hands off to ``b``, which is sent the parts."""
    story = Story(["a", "b"], **(facts or {}))
    story.turn("How far is it?", agent="a")
    story.call()
    story.passes_to("b", **request)
    story.call(*parts, agent=agent)
    return story


def contract(history_of: str, payload: Any = None) -> e.ContractFacts:
    return e.ContractFacts(("a",), "b", "handoff", "transfer", history_of, payload)


CODE: dict[str, Any] = {"observes": ("runs", "handoffs")}
"""What is seen of code for which there is no adapter."""


INSTRUCTIONS = context_message("instructions", "I am b.", agent="b")


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        (None, "is not sent the user's message"),
        ("How many km?", "is sent neither the user's message nor the query"),
    ],
)
def test_a_target_that_is_sent_no_request_is_found(query: str | None, problem: str) -> None:
    story = handed(INSTRUCTIONS, history("s1/b/history", lo=9), query=query)

    assert hits_of("HND-03", story.trace) == [
        Hit(
            "HND-03", f"agent 'b', to which 'a' handed off in turn 1, {problem}",
            1, "b", 0, data=PAIR,
        )
    ]  # fmt: skip


@pytest.mark.parametrize(("now", "is_lost"), [("Go on.", False), ("Stop.", True)])
def test_code_may_show_a_user_who_repeats_himself_the_older_message_is_taken_for_the_newer_one(
    now: str, is_lost: bool
) -> None:
    story = Story(["a", "b"], **CODE)
    story.turn("Go on.", agent="b")
    story.call(history("s1/b/history", tail=[1]))
    story.finish()
    story.turn(now, agent="a")
    story.call()
    story.passes_to("b")
    story.call(INSTRUCTIONS, history("s1/b/history", numbers=[1]), agent="b")
    story.finish_turn()

    assert bool(hits_of("HND-03", story.trace)) is is_lost


@pytest.mark.parametrize(("query", "expected"), [("Measure it.", True), ("Measure", False)])
def test_a_query_in_the_words_of_an_earlier_turn_counts_where_it_is_the_whole_message(
    query: str, expected: bool
) -> None:
    story = Story(["a", "b"], **CODE)
    story.turn("Measure it.", agent="b")
    story.call(history("s1/b/history", tail=[1]))
    story.finish()
    story.turn("How far is it?", agent="a")
    story.call()
    story.passes_to("b", query=query)
    story.call(INSTRUCTIONS, history("s1/b/history", numbers=[1]), agent="b")
    story.finish_turn()

    assert (hits_of("HND-03", story.trace) == []) is expected


@pytest.mark.parametrize(
    "part",
    [
        context_message("current_message", "How far is it?", role="user", of=1, turn=1),
        context_message("current_message", "How many km?", role="user", turn=1),
        history("s1/b/history", tail=[1, 2]),
        context_message("handoff", "Query: How many km?"),
        context_message("current", "x", pieces=[("x", "x"), ("task", "Measure.")]),
        context_message("task", "Measure.", role="user"),
        history("s1/b/history", rendered=context_message("x", "User: How far is it?").message),
    ],
    ids=["by id", "the query", "in history", "inside a text", "task piece", "task", "rendered"],
)
def test_a_target_that_is_sent_the_request_passes(part: e.Part) -> None:
    story = handed(INSTRUCTIONS, part, query="How many km?")

    assert hits_of("HND-03", story.trace) == []


@pytest.mark.parametrize(("declared", "count"), [("none", 0), ("all", 1)])
def test_isolation_may_be_declared(declared: str, count: int) -> None:
    story = handed(INSTRUCTIONS, facts={"contracts": (contract(declared),)})

    assert len(hits_of("HND-03", story.trace)) == count


def delegated(*message: Message, parent: bool = True) -> Trace:
    """Code delegates work to ``b``, which is sent the messages."""
    desk = Desk()
    desk.turn("How far is it?")
    boss = desk.run("a")
    desk.answers(desk.asks([user("How far is it?")]))
    desk.recorder.hand_over("a", "b", {"task": {"of": "Measure the road"}}, run=boss)
    desk.recorder.begin_run("b", parent=boss.id if parent else "")
    desk.asks(message, agent="b")
    desk.recorder.end_turn("Done.", None, ())
    return desk.trace


def test_what_is_delegated_is_the_request_where_code_builds_the_context() -> None:
    assert hits_of("HND-03", delegated(user("Please: Measure the road."))) == []


@pytest.mark.parametrize("parent", [False, True], ids=["handed off", "something else"])
def test_code_that_sends_neither_request_nor_what_is_delegated_is_found(parent: bool) -> None:
    text = "Sing a song" if parent else "Measure the road"

    assert len(hits_of("HND-03", delegated(user(text), parent=parent))) == 1


@pytest.mark.parametrize(
    ("output", "severities"),
    [("Please: Measure the road.", []), ("Sing a song", ["W"])],
    ids=["what the handoff says", "something else"],
)
def test_an_agent_that_is_used_as_a_tool_owes_the_user_nothing(
    output: str, severities: list[str]
) -> None:
    story = Story(["a", "b"], **CODE)
    story.turn("How far is it?", agent="a")
    story.passes_to("b", payload={"task": "Measure the road"})
    story.call(context_message("", output, role="user"))
    story.finish()
    story.start("a")
    story.call()
    story.finish()
    story.end("8 km")

    assert [hit.severity for hit in hits_of("HND-03", story.trace)] == severities


@pytest.mark.parametrize(
    ("observes", "severity"),
    [(("runs", "state"), None), (("runs",), "W")],
    ids=["an adapter", "none"],
)
def test_a_request_that_code_loses_is_an_error_where_an_adapter_sees_the_run(
    observes: tuple[str, ...], severity: str | None
) -> None:
    story = handed(context_message("", "Sing a song", role="user"), facts={"observes": observes})
    story.end("Done.")

    assert [hit.severity for hit in hits_of("HND-03", story.trace)] == [severity]


def test_only_the_targets_first_context_is_judged() -> None:
    story = handed(context_message("current_message", "How far is it?", role="user", of=1))
    story.call(INSTRUCTIONS)

    assert hits_of("HND-03", story.trace) == []


def test_a_summarys_call_within_the_targets_run_is_none_of_its_own() -> None:
    story = handed(INSTRUCTIONS, agent="summariser")

    assert hits_of("HND-03", story.trace) == []


@pytest.mark.parametrize(
    ("query", "payload", "given", "size", "where"),
    [
        (f"Compare: {WORDS}", {"document": WORDS}, {}, len(WORDS), "the payload"),
        (f"Compare: {WORDS}", None, {"doc": [WORDS]}, len(WORDS), "the state"),
        (WORDS[:300], {"document": WORDS}, {}, 300, "the payload"),
        (f"X {WORDS[33:300]} X", {"document": WORDS}, {}, 267, "the payload"),
        (f"Compare: {WORDS[:80]}", {"document": WORDS[:80]}, {}, 80, "the payload"),
        (WORDS.replace(" ", "\n"), {"document": WORDS}, {}, len(WORDS), "the payload"),
    ],
    ids=["payload", "state", "beginning", "middle", "short and whole", "other white space"],
)
def test_a_document_in_the_query_is_found(
    query: str, payload: Any, given: dict[str, Any], size: int, where: str
) -> None:
    channels = {"doc": e.ChannelFacts("append", "session")}
    story = Story(["a", "b"], channels=channels)
    story.turn(agent="a")
    story.write(given)
    story.hands_off("b", query=query, payload=payload)

    assert hits_of("HND-10", story.trace) == [
        Hit(
            "HND-10",
            f"the query of handoff h1 from 'a' to 'b' in turn 1 holds {size} characters of a text "
            f"that is in {where}",
            1, "a", data={**PAIR, "characters": size},
        )
    ]  # fmt: skip


def test_a_query_that_is_a_document_on_its_face_is_found() -> None:
    query = "\n".join(f"line {number} " + "x" * 90 for number in range(12))
    story = handed(query=query)

    assert texts_of("HND-10", story.trace) == [
        f"the query of handoff h1 from 'a' to 'b' in turn 1 is itself a document of {len(query)} "
        "characters"
    ]


@pytest.mark.parametrize(
    ("query", "payload"),
    [
        (None, {"document": WORDS}),
        ("Published data on sleep", {"document": WORDS}),
        (f"Compare {WORDS[:190]} with others", {"document": WORDS}),
        (WORDS[:79], {"document": WORDS[:79]}),
        (WORDS, {"document": "short"}),
    ],
    ids=["no query", "a request", "a quotation", "a short text", "only in the query"],
)
def test_a_query_that_only_asks_passes(query: str | None, payload: Any) -> None:
    story = handed(query=query, payload=payload)

    assert hits_of("HND-10", story.trace) == []


def test_what_the_user_said_may_be_quoted() -> None:
    story = Story(["a", "b"])
    story.turn(WORDS, agent="a")
    story.hands_off("b", query=WORDS)

    assert hits_of("HND-10", story.trace) == []


def test_a_document_of_another_session_is_not_in_this_state() -> None:
    story = Story(["a", "b"], channels={"doc": e.ChannelFacts("replace", "session")})
    story.turn(session="s2")
    story.write({"doc": WORDS})
    story.end()
    story.turn(session="s1", agent="a")
    story.hands_off("b", query=WORDS)

    assert hits_of("HND-10", story.trace) == []


@pytest.mark.slow
def test_state_updates_are_indexed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    add_all = delivery._Blocks.add_all
    counts = []
    for turns in (1000, 2000):
        request: list[int] = []

        def counted(self: Any, value: Any, call: list[int] = request) -> None:
            call.append(1)
            add_all(self, value)

        monkeypatch.setattr(delivery._Blocks, "add_all", counted)
        story = Story(["a", "b"], channels={"doc": e.ChannelFacts("append", "session")})
        for turn in range(turns):
            story.turn(agent="a")
            story.write({"doc": [f"{turn} {WORDS}"]})
            story.hands_off("b", query=f"{turn} {'x' * 90}")
            story.end()
        run_lints(story.trace, ["HND-10"])
        counts.append(len(request))

    assert counts[0] > 1000
    assert counts[1] <= 2.1 * counts[0]


@pytest.mark.parametrize(
    "payload",
    [{"km": 8.25}, {"at": {"place": ["Oslo fjord"]}}, {"source_agent": "a", "note": "by train"}],
    ids=["a number", "nested", "beside simkit's own keys"],
)
def test_a_payload_that_reaches_no_section_is_found(payload: Any) -> None:
    story = handed(INSTRUCTIONS, history("s1/b/history", tail=[1]), payload=payload)
    story.finish()

    assert hits_of("HND-12", story.trace) == [
        Hit(
            "HND-12",
            "'b' is sent nothing of the payload that 'a' handed to it in turn 1",
            1, "b", 0, data=PAIR,
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    "part",
    [
        context_message("handoff", '{"km":8.25}'),
        context_message("handoff", 'He said \\"far away\\", they'),
        context_message("shared", "x 8.25", pieces=[("x", "x"), ("handoff", "8.25")]),
        history("s1/b/history", tail=[1, 3]),
        history("s1/b/history", numbers=[3]),
        history("s1/b/history", rendered=context_message("x", "it is 8.25").message),
    ],
    ids=["as JSON", "quoted in JSON", "in a shared message", "said", "said earlier", "rendered"],
)
def test_a_payload_of_which_something_arrives_passes(part: e.Part) -> None:
    payload = {"km": 8.25, "says": 'He said "far away", they told us, and nobody knew.'}
    story = Story(["a", "b"])
    story.turn("hello", agent="a")
    story.call()
    story.says("So far: 8.25")
    story.says("I measured 8.25 km")
    story.passes_to("b", payload=payload)
    story.call(INSTRUCTIONS, part)
    story.finish()

    assert hits_of("HND-12", story.trace) == []


@pytest.mark.parametrize("address", [{"next": "b"}, {"next": "b", "last": "a"}])
def test_a_key_that_only_names_source_or_target_is_no_payload(address: Any) -> None:
    story = handed(INSTRUCTIONS, history("s1/b/history", tail=[1]), payload=address)
    story.finish()

    assert hits_of("HND-12", story.trace) == []


REFUND = {"order_id": "A-1007", "reason": "broken in transit", "amount": 8}
REFUND_CONTRACT = contract("all", payload={"type": "object", "required": ["order_id", "reason"]})


@pytest.mark.parametrize(
    ("facts", "keys"),
    [({"contracts": (REFUND_CONTRACT,)}, "`order_id`"), (CODE, "`order_id`, `amount`")],
    ids=["native", "code"],
)
def test_a_key_of_a_payload_that_is_lost_is_found(facts: dict[str, Any], keys: str) -> None:
    part = context_message("handoff", "It is broken in transit.")
    story = handed(INSTRUCTIONS, part, payload=REFUND, facts=facts)
    story.finish()

    assert hits_of("HND-12", story.trace) == [
        Hit(
            "HND-12",
            f"'b' is not sent {keys} of the payload that 'a' handed to it in turn 1",
            1, "b", 0, data={**PAIR, "missing": [key.strip("`") for key in keys.split(", ")]},
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    "payload",
    [None, {"$ref": "Refund"}, {"$ref": "Ring"}],
    ids=["no schema", "by name", "a ring, which only a damaged trace can have"],
)
def test_a_key_that_no_contract_requires_may_stay_behind(payload: Any) -> None:
    facts = {
        "contracts": (contract("all", payload=payload),),
        "schemas": {
            "Refund": {"type": "object", "required": ["reason"]},
            "Ring": {"$ref": "Wheel"},
            "Wheel": {"$ref": "Ring"},
        },
    }
    part = context_message("handoff", "It is broken in transit.")
    story = handed(INSTRUCTIONS, part, payload=REFUND, facts=facts)
    story.finish()

    assert hits_of("HND-12", story.trace) == []


def test_a_key_may_reach_the_target_in_a_later_call_of_its_run() -> None:
    part = context_message("handoff", "It is broken in transit.")
    story = handed(INSTRUCTIONS, part, payload=REFUND, facts={"contracts": (REFUND_CONTRACT,)})
    first = story.last_call
    number = story.hears("call9", "the order is A-1007")
    story.call(base=first, numbers=[number])
    story.finish()

    assert hits_of("HND-12", story.trace) == []


@pytest.mark.parametrize(
    "payload",
    [None, {}, {"source_agent": "agent_a", "handoff_type": "analysis"}, {"ok": True, "n": ""}],
    ids=["none", "empty", "simkit's own", "trivial"],
)
def test_a_payload_that_could_not_be_recognised_passes(payload: Any) -> None:
    story = handed(INSTRUCTIONS, payload=payload)
    story.finish()

    assert hits_of("HND-12", story.trace) == []


NATIVE = """\
version: 1
pipeline: pair
channels: {{doc: {{scope: session}}}}
agents:
  a: {{instructions: I am a., handoffs: [b]}}
  b: {{instructions: I am b., context: {recipe}}}
flow: {{handoffs: {{start: a}}}}
---
version: 1
scenario: a hands off to b
pipeline: pair
given: {{state: {{doc: "{words}"}}}}
turns:
  - user: hello
    replies:
      a: {{handoff: {{to: b, query: "{query}", payload: {{place: Oslo fjord}}}}}}
      b: Hi.
"""


@pytest.mark.parametrize(
    ("recipe", "query", "expected"),
    [
        ("[instructions, handoff, history, current_message]", "How far?", []),
        ("[instructions, handoff]", "How far?", ["HND-03"]),
        ("[instructions, current_message]", "How far?", ["HND-12"]),
        ("[instructions, handoff, current_message]", WORDS, ["HND-10"]),
    ],
    ids=["all arrives", "no request", "no payload", "the document in the query"],
)
def test_they_are_found_natively(
    tmp_path: Path, recipe: str, query: str, expected: list[type]
) -> None:
    trace = ran(tmp_path, NATIVE.format(recipe=recipe, query=query, words=WORDS))

    lints = ("HND-03", "HND-12", "HND-10")
    assert [lint for lint in lints if hits_of(lint, trace)] == expected
