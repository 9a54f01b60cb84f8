"""HND-01, HND-04, HND-06, HND-08, HND-11: contract, target, open and several handoffs, types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simkit.checks.findings import Hit
from simkit.core.messages import HANDOFF_PREFIX, ToolCall
from simkit.trace import events as e
from tests.checks.traces import Story, context_message, hits_of, ran, texts_of

SCHEMA = {"type": "object", "required": ["km"], "properties": {"km": {"type": "number"}}}


def contract(**fields: Any) -> e.ContractFacts:
    given: dict[str, Any] = {
        "from_agents": ("a",), "to_agent": "b", "type": "analysis", "mode": "transfer",
        "history": "all", "payload": SCHEMA, **fields,
    }  # fmt: skip
    return e.ContractFacts(**given)


def asking(*contracts: e.ContractFacts) -> Story:
    """Agent ``a`` at work in turn 1."""
    story = Story(["a", "b", "c"], contracts=contracts)
    story.turn(agent="a")
    story.call()
    return story


FIELDS = {"from": "a", "to": "b", "type": "analysis", "handoff": "h1"}
FAILED = e.ErrorFacts("ModelError", "no")


def test_a_handoff_made_with_an_invalid_payload_is_found() -> None:
    story = asking(contract())
    story.hands_off("b", type="analysis", payload={"km": "far"})

    error = "payload.km: 'far' is not of type 'number'"
    assert hits_of("HND-01", story.trace) == [
        Hit(
            "HND-01", f"handoff h1 from 'a' to 'b' was made with an invalid payload: {error}",
            1, "b", data={**FIELDS, "errors": [error]},
        )
    ]  # fmt: skip


def test_a_key_that_was_requested_and_not_delivered_is_found() -> None:
    story = asking(contract())
    fields = story.requests("b", type="analysis", payload={"km": 8, "mood": "good"})
    story.emit(e.HandoffMade(*story.where(), **{**fields, "payload": {"km": 8}}))

    assert texts_of("HND-01", story.trace) == [
        "handoff h1 from 'a' to 'b' was made with an invalid payload: payload.mood: was dropped"
    ]


@pytest.mark.parametrize(
    "contracts",
    [
        (contract(),),
        (contract(from_agents=("*",)),),
        (contract(type="other", payload={"type": "array"}),),
        (contract(payload=None),),
        (contract(payload={"$ref": "Elsewhere"}),),
    ],
    ids=["valid", "from any", "of another type", "without a schema", "a schema not in the trace"],
)
def test_a_payload_that_satisfies_its_contract_passes(
    contracts: tuple[e.ContractFacts, ...],
) -> None:
    story = asking(*contracts)
    story.hands_off("b", type="analysis", payload={"km": 8, "mood": "good"})

    assert hits_of("HND-01", story.trace) == []


def test_a_rejected_payload_is_not_judged() -> None:
    story = asking(contract())
    fields = story.requests("b", type="analysis", payload={})
    story.emit(e.HandoffRejected(*story.where(), **fields, reason="km is missing"))

    assert hits_of("HND-01", story.trace) == []


@pytest.mark.parametrize(
    ("start", "agent"),
    [
        ({"agent": "c", "handoff": "h1", "source": "a"}, "'c'"),
        ({"agent": "b"}, "'b', but not by this handoff"),
        ({"agent": "b", "handoff": "h1", "source": "c"}, "'b', from 'c'"),
        (None, "nobody"),
    ],
    ids=["another agent", "another reason", "another source", "nobody"],
)
def test_a_handoff_that_does_not_start_its_target_is_found(
    start: dict[str, str] | None, agent: str
) -> None:
    story = asking()
    story.hands_off("b", type="analysis")
    if start is not None:
        story.start(**start)
        story.finish()
    story.end()

    assert hits_of("HND-04", story.trace) == [
        Hit(
            "HND-04",
            f"handoff h1 from 'a' to 'b' was made in turn 1, but the run that started is: {agent}",
            1, "b", data=FIELDS,
        )
    ]  # fmt: skip


def test_a_handoff_that_starts_its_target_passes() -> None:
    story = asking()
    story.passes_to("b", type="analysis")
    story.finish_turn()

    assert hits_of("HND-04", story.trace) == []


def test_a_turn_that_ends_with_an_error_owes_no_start() -> None:
    story = asking()
    story.hands_off("b")
    story.end(error=FAILED)

    assert hits_of("HND-04", story.trace) == []


def test_a_run_of_a_parallel_group_may_start_in_between() -> None:
    story = asking()
    handoff = story.hands_off("b")
    story.start("c", group="g1")
    story.start("b", handoff=handoff, source="a")
    story.end()

    assert hits_of("HND-04", story.trace) == []


def test_a_handoff_neither_made_nor_rejected_is_found() -> None:
    story = asking()
    story.requests("b", type="analysis")
    story.end()

    assert hits_of("HND-06", story.trace) == [
        Hit(
            "HND-06", "handoff h1 from 'a' to 'b' was neither made nor rejected in turn 1",
            1, "a", data=FIELDS,
        )
    ]  # fmt: skip


def test_a_call_beside_a_handoff_that_nobody_answers_is_found() -> None:
    story = asking()
    story.passes_to("b", tool_calls=[ToolCall("call7", "look", {}), ToolCall("call8", "log", {})])
    story.hears("call8", "logged")
    story.end()

    assert hits_of("HND-06", story.trace) == [
        Hit(
            "HND-06",
            "agent 'a' called 'look' (call7) beside a handoff in turn 1, and nobody answered",
            1, "a", data={"tool": "look"},
        )
    ]  # fmt: skip


@pytest.mark.parametrize(("text", "count"), [("`look` gave: 3 of them", 0), ("Go on.", 1)])
def test_a_result_may_be_told_to_the_target_in_a_text(text: str, count: int) -> None:
    story = asking()
    story.passes_to("b", tool_calls=[ToolCall("call7", "look", {})])
    story.emit(e.ToolCalled(*story.where(), call_id="call7", tool="look", args={}))
    story.emit(e.ToolReturned(*story.where(), call_id="call7", tool="look", result="3 of them"))
    story.call(context_message("", text, role="user"))
    story.end()

    assert len(hits_of("HND-06", story.trace)) == count


def test_answered_calls_and_decided_handoffs_pass() -> None:
    story = asking()
    fields = story.requests("c", tool_calls=[ToolCall("call7", "look", {})])
    story.emit(e.HandoffRejected(*story.where(), **fields, reason="no"))
    story.hears("call7", "nothing")
    story.passes_to("b")
    story.end()

    assert hits_of("HND-06", story.trace) == []


def test_a_handoff_that_a_run_asks_for_twice_is_made_once() -> None:
    story = asking()
    story.requests("b")
    story.passes_to("b")
    story.end()

    assert hits_of("HND-06", story.trace) == []


def test_calls_without_a_handoff_are_not_judged_here() -> None:
    story = asking()
    story.says("", ToolCall("call7", "look", {}), ToolCall("call8", "look", {}))
    story.end()

    assert hits_of("HND-06", story.trace) == []


def test_a_turn_that_ends_with_an_error_owes_no_decision() -> None:
    story = asking()
    story.requests("b", tool_calls=[ToolCall("call7", "look", {})])
    story.end(error=FAILED)
    story.turn()
    story.end()

    assert hits_of("HND-06", story.trace) == []


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ([f"{HANDOFF_PREFIX}b", "look", f"{HANDOFF_PREFIX}c"], [["b", "c"]]),
        ([f"{HANDOFF_PREFIX}b", f"{HANDOFF_PREFIX}b"], [["b", "b"]]),
        ([f"{HANDOFF_PREFIX}b", "look"], []),
        (["look", "look"], []),
    ],
)
def test_a_message_that_asks_for_several_handoffs_is_found(
    tools: list[str], expected: list[list[str]]
) -> None:
    story = asking()
    story.says("", *[ToolCall(f"call{place}", tool, {}) for place, tool in enumerate(tools)])

    assert hits_of("HND-08", story.trace) == [
        Hit(
            "HND-08", f"agent 'a' asked for 2 handoffs at once in turn 1: to {item!r}, {two!r}",
            1, "a", data={"to": [item, two]},
        )
        for item, two in expected
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("contracts", "known"),
    [
        ([contract(type="other"), contract(type="third", from_agents=("*",))],
         "known for this pair: other, third"),
        ([contract(to_agent="c")], "the pair has no contract"),
        ([], "the pair has no contract"),
    ],
    ids=["another type", "another pair", "no contracts at all"],
)  # fmt: skip
def test_a_handoff_that_no_contract_knows_is_found_once(
    contracts: list[e.ContractFacts], known: str
) -> None:
    story = asking(*contracts)
    story.hands_off("b", type="analysis")

    assert hits_of("HND-11", story.trace) == [
        Hit(
            "HND-11",
            f"handoff h1 from 'a' to 'b' has type 'analysis', which is not registered; {known}",
            1, "a", data=FIELDS,
        )
    ]  # fmt: skip


def test_a_registered_handoff_passes() -> None:
    story = asking(contract(type="other"), contract(from_agents=("c", "a")))
    story.hands_off("b", type="analysis")

    assert hits_of("HND-11", story.trace) == []


def test_a_rejected_request_in_a_pipeline_without_contracts_passes() -> None:
    story = asking()
    fields = story.requests("b")
    story.emit(e.HandoffRejected(*story.where(), **fields, reason="undeclared"))

    assert hits_of("HND-11", story.trace) == []


NATIVE = """\
version: 1
pipeline: pair
agents:
  a: {{instructions: I am a., handoffs: [b]}}
  b: {{instructions: I am b.}}
contracts: {contracts}
flow: {{handoffs: {{start: a}}}}
---
version: 1
scenario: a hands off to b
pipeline: pair
turns:
  - user: hello
    replies:
      a: {{handoff: {{to: b, type: analysis, payload: {{km: 8.25}}}}}}
      b: Hi.
"""


@pytest.mark.parametrize(
    ("contracts", "unregistered"),
    [("[]", 1), ("[{from: a, to: b, type: analysis, payload: {required: [km]}}]", 0)],
    ids=["without a contract", "with its contract"],
)
def test_the_native_runtime_makes_sound_handoffs(
    tmp_path: Path, contracts: str, unregistered: int
) -> None:
    trace = ran(tmp_path, NATIVE.format(contracts=contracts))

    assert len(hits_of("HND-11", trace)) == unregistered
    for lint in ("HND-01", "HND-04", "HND-06"):
        assert hits_of(lint, trace) == []
