"""Trace mutants: each changes one fact, and leaves a trace that a run could have left."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from simkit.checks.judge import claims_hold, expectation_holds, lints_hold
from simkit.checks.mutants import mutated, other_value, trace_mutants
from simkit.checks.trace_edits import without_message
from simkit.runtime.functions import function_named
from simkit.session.simulate import simulate
from simkit.spec.scenario.claims import Expect
from simkit.trace import events as e
from simkit.trace.views import view_of
from simkit.update.observed_values import StableClaims, claims_on, words_of
from tests.building import prepared
from tests.conversations import ROUTED, ROUTER, conversation

PIPELINE = """
channels:
  messages: {reducer: append, scope: session}
agents:
  desk:
    instructions: You are the desk.
    tools: [look]
    handoffs: [expert]
    context:
      - instructions
      - history: {from: log, filters: [tool_messages, tool_calls], window: {messages: 3}}
      - [current_message, {shared: {from: messages, as: json}}]
    writes: {messages: ["${run.final_message}"]}
  expert:
    instructions: You are the expert.
    context: [instructions, handoff, {history: {as: text}}, current_message]
    writes: {messages: ["${run.final_message}"]}
tools:
  look:
    description: Looks at it.
    args: {type: object, required: [at], properties: {by: {type: string}}}
contracts:
  - {from: desk, to: expert, payload: {type: object}}
flow: {handoffs: {start: desk}}
"""
TURN = {"user": "Hi", "replies": {"desk": [{"calls": {"look": {"at": "it"}}}, "Well."]}}
TURNS = [
    {**TURN, "tool_results": {"look": {"seen": [1]}}},
    {"user": "And?", "replies": {"desk": {"handoff": {"to": "expert", "payload": {"km": 8}}},
                                 "expert": "So."}},
    {"user": "Why?", "replies": {"desk": "Because."}},
]  # fmt: skip


def test_a_history_of_its_own_changes_nothing_but_the_message_that_it_lacks() -> None:
    ready = prepared(PIPELINE, f"turns: {json.dumps(TURNS)}")
    outcome = simulate(ready)
    events = outcome.trace.events
    whole = {call: [*view.context.messages] for call, view in outcome.view.calls.items()}
    histories: list[Any] = [
        m
        for m in trace_mutants(outcome.view)
        if without_message is getattr(m.changes, "func", None)
    ]

    for mutant in histories:
        unchanged = partial(mutant.changes, at=-1, tokens=0)
        same = mutated(events, unchanged())
        assert lints_hold(ready.scenario, ready.document, same)
        lacking = mutated(events, mutant.changes())
        place = mutant.changes.keywords["event"].call
        contexts = {c: [*v.context.messages] for c, v in view_of(lacking).calls.items()}
        sizes = {call: len(whole[call]) - len(contexts[call]) for call in whole}

        view = view_of(same)
        assert {c: [*v.context.messages] for c, v in view.calls.items()} == whole
        assert [v.context.dropped() for v in view.calls.values()] == [
            v.context.dropped() for v in outcome.view.calls.values()
        ]
        later = {
            c
            for c, v in outcome.view.calls.items()
            if v.run == mutant.changes.keywords["event"].run
        }
        assert sizes == {call: int(call in later) for call in whole}
        assert place in later
    assert len(histories) >= 5


def test_a_mutant_changes_its_fact_and_no_other_turn_before_it() -> None:
    ready = prepared(PIPELINE, f"turns: {json.dumps(TURNS)}")
    outcome = simulate(ready)

    mutants = list(trace_mutants(outcome.view))

    assert outcome.passed
    assert {mutant.kind for mutant in mutants} == {
        *("contexts", "definitions", "payloads", "state", "arguments", "results", "replies")
    }
    for mutant in mutants:
        events = mutated(outcome.trace.events, mutant.changes())
        assert events != outcome.trace.events, mutant.text
        first = next(n for n, event in enumerate(events) if event != outcome.trace.events[n])
        is_defined_before = mutant.kind == "definitions" and mutant.turn == 1
        assert events[first].turn == (0 if is_defined_before else mutant.turn), mutant.text
        assert claims_hold(ready.scenario, ready.document, view_of(events), function_named)


def test_a_message_asks_for_what_a_mutant_s_call_or_handoff_has() -> None:
    calls = [{"look": {"at": "it", "by": "me"}}, {"look": {"at": "that"}}]
    turn = {**TURN, "replies": {"desk": [{"calls": calls}, "Well."]}}
    turns = [{**turn, "tool_results": {"look": [1, 2]}}, TURNS[1]]
    outcome = simulate(prepared(PIPELINE, f"turns: {json.dumps(turns)}"))
    before = _requests(outcome.trace.events)

    for mutant in trace_mutants(outcome.view):
        events = mutated(outcome.trace.events, mutant.changes())
        requests = _requests(events)
        called = {event.call_id: event.args for event in events if isinstance(event, e.ToolCalled)}
        passed = [event.payload for event in events if isinstance(event, e.HandoffEvent)]
        assert {**requests, **called} == requests, mutant.text
        assert passed == [requests["call3"]["payload"]] * 2, mutant.text
        changes = [call for call, args in requests.items() if args != before[call]]
        assert len(changes) == (mutant.kind in ("arguments", "payloads")), mutant.text


def _requests(events: Any) -> dict[str, Any]:
    messages = [event.message for event in events if isinstance(event, e.MessageAdded)]
    return {call.id: call.args for message in messages for call in message.calls}


def test_each_part_of_a_tool_s_definition_is_noticed_by_the_claim_that_is_proposed() -> None:
    ready = prepared(PIPELINE, f"turns: {json.dumps(TURNS)}")
    outcome = simulate(ready)
    stable = StableClaims(ready.redactor({}), words_of(ready.document.data))
    turn = outcome.view.turns[0]

    mutants = [m for m in trace_mutants(outcome.view) if m.kind == "definitions"]

    assert [mutant.text for mutant in mutants] == [
        "the description of look was changed",
        "parameter `by` of look was lost",
        "parameter `at` of look was lost",
    ]
    for mutant in mutants:
        (claim,) = claims_on(mutant.fact, turn, stable)
        expect = Expect.model_validate(claim)
        changed = view_of(mutated(outcome.trace.events, mutant.changes()))
        assert expectation_holds(expect, 1, ready.document, outcome.view), mutant.text
        assert not expectation_holds(expect, 1, ready.document, changed), mutant.text


def test_a_lint_notices_a_mutant_of_a_run_that_it_found_nothing_in() -> None:
    ready = conversation(ROUTER, ROUTED, 2)
    outcome = simulate(ready)

    noticed = [
        mutant.text
        for mutant in trace_mutants(outcome.view)
        if not lints_hold(
            ready.scenario, ready.document, mutated(outcome.trace.events, mutant.changes())
        )
    ]

    assert lints_hold(ready.scenario, ready.document, outcome.trace.events)
    assert "billing is not sent a message of role system in section `instructions`" in noticed


def test_another_value_is_of_the_same_kind() -> None:
    values = [True, 1, 1.5, "a", None, [1], [], {"a": 1}, {}, "changed", {"$message": 3}]

    assert [other_value(value) for value in values] == [
        False, 2, 2.5, "changed", "changed", [], ["changed"], {}, {"changed": "changed"},
        "changed again", "changed",
    ]  # fmt: skip
