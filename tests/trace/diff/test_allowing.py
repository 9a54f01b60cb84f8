"""What is declared to differ is taken out of a diff, and everything else stays."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from simkit.trace.diff import TraceDiff, trace_diff, without
from simkit.trace.views import view_of
from tests.building import trace_yaml

TEXT = """
channels: {plan: {scope: session}, seen: {reducer: append, scope: session}}
agents:
  a:
    instructions: Say.
    context: [instructions, current_message]
    handoffs: [b]
  b: {instructions: Help., handoffs: [], writes: {plan: {days: 2, km: 5}, seen: [run]}}
flow: {handoffs: {start: a}}
"""
OTHER = TEXT.replace("Say.", "Tell.").replace("days: 2", "days: 3").replace("[run]", "[swim]")
TURN = """
turns:
  - user: Hello
    replies:
      a: {handoff: {to: b, payload: {km: 5}}}
      b: Done.
"""
OTHER_TURN = TURN.replace("km: 5", "km: 9").replace("Done.", "Fine.")


def diff(item: str = TEXT, other: str = OTHER, turn: str = TURN, its_turn: str = TURN) -> TraceDiff:
    texts = ((item, turn), (other, its_turn))
    return trace_diff(*(view_of(trace_yaml(*text).events) for text in texts))


def left(result: TraceDiff, *declared: str) -> list[str]:
    """Where a diff still differs, without what is declared."""
    rest, _ = without(result, declared)
    calls = [
        f"{call.agent}: {len(list(call.changes))} messages, {[edit.at for edit in call.edits]}"
        for call in rest.calls
    ]
    turns = [
        edit.at for turn in rest.turns
        for edit in (*turn.edits, *turn.state, *(e for h in turn.handoffs for e in h.edits))
    ]  # fmt: skip
    return [*calls, *turns, *(edit.at for edit in rest.at_end)]


def test_all_that_differs_is_left_where_nothing_is_declared() -> None:
    assert left(diff()) == ["a: 1 messages, []", "plan.days", "seen[0]"]


@pytest.mark.parametrize(
    ("declared", "rest"),
    [
        ("context.a.messages.system", ["plan.days", "seen[0]"]),
        ("context.a", ["plan.days", "seen[0]"]),
        ("context.*.messages", ["plan.days", "seen[0]"]),
        ("context.a.messages.user", ["a: 1 messages, []", "plan.days", "seen[0]"]),
        ("context.b", ["a: 1 messages, []", "plan.days", "seen[0]"]),
        ("state.plan.days", ["a: 1 messages, []", "seen[0]"]),
        ("state.plan.km", ["a: 1 messages, []", "plan.days", "seen[0]"]),
        ("state.seen", ["a: 1 messages, []", "plan.days"]),
        ("state", ["a: 1 messages, []"]),
    ],
)
def test_a_declaration_is_the_beginning_of_a_path(declared: str, rest: list[str]) -> None:
    assert left(diff(), declared) == rest


def test_a_handoff_and_a_reply_are_declared_on_their_own() -> None:
    result = diff(TEXT, TEXT, TURN, OTHER_TURN)
    calls = ["context.a.answer", "context.b", "state"]

    assert left(result, *calls) == ["reply", "payload.km"]
    assert left(result, *calls, "turn.reply") == ["payload.km"]
    assert left(result, *calls, "handoffs.a.b.payload") == ["reply"]
    assert left(result, *calls, "handoffs.b.a", "turn.reply") == ["payload.km"]


def test_a_call_of_one_run_only_is_declared_as_a_call() -> None:
    result = diff(TEXT, TEXT, TURN, "turns: [{user: Hello, replies: {a: Done.}}]")
    declared = ["context", "turn", "state", "handoffs"]

    assert left(result, *declared) == ["b: 0 messages, []"]
    assert left(result, *declared, "calls.b") == []


def test_what_one_side_holds_alone_is_declared_key_by_key() -> None:
    capped = TEXT.replace("instructions: Say.", "instructions: Say.\n    output: {type: object}")
    result = diff(TEXT, capped)

    assert left(result, "context.a.settings.model") == ["a: 0 messages, ['settings']"]
    assert left(result, "context.a.settings.output") == []


def test_it_is_told_which_declarations_were_met() -> None:
    declared = ["context.a", "context.b", "state.plan", "state.*.days", "turn"]

    _, known = without(diff(), declared)

    assert sorted(known) == ["context.a", "state.*.days", "state.plan"]


def test_runs_of_two_drivers_differ_in_no_event_but_in_what_agents_see() -> None:
    def view(text: str, driver: str) -> Any:
        events: list[Any] = list(trace_yaml(text, TURN).events)
        events[0] = replace(events[0], driver=driver)
        return view_of(events)

    same = trace_diff(view(TEXT, "native"), view(TEXT, "other"))
    changed = trace_diff(view(TEXT, "native"), view(OTHER, "other"))

    assert (same.first, same.is_equal) == (None, True)
    assert (changed.first, changed.is_equal) == (None, False)
