"""What goes on in a new process, which reads only the store, goes on as if nothing had stopped."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from simkit.core.errors import SourceError
from simkit.trace import events as e
from simkit.trace.store import Trace
from simkit.trace.views import view_of
from tests.building import Ran, line, message_lines, run_yaml, trace_yaml

NEW = "# in a new process"
"""Stands in a scenario where a turn may be preceded by a restart."""

BOOKKEEPING = (e.CheckpointSaved, e.CheckpointRestored, e.StoreRead)

ROUTER = """
channels:
  outputs: {reducer: merge, scope: turn}
  notes: {reducer: append, scope: project}
  runs: {reducer: add, scope: global, default: 0}
  draft: {scope: agent_run}
defaults:
  context: [instructions, notes: {max: 9}, history, current_message]
  writes:
    messages: ["${run.final_message}"]
    outputs: {"${agent}": "${run.output}"}
    notes: [{text: "${run.reply}", agent: "${agent}"}]
    runs: 1
    draft: "${run.reply}"
agents:
  router: {context: [current_message], writes: {}}
  cook: {instructions: Cook., tools: [count]}
  shopper: {instructions: Shop.}
  loud: {function: "tests.functions:shout"}
tools: {count: {function: "tests.functions:count_letters"}}
flow: {router: {decide: router, to: "${run.output.to}"}}
"""


def plainly(value: Any) -> Any:
    """State without the types that hold it."""
    if isinstance(value, str) or value is None or not hasattr(value, "__iter__"):
        return value
    if isinstance(value, dict) or hasattr(value, "keys"):
        return {key: plainly(value[key]) for key in value}
    return [line(item) if hasattr(item, "role") else plainly(item) for item in value]


def story(trace: Trace) -> list[dict[str, Any]]:
    """Everything that happened, but for what a store does: contexts as they were sent."""
    view = view_of(trace.events)
    rows: list[dict[str, Any]] = []
    for event in trace.events:
        if isinstance(event, BOOKKEEPING):
            continue
        fields = {"kind": e.kind_of(event), **msgspec.to_builtins(event)}
        if isinstance(event, e.ContextBuilt):
            # A new process tells what its histories have settled once more.
            context = view.calls[event.call].context
            fields.pop("parts", None)
            fields["messages"] = [msgspec.to_builtins(message) for message in context.messages]
            fields["dropped"] = [(line(drop.message), drop.by) for drop in context.dropped()]
        elif isinstance(event, e.AgentStarted):
            fields["received"] = plainly(view.runs[event.run].received)
        elif isinstance(event, e.TurnFinished):
            fields["state"] = plainly(view.turns[event.turn - 1].state)
        rows.append(fields)
    return rows


def stopped_and_not(pipeline: str, scenario: str) -> tuple[list[Any], list[Any]]:
    """The story of a scenario with a new process wherever one may start, and of one without."""
    assert NEW in scenario
    stopped = trace_yaml(pipeline, scenario.replace(NEW, "restart: true"))
    restarts = [event for event in stopped.events if type(event) is e.CheckpointRestored]
    assert restarts
    return story(stopped), story(trace_yaml(pipeline, scenario))


def restored(ran: Ran) -> list[tuple[int, str, str]]:
    return [
        (event.turn, event.session, event.checkpoint) for event in ran.events(e.CheckpointRestored)
    ]


SESSIONS = """
turns:
  - user: What can I cook?
    replies: {router: {json: {to: cook}}, cook: {text: Rice., latency_ms: 700}}
  - user: Anything at all
    session: two
    # in a new process
    replies: {router: {json: {to: {parallel: [cook, shopper]}}}, cook: [{calls: {count: {user: abc}}}, Soup.], shopper: Leeks.}
  - user: And for two?
    # in a new process
    replies: {router: {json: {to: [loud, cook]}}, cook: More rice.}
  - user: Elsewhere
    session: three
    project: other
    replies: {router: {json: {to: shopper}}, shopper: Nails.}
  - user: What was it?
    session: two
    # in a new process
    replies: {router: {json: {to: cook}}, cook: Soup.}
