"""From one agent to the next: contracts on a graph's edges are handoffs of what was put out."""

from __future__ import annotations

from simkit.trace.events import (
    AgentStarted,
    HandoffMade,
    HandoffRejected,
    HandoffRequested,
    MessageAdded,
)
from tests.building import Ran, message_lines
from tests.runtime.graphs import graph, order, problems, ran

WANTS_X = "payload: {type: object, required: [x]}"


def handoffs(outcome: Ran) -> list[str]:
    """Every handoff of the turn on one line."""
    return [
        f"{fields['from']}>{fields['to']} {fields['outcome']}"
        + (f" ({fields['reason']})" if "reason" in fields else "")
        for fields in (handoff.fields() for handoff in outcome.turn().handoffs)
    ]


def guarded(contract: str, expect: str = "{}", **replies: str) -> Ran:
    """Runs ``a>b``, watched by a contract."""
    pipeline = graph(
        "a>b", {"b": "context: [instructions, handoff, history, current_message]"},
        f"contracts: [{{from: a, to: b, {contract}}}]", b="exit: true",
    )  # fmt: skip
    return ran(pipeline, expect, **replies)


def test_edge_with_a_contract_hands_over_what_was_put_out() -> None:
    outcome = guarded(f"type: report, {WANTS_X}", a="{json: {x: 1}}", b="End.")

    assert problems(outcome) == []
    (requested,), (result,) = outcome.events(HandoffRequested), outcome.events(HandoffMade)
    assert (requested.agent, requested.run, requested.call_id) == ("a", "r1", "")
    assert (result.handoff, result.from_agent, result.to_agent, result.depth) == ("h1", "a", "b", 1)
    assert (result.type, result.mode, result.payload) == ("report", "transfer", {"x": 1})
    started = outcome.events(AgentStarted)[1]
    assert (started.agent, started.handoff, started.handoff_from, started.after) == (
        "b", "h1", "a", ("r1",)
    )  # fmt: skip
    assert message_lines(outcome.context("b").messages) == [
        "system/b: B.", 'system: {"x":1}', 'assistant/a: {"x":1}', "user: Hi",
    ]  # fmt: skip


def test_edge_without_a_contract_is_no_handoff() -> None:
    item = ran(graph("a>b", b="exit: true"), a="x", b="y")

    assert (problems(item), handoffs(item)) == ([], [])


def test_contract_says_which_channels_the_next_node_reads() -> None:
    outcome = guarded("carries: [outputs]", a="x", b="y")

    assert problems(outcome) == []
    assert outcome.runs("b")[0].received == {"outputs": {"a": "x"}}


def test_contract_says_what_of_the_conversation_travels() -> None:
    outcome = guarded("history: none", a="{json: {x: 1}}", b="y")

    assert problems(outcome) == []
    assert message_lines(outcome.context("b").messages) == [
        "system/b: B.",
        'system: {"x":1}',
        "user: Hi",
    ]


def test_refused_output_ends_the_turn_where_the_contract_says_stop() -> None:
    outcome = guarded(f"on_invalid: stop, {WANTS_X}", a="{json: {y: 1}}")

    assert problems(outcome) == []
    assert handoffs(outcome) == ["a>b rejected (payload: 'x' is a required property)"]
    assert (order(outcome), outcome.turn().reply, outcome.error()) == (["a"], {"y": 1}, None)


def test_refused_output_runs_its_source_again_told_why() -> None:
    outcome = guarded(WANTS_X, a="[{json: {y: 1}}, {json: {y: 2}}, {json: {x: 3}}]", b="End.")

    assert problems(outcome) == []
    refused = "a>b rejected (payload: 'x' is a required property)"
    assert handoffs(outcome) == [refused, refused, "a>b made"]
    assert order(outcome) == ["a", "a", "a", "b"]
    assert [run.input for run in outcome.turn().runs] == ["Hi", "Hi", "Hi", {"x": 3}]
    text = "system/a: Handoff to b rejected: payload: 'x' is a required property"
    contexts = [call.context for call in outcome.calls("a")]
    assert [message_lines(context.section("run")) for context in contexts] == [[], [text], [text]]
    assert message_lines(contexts[1].messages) == [
        "system/a: A.", 'assistant/a: {"y":1}', "user: Hi", text,
    ]  # fmt: skip
    # What it was told is in the log, in the run that was told.
    assert [
        (event.run, event.message.content)
        for event in outcome.events(MessageAdded)
        if event.message.role == "system"
    ] == [(run, text.removeprefix("system/a: ")) for run in ("r2", "r3")]


