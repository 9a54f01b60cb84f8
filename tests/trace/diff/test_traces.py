"""Two runs: what is the first to differ, and what of it reaches whom."""

from __future__ import annotations

from collections.abc import Callable
from cProfile import Profile
from typing import Any

import pytest
from msgspec.structs import replace

from simkit.core.messages import ABSENT
from simkit.trace import events as e
from simkit.trace.diff.calls import Changed, Removed, Same
from simkit.trace.diff.traces import TraceDiff, TurnDiff, trace_diff, without
from simkit.trace.diff.values import Edit
from simkit.trace.store import decoded
from simkit.trace.views import view_of
from tests.building import trace_yaml
from tests.report.conftest import COACH, TWO_TURNS

PIPELINE = COACH.removesuffix("---\n")
GREETING = """\
turns:
  - {user: Hello, replies: {router: {json: {agent: coach}}, coach: Hi.}}
"""
LONG = """
channels: {messages: {reducer: append, scope: session}}
agents: {a: {instructions: Say., handoffs: []}}
flow: {handoffs: {start: a}}
"""


def diff(pair: tuple[str, str], other: tuple[str, str]) -> TraceDiff:
    """Runs two pipelines with their scenarios and compares."""
    return trace_diff(*(view_of(trace_yaml(*texts).events) for texts in (pair, other)))


def changed(
    pipeline: Callable[[str], str] = str, scenario: Callable[[str], str] = str
) -> TraceDiff:
    """Compares the two turns with the coach with the same, changed."""
    return diff((PIPELINE, TWO_TURNS), (pipeline(PIPELINE), scenario(TWO_TURNS)))


def describe_diff(result: TraceDiff) -> list[tuple[Any, ...]]:
    """The calls that differ, and what changed in their contexts."""
    rows: list[tuple[Any, ...]] = []
    for call in result.calls:
        edits: list[Any] = []
        for edit in call.messages:
            if isinstance(edit, Same):
                edits.append(edit.count)
            elif isinstance(edit, Changed):
                edits.append((edit.at, edit.left.content, edit.right.content))
            else:
                sign = "-" if isinstance(edit, Removed) else "+"
                edits.append((edit.at, sign + edit.message.content))
        rows.append((call.agent, call.turn, call.call, edits, list(call.again)))
    return rows


def test_a_run_and_the_same_again_are_equal() -> None:
    assert changed() == TraceDiff((), None)


def test_what_is_only_declared_differently_makes_no_difference() -> None:
    result = changed(
        lambda text: text.replace("pipeline: coach", "pipeline: other"),
        lambda text: text.replace("pipeline: coach", "pipeline: other\nseed: 3"),
    )

    assert result == TraceDiff(
        (Edit("pipeline.name", "coach", "other"), Edit("seed", ABSENT, 3)), None
    )


def test_a_message_that_came_is_one_difference_in_every_context() -> None:
    result = changed(
        lambda text: text.replace("[instructions, handoff", "[instructions, notes, handoff")
    )

    note = (1, "+knee hurts")
    assert describe_diff(result) == [
        ("coach", 1, 0, [1, note, 2], [(1, 1), (2, 0), (2, 1)]),
        ("analyst", 2, 0, [1, note, 6], []),
    ]


def test_a_turn_that_came_first_moves_the_others_and_is_seen_by_them_as_history() -> None:
    result = changed(scenario=lambda text: text.replace("turns:\n", GREETING))

    greeted = [(1, "+Hello"), (2, '+{"agent":"coach"}'), (3, "+Hi.")]
    assert describe_diff(result) == [
        ("coach", 2, 0, [1, *greeted, 2], [(2, 1), (3, 0), (3, 1)]),
        ("analyst", 3, 0, [2, *[(at + 1, text) for at, text in greeted], 5], []),
    ]
    assert result.turns == (TurnDiff(None, 1, "Hello"),)
    assert result.first is not None
    assert result.first.number == 6
    assert [e.kind_of(event) for event in result.first.before] == [
        "SessionStarted", "StateUpdated", "TurnStarted",
    ]  # fmt: skip
    assert result.first.edits == (
        Edit("message.content", "I ran 8 km", "Hello"),
        Edit("tokens", 3, 2),
    )


def test_what_a_filter_no_longer_drops_comes() -> None:
    result = changed(lambda text: text.replace("[tool_messages, tool_calls]", "[tool_calls]"))

    assert describe_diff(result)[0] == ("coach", 2, 0, [3, (3, '+{"ok":true}'), 3], [(2, 1)])
    assert [call.agent for call in result.calls] == ["coach", "analyst"]
    assert result.turns == ()


def test_a_changed_message_stands_against_what_it_was_and_is_told_once() -> None:
    result = changed(scenario=lambda text: text.replace("Well done.", "Great."))

    assert describe_diff(result) == [
        ("coach", 1, 1, [5], []),
        ("coach", 2, 0, [3, (3, "Well done.", "Great."), 2], [(2, 1)]),
        ("analyst", 2, 0, [4, (4, "Well done.", "Great."), 2], []),
    ]
    assert result.calls[0].edits == (Edit("answer", "Well done.", "Great."),)
    assert result.turns == (
        TurnDiff(
            1, 1, "I ran 8 km", (Edit("reply", "Well done.", "Great."),), (),
            (Edit("messages[1].content", "Well done.", "Great."),),
        ),
    )  # fmt: skip