"""  # noqa: E501


@pytest.mark.slow
def test_restarts_in_the_middle_of_several_sessions_change_nothing_that_happens() -> None:
    stopped, uninterrupted = stopped_and_not(ROUTER, SESSIONS)

    assert stopped == uninterrupted


@pytest.mark.slow
def test_a_session_is_restored_where_it_goes_on_and_no_sooner() -> None:
    ran = run_yaml(ROUTER, SESSIONS.replace(NEW, "restart: true"))

    assert ran.judgement.findings == ()
    assert [(turn, session) for turn, session, _ in restored(ran)] == [(3, "s1"), (5, "two")]
    assert ran.history("cook", turn=3) == [
        "user: What can I cook?",
        "assistant/cook: Rice.",
        "assistant/loud: AND FOR TWO?",
    ]
    assert ran.history("cook", turn=5) == [
        "user: Anything at all",
        "assistant/cook: Soup.",
        "assistant/shopper: Leeks.",
    ]


@pytest.mark.slow
def test_what_is_restored_is_the_sessions_last_checkpoint() -> None:
    ran = run_yaml(ROUTER, SESSIONS.replace(NEW, "restart: true"))

    last: dict[str, str] = {}
    for event in ran.trace.events:
        if type(event) is e.CheckpointRestored:
            assert event.checkpoint == last[event.session]
        elif type(event) is e.CheckpointSaved:
            last[event.session] = event.checkpoint
    saved = [item.checkpoint for item in ran.events(e.CheckpointSaved)]
    assert saved == [f"k{number}" for number in range(1, len(saved) + 1)]


def test_a_project_and_the_world_are_seen_by_a_session_that_begins_after_the_restart() -> None:
    ran = run_yaml(
        ROUTER,
        """
        turns:
          - user: Hi
            replies: {router: {json: {to: cook}}, cook: Rice.}
          - user: Same project
            session: two
            restart: true
            replies: {router: {json: {to: cook}}, cook: Soup.}
          - user: Another project
            session: three
            project: other
            replies: {router: {json: {to: cook}}, cook: Nails.}
        """,
    )

    assert [note["text"] for note in ran.runs("cook", turn=2)[0].received["notes"]] == ["Rice."]
    assert list(ran.runs("cook", turn=3)[0].received["notes"]) == []
    assert [ran.runs("cook", turn=turn)[0].received["runs"] for turn in (2, 3)] == [1, 2]
    assert restored(ran) == []


@pytest.mark.slow
def test_what_is_of_a_turn_or_of_a_run_is_not_restored() -> None:
    ran = run_yaml(
        ROUTER,
        """
        turns:
          - user: Hi
            replies: {router: {json: {to: cook}}, cook: Rice.}
          - user: Again
            restart: true
            replies: {router: {json: {to: shopper}}, shopper: Leeks.}
        """,
    )

    assert ran.state("outputs", turn=1) == {"cook": "Rice."}
    assert ran.runs("router", turn=2)[0].received["outputs"] == {}
    assert "draft" not in ran.runs("shopper", turn=2)[0].received


SUMMARIES = """
defaults: {writes: {messages: ["${run.final_message}"]}}
agents:
  cook: {context: [history: {window: {rounds: 1}, summary: notary}, current_message]}
  notary: {instructions: Sum up.}
flow: {handoffs: {start: cook}}
"""


@pytest.mark.slow
def test_a_rolling_summary_rolls_on_in_a_new_process() -> None:
    scenario = """
        turns:
          - user: One
            replies: {cook: Rice.}
          - user: Two
            # in a new process
            replies: {cook: Soup.}
          - user: Three
            # in a new process
            replies: {cook: Bread., notary: Rice was said.}
          - user: Four
            # in a new process
            replies: {cook: Cake., notary: Rice and soup were said.}
    """
    stopped, uninterrupted = stopped_and_not(SUMMARIES, scenario)
    ran = run_yaml(SUMMARIES, scenario.replace(NEW, "restart: true"))

    assert stopped == uninterrupted
    assert ran.judgement.findings == ()
    # It is shown the last summary, and not what that covers.
    assert message_lines(ran.context("notary").messages)[1:] == [
        "system/notary: Rice was said.",
        "user: Two",
        "assistant/cook: Soup.",
    ]


BRANCHES = """
channels:
  seen: {reducer: append}
defaults: {writes: {messages: ["${run.final_message}"], seen: "${agent}"}}
agents:
  ask: {instructions: Ask.}
  left: {context: [history: {from: log}, input]}
  right: {context: [history: {from: log}, input]}
  join: {context: [history: {from: log, as: text}, upstream]}
flow:
  graph:
    nodes: {ask: {role: split, start: true}, left: {}, right: {}, join: {role: merge, exit: true}}
    edges: [{from: ask, to: left}, {from: ask, to: right}, {from: left, to: join}, {from: right, to: join}]