def test_source_that_ran_again_leads_on_with_its_new_run() -> None:
    outcome = guarded(WANTS_X, a="[{json: {y: 1}}, {json: {x: 3}}]", b="End.")

    assert [(e.agent, e.after) for e in outcome.events(AgentStarted)] == [
        ("a", ()), ("a", ()), ("b", ("r2",))
    ]  # fmt: skip


def test_retry_is_one_more_chance() -> None:
    outcome = guarded(
        f"on_invalid: retry, {WANTS_X}", a="[{json: {y: 1}}, {json: {x: 2}}]", b="End."
    )

    assert (problems(outcome), order(outcome)) == ([], ["a", "a", "b"])


def test_second_refusal_of_a_retry_ends_the_turn_with_an_error() -> None:
    outcome = guarded(
        f"on_invalid: retry, {WANTS_X}", "{error: {type: HandoffInvalid}}",
        a="[{json: {y: 1}}, {json: {y: 2}}]",
    )  # fmt: skip

    assert problems(outcome) == []
    assert outcome.error() == (
        "HandoffInvalid",
        "the handoff from 'a' to 'b' was refused again: payload: 'x' is a required property",
    )
    assert order(outcome) == ["a", "a"]


def test_refusals_without_end_are_stopped_by_a_limit() -> None:
    item = ran(
        graph("a>b", more=f"contracts: [{{from: a, to: b, {WANTS_X}}}]\n"
              "limits: {handoffs_per_turn: 2}", b="exit: true"),
        "{error: {type: LimitExceeded}, findings: [{id: FLW-01}]}",
        a="[{json: {y: 1}}, {json: {y: 2}}, {json: {y: 3}}]",
    )  # fmt: skip

    assert problems(item) == []
    assert item.error() == ("LimitExceeded", "limit `handoffs_per_turn` reached: 2 allowed")


def test_decision_is_made_anew_by_a_source_that_ran_again() -> None:
    item = ran(
        graph("t>a:left t>b:right", more=f"contracts: [{{from: t, to: a, {WANTS_X}}}]",
              t="role: decision", a="exit: true", b="exit: true"),
        t="[{json: {decision: left}}, {json: {decision: right}}]", b="End.",
    )  # fmt: skip

    assert problems(item) == []
    assert order(item) == ["t", "t", "b"]
    assert handoffs(item) == ["t>a rejected (payload: 'x' is a required property)"]


def test_contract_of_an_edge_holds_whoever_its_node_handed_off_to() -> None:
    item = ran(
        graph("a>b", {"a": "handoffs: [helper]", "helper": ""},
              f"contracts: [{{from: a, to: b, on_invalid: stop, {WANTS_X}}}, "
              "{from: a, to: helper}]", b="exit: true"),
        a="{handoff: {to: helper, query: Help}}", helper="No x.",
    )  # fmt: skip

    assert problems(item) == []
    assert handoffs(item) == [
        "a>helper made", "a>b rejected (payload: 'No x.' is not of type 'object')",
    ]  # fmt: skip


SPLIT = (
    "contracts: [{from: s, to: a, payload: {type: object, required: [x]}}, "
    "{from: s, to: b, payload: {type: object, required: [y]}}]"
)


def test_split_takes_all_its_edges_or_none() -> None:
    item = ran(
        graph("s>a s>b", more=SPLIT, s="role: split", a="exit: true", b="exit: true"),
        "{agents: [s, s, [a, b]]}", s="[{json: {x: 1}}, {json: {x: 1, y: 2}}]", a="a", b="b",
    )  # fmt: skip

    assert problems(item) == []
    # The edge that nothing speaks against is asked for once it can be taken.
    assert handoffs(item) == [
        "s>b rejected (payload: 'y' is a required property)", "s>a made", "s>b made",
    ]  # fmt: skip


def test_source_is_told_of_all_edges_that_refuse() -> None:
    item = ran(
        graph("s>a s>b", more=SPLIT, s="role: split", a="exit: true", b="exit: true"),
        s="[{json: {}}, {json: {x: 1, y: 2}}]", a="a", b="b",
    )  # fmt: skip

    assert problems(item) == []
    assert message_lines(item.calls("s")[1].context.section("run")) == [
        "system/s: Handoff to a rejected: payload: 'x' is a required property\n"
        "Handoff to b rejected: payload: 'y' is a required property"
    ]