def test_a_handoff_that_is_made_at_once_leaves_a_request_and_a_call_out() -> None:
    result = changed(
        scenario=lambda text: text.replace("        - handoff: {to: analyst, payload: {}}\n", "")
    )

    (turn,) = result.turns
    assert [(item.left and item.left["outcome"], item.right) for item in turn.handoffs] == [
        ("rejected", None)
    ]
    assert [(call.agent, call.call, call.sizes) for call in result.calls] == [
        ("coach", 0, (6, 6)),
        ("coach", 1, (8, None)),
    ]
    assert result.calls[0].edits == (
        Edit("answer.calls[0].transfer_to_analyst.payload.km", ABSENT, 8),
    )


def test_what_is_given_differently_is_told_before_the_first_turn() -> None:
    result = changed(scenario=lambda text: text.replace("[knee hurts]", "[knee hurts, no milk]"))

    assert result.turns == (TurnDiff(0, 0, "", state=(Edit("notes[1]", ABSENT, "no milk"),)),)
    assert result.calls == ()


def test_runs_that_differ_only_in_time_say_so_by_their_first_event() -> None:
    result = changed(scenario=lambda text: text.replace("1500", "2500"))

    assert result.first is not None
    assert result.first.edits == (Edit("at", 1500, 2500),)
    assert (result.calls, result.turns, result.at_end) == ((), (), ())


def test_a_run_that_has_ended_has_no_event_against_the_other() -> None:
    events = trace_yaml(PIPELINE, TWO_TURNS).events

    result = trace_diff(view_of(events), view_of(events[:-1]))

    assert result.first is not None
    assert (result.first.number, result.first.left, result.first.right) == (
        len(events), events[-1], None,
    )  # fmt: skip


def _long(size: int, marked: set[int]) -> str:
    lines = [
        f"  - {{user: question {n}, replies: {{a: answer {n}{'!' * (n in marked)}}}}}"
        for n in range(size)
    ]
    return "\n".join(("turns:", *lines))


def test_one_changed_answer_in_a_long_conversation_is_two_differences() -> None:
    result = diff((LONG, _long(60, set())), (LONG, _long(60, {20})))

    assert describe_diff(result) == [
        ("a", 21, 0, [42], []),
        ("a", 22, 0, [42, (42, "answer 20", "answer 20!"), 1], [(n, 0) for n in range(23, 61)]),
    ]


@pytest.mark.slow
def test_the_cost_of_a_diff_grows_with_the_conversation_and_not_with_its_square() -> None:
    def calls(size: int) -> int:
        item, other = (
            view_of(decoded(trace_yaml(LONG, _long(size, marked)).encoded()).events)
            for marked in (set(), {20})
        )
        profile = Profile()
        profile.runcall(trace_diff, item, other)
        return sum(entry.callcount for entry in profile.getstats())

    assert calls(400) < 2.4 * calls(200)


def test_nothing_that_is_appended_is_as_if_nobody_had_written() -> None:
    pipeline = """
channels: {notes: {reducer: append, scope: session}, last: {scope: session}}
agents: {a: {instructions: Say., handoffs: [], writes: {WRITES}}}
flow: {handoffs: {start: a}}
"""
    turns = "turns: [{user: Hello, replies: {a: {json: {}}}}]"
    nothing, null, value = (
        pipeline.replace("WRITES", writes)
        for writes in ("", 'notes: "${run.output.note}"', 'notes: "${run.output}"')
    )

    assert diff((nothing, turns), (null, turns)).turns == ()
    assert diff((nothing, turns), (value, turns)).turns != ()


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


def turn_diff(
    item: str = TEXT, other: str = OTHER, turn: str = TURN, its_turn: str = TURN
) -> TraceDiff:
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
    assert left(turn_diff()) == ["a: 1 messages, []", "plan.days", "seen[0]"]


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
    assert left(turn_diff(), declared) == rest


def test_a_handoff_and_a_reply_are_declared_on_their_own() -> None:
    result = turn_diff(TEXT, TEXT, TURN, OTHER_TURN)
    calls = ["context.a.answer", "context.b", "state"]

    assert left(result, *calls) == ["reply", "payload.km"]
    assert left(result, *calls, "turn.reply") == ["payload.km"]
    assert left(result, *calls, "handoffs.a.b.payload") == ["reply"]
    assert left(result, *calls, "handoffs.b.a", "turn.reply") == ["payload.km"]


def test_a_call_of_one_run_only_is_declared_as_a_call() -> None:
    result = turn_diff(TEXT, TEXT, TURN, "turns: [{user: Hello, replies: {a: Done.}}]")
    declared = ["context", "turn", "state", "handoffs"]

    assert left(result, *declared) == ["b: 0 messages, []"]
    assert left(result, *declared, "calls.b") == []


def test_what_one_side_holds_alone_is_declared_key_by_key() -> None:
    capped = TEXT.replace("instructions: Say.", "instructions: Say.\n    output: {type: object}")
    result = turn_diff(TEXT, capped)

    assert left(result, "context.a.settings.model") == ["a: 0 messages, ['settings']"]
    assert left(result, "context.a.settings.output") == []


def test_it_is_told_which_declarations_were_met() -> None:
    declared = ["context.a", "context.b", "state.plan", "state.*.days", "turn"]

    _, known = without(turn_diff(), declared)

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