"""  # noqa: E501


def test_parallel_branches_of_a_turn_before_are_history_in_a_new_process() -> None:
    turn = "replies: {ask: A, left: {text: L, latency_ms: 20}, right: R, join: J}"
    stopped, uninterrupted = stopped_and_not(
        BRANCHES, f"turns:\n  - user: One\n    {turn}\n  - user: Two\n    {NEW}\n    {turn}\n"
    )

    assert stopped == uninterrupted


@pytest.mark.slow
def test_numbers_and_virtual_time_go_on_in_a_new_process() -> None:
    ran = run_yaml(ROUTER, SESSIONS.replace(NEW, "restart: true"))

    runs = [event.run for event in ran.events(e.AgentStarted)]
    assert runs == [f"r{number}" for number in range(1, len(runs) + 1)]
    added = [event.message.id for event in ran.events(e.MessageAdded)]
    assert added == [f"m{number}" for number in range(1, len(added) + 1)]
    assert [turn.at for turn in ran.view.turns] == [0, 700, 700, 700, 700]


@pytest.mark.slow
def test_given_state_is_given_once() -> None:
    ran = run_yaml(
        ROUTER,
        """
        given: {state: {notes: [{text: No nuts, agent: cook}]}}
        turns:
          - user: Hi
            replies: {router: {json: {to: cook}}, cook: Rice.}
          - user: Again
            restart: true
            replies: {router: {json: {to: cook}}, cook: Soup.}
          - user: Somebody else
            session: two
            replies: {router: {json: {to: cook}}, cook: Bread.}
        """,
    )

    notes = [[note["text"] for note in turn.state["notes"]] for turn in ran.view.turns]
    assert notes == [["No nuts", "Rice."], ["No nuts", "Rice.", "Soup."],
                     ["No nuts", "Rice.", "Soup.", "Bread."]]  # fmt: skip


def test_a_turn_that_ended_with_an_error_is_restored_as_it_was_left() -> None:
    stopped, uninterrupted = stopped_and_not(
        ROUTER,
        """
        turns:
          - user: Hi
            replies: {router: {json: {to: [cook, shopper]}}, cook: Rice., shopper: {error: rate_limit}}
            expect: {error: rate_limit}
          - user: Again
            # in a new process
            replies: {router: {json: {to: shopper}}, shopper: Leeks.}
        """,  # noqa: E501
    )

    assert stopped == uninterrupted


@pytest.mark.slow
def test_an_error_ends_the_run_in_whichever_process_it_happens() -> None:
    ran = run_yaml(
        ROUTER,
        """
        turns:
          - user: Hi
            replies: {router: {json: {to: cook}}, cook: Rice.}
          - user: Again
            restart: true
            replies: {router: {json: {to: nobody}}}
          - user: Never
            restart: true
            replies: {router: {json: {to: cook}}, cook: Soup.}
        """,
    )

    error = ran.error(turn=2)
    assert error is not None
    assert error[0] == "NoRoute"
    assert len(ran.view.turns) == 2
    assert [finished.error is not None for finished in ran.events(e.RunFinished)] == [True]


def test_a_script_that_does_not_fit_is_told_at_its_place_from_a_new_process_too() -> None:
    with pytest.raises(SourceError) as problem:
        run_yaml(
            ROUTER,
            """
            turns:
              - user: Hi
                replies: {router: {json: {to: cook}}, cook: Rice.}
              - user: Again
                restart: true
                replies: {router: {json: {to: {parallel: [cook, cook]}}}, cook: [Soup., Bread.]}
            """,
        )

    assert str(problem.value).splitlines() == [
        "test.scenario.yaml:32:69: agent 'cook' runs 2 times in parallel in turn 2, so each of its "
        "lines under turns[1].replies.cook needs a `when` that says which run it answers."
    ]


@pytest.mark.slow
def test_what_user_code_prints_in_a_new_process_stands_not_among_the_events() -> None:
    ran = run_yaml(
        ROUTER.replace("tests.functions:shout", "tests.functions:shout_and_print"),
        """
        turns:
          - user: hi
            replies: {router: {json: {to: loud}}}
          - user: again
            restart: true
            replies: {router: {json: {to: loud}}}
        """,
    )

    assert [turn.reply for turn in ran.view.turns] == ["HI", "AGAIN"]