def test_contract_may_watch_the_way_onto_a_merge() -> None:
    item = ran(
        graph("s>a s>b a>m b>m", {"m": "context: [instructions, handoff, input, current_message]"},
              more=f"contracts: [{{from: a, to: m, {WANTS_X}}}]", s="role: split",
              m="role: merge, exit: true"),
        s="s", a="[{json: {y: 1}}, {text: '{\"x\": 2}', latency_ms: 5}]", b="b", m="m",
    )  # fmt: skip

    assert problems(item) == []
    assert handoffs(item) == ["a>m rejected (payload: 'x' is a required property)", "a>m made"]
    assert order(item) == ["s", "a g1", "b g1", "a", "m @5"]
    assert item.runs("m")[0].input == {"b": "b", "a": {"x": 2}}
    assert message_lines(item.context("m").messages) == [
        "system/m: M.", 'system: {"x":2}', 'user: {"b":"b","a":{"x":2}}', "user: Hi",
    ]  # fmt: skip


def test_several_contracts_may_watch_the_ways_onto_a_merge() -> None:
    item = ran(
        graph("s>a s>b a>m b>c c>m", {"m": "context: [instructions, handoff, input, history]"},
              "contracts: [{from: a, to: m, type: one}, {from: c, to: m, type: two}]",
              s="role: split", m="role: merge, exit: true"),
        s="s", a="{json: {from: a}}", b="{text: b, latency_ms: 3}", c="{json: {from: c}}", m="m",
    )  # fmt: skip

    assert problems(item) == []
    assert handoffs(item) == ["a>m made", "c>m made"]
    # It is one run, so it has one handoff: the last that led to it.
    assert message_lines(item.context("m").section("handoff")) == ['system: {"from":"c"}']
    assert item.runs("m")[0].input == {"a": {"from": "a"}, "c": {"from": "c"}}


def test_source_that_runs_again_is_in_its_branch() -> None:
    item = ran(
        graph("s>a s>b a>m b>m", more=f"contracts: [{{from: a, to: m, {WANTS_X}}}]",
              s="role: split", m="role: merge, exit: true"),
        s="s", a="[{json: {y: 1}}, {json: {x: 2}}]", b="b", m="m",
    )  # fmt: skip

    assert problems(item) == []
    assert [(e.agent, e.run, e.group, e.branch) for e in item.events(AgentStarted)] == [
        ("s", "r1", "", ""), ("a", "r2", "g1", "r2"), ("b", "r3", "g1", "r3"),
        ("a", "r4", "", "r2"), ("m", "r5", "", ""),
    ]  # fmt: skip
    assert [run.received["seen"] for run in item.runs("a")] == [["s"], ["s", "a"]]


def test_depth_of_handoffs_counts_along_edges() -> None:
    item = ran(
        graph("a>b b>c", more="contracts: [{from: a, to: b}, {from: b, to: c, depth_max: 1}]",
              c="exit: true"),
        "{error: {type: LimitExceeded}}", a="a", b="[b1, b2]",
        more="limits: {handoffs_per_turn: 2}",
    )  # fmt: skip

    assert handoffs(item)[:2] == ["a>b made", "b>c rejected (depth 2 exceeds depth_max 1)"]
    assert [event.reason for event in item.events(HandoffRejected)][:1] == [
        "depth 2 exceeds depth_max 1"
    ]


def test_depth_of_handoffs_counts_through_a_merge() -> None:
    item = ran(
        graph("s>a s>b a>m b>m m>c", s="role: split", m="role: merge", c="exit: true",
              more="contracts: [{from: a, to: m}, {from: m, to: c}]"),
        s="s", a="a", b="{text: b, latency_ms: 3}", m="m", c="c",
    )  # fmt: skip

    assert problems(item) == []
    assert [(event.to_agent, event.depth) for event in item.events(HandoffMade)] == [
        ("m", 1), ("c", 2)
    ]  # fmt: skip


def test_target_of_an_edge_that_takes_too_long_ends_the_turn() -> None:
    outcome = guarded(
        "timeout_ms: 10", "{error: {type: HandoffTimeout}}", a="x",
        b="{text: late, latency_ms: 11}",
    )  # fmt: skip

    assert outcome.error() == (
        "HandoffTimeout",
        "agent 'b' took longer than the 10 ms that the handoff from 'a' allows",
    )
    assert [run.status for run in outcome.turn().runs] == ["done", "timed_out"]
