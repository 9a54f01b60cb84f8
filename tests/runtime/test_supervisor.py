"""The supervisor flow: goals worked off step by step, each step an agent and its task."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.core.errors import SourceError
from simkit.trace.events import AgentStarted
from tests.building import Ran, message_lines, run_yaml
from tests.runtime.graphs import order, problems

PIPELINE = """
agents:
  fetch: {instructions: F.}
  check: {instructions: C.}
  report: {instructions: R.}
  CONTRACTS
flow:
  supervisor:
    goals:
      data:
        description: Data in, report out.
        steps:
          - fetch: Fetch what ${user.about} is about.
          - check: Check ${run.output.rows} rows of ${run.agent}.
      words:
        steps:
          - report: Report.
"""
ALL = "fetch: {json: {rows: 2}}, check: Fine., report: Told."


def supervised(
    user: str, replies: str, expect: str = "{}", contracts: str = "", pipeline: str = PIPELINE
) -> Ran:
    text = pipeline.replace("  CONTRACTS\n", f"contracts: {contracts}\n" if contracts else "")
    return run_yaml(
        text, f"turns:\n  - user: {user}\n    expect: {expect}\n    replies: {{{replies}}}\n"
    )


def tasks(outcome: Ran) -> list[tuple[str, Any, str]]:
    return [(e.agent, e.input, e.task) for e in outcome.events(AgentStarted)]


def test_all_goals_are_worked_off_in_the_order_of_the_file() -> None:
    outcome = supervised("{json: {about: sales}}", ALL)

    assert problems(outcome) == []
    assert tasks(outcome) == [
        ("fetch", "Fetch what sales is about.", "Fetch what sales is about."),
        ("check", "Check 2 rows of fetch.", "Check 2 rows of fetch."),
        ("report", "Report.", "Report."),
    ]
    assert outcome.turn().reply == "Told."


def test_a_run_says_for_which_goal_it_works_in_handoffs_and_second_tries_too() -> None:
    outcome = supervised(
        "{json: {about: sales}}",
        "fetch: {handoff: {to: report, query: Help}}, check: [Later., {json: 7}], report: [x, y]",
        contracts=(
            "[{from: fetch, to: report, mode: transfer}, "
            "{from: check, to: report, type: t, payload: {type: number}, on_invalid: retry}]"
        ),
        pipeline=PIPELINE.replace("{instructions: F.}", "{instructions: F., handoffs: [report]}"),
    )

    assert problems(outcome) == []
    assert [(started.agent, started.goal) for started in outcome.events(AgentStarted)] == [
        ("fetch", "data"), ("report", "data"), ("check", "data"), ("check", "data"),
        ("report", "words"),
    ]  # fmt: skip


def test_a_goal_that_is_none_of_the_supervisors_is_told_with_those_that_are() -> None:
    with pytest.raises(SourceError, match=r"unknown goal `date`\n.*\n.*known: data, words"):
        supervised("Hi", ALL, expect="{runs: {report: {goal: date}}}")


def test_a_delegate_works_for_the_goal_of_who_asked_it() -> None:
    outcome = supervised(
        "{json: {about: sales}}",
        "fetch: [{handoff: {to: report, query: Q}}, {json: {rows: 2}}], check: x, report: [x, y]",
        contracts="[{from: fetch, to: report, mode: delegate}]",
        pipeline=PIPELINE.replace("{instructions: F.}", "{instructions: F., handoffs: [report]}"),
    )

    assert problems(outcome) == []
    assert [(started.agent, started.goal) for started in outcome.events(AgentStarted)] == [
        ("fetch", "data"), ("report", "data"), ("check", "data"), ("report", "words"),
    ]  # fmt: skip


def test_step_names_the_step_before_it_also_across_goals() -> None:
    outcome = supervised("Hi", ALL)

    assert [(e.run, e.after) for e in outcome.events(AgentStarted)] == [
        ("r1", ()), ("r2", ("r1",)), ("r3", ("r2",))
    ]  # fmt: skip


def test_default_recipe_ends_with_the_task() -> None:
    outcome = supervised("Hi", ALL)

    assert message_lines(outcome.context("check").messages) == [
        "system/check: C.", 'assistant/fetch: {"rows":2}', "user: Hi",
        "user: Check 2 rows of fetch.",
    ]  # fmt: skip
    assert list(outcome.context("check").sections) == [
        "instructions", "history", "current_message", "task"
    ]  # fmt: skip


@pytest.mark.parametrize("goal", ["words", "data"])
def test_message_may_name_one_goal(goal: str) -> None:
    replies = {"words": "report: Told.", "data": "fetch: {json: {rows: 2}}, check: Fine."}
    outcome = supervised(f"{{json: {{goal: {goal}}}}}", replies[goal])

    assert problems(outcome) == []
    assert order(outcome) == {"words": ["report"], "data": ["fetch", "check"]}[goal]


def test_words_of_a_text_name_no_goal() -> None:
    outcome = supervised("words", ALL)

    assert order(outcome) == ["fetch", "check", "report"]


@pytest.mark.parametrize(("goal", "quoted"), [("wordz", "'wordz'"), ("[words]", "['words']"),
                                              ("{a: 1}", "{'a': 1}"), ("3", "3")])  # fmt: skip
def test_goal_that_is_not_there_is_an_error_that_names_those_that_are(
    goal: str, quoted: str
) -> None:
    outcome = supervised(f"{{json: {{goal: {goal}}}}}", "", "{error: {type: NoRoute}, agents: []}")

    assert problems(outcome) == []
    assert outcome.error() == ("NoRoute", f"there is no goal {quoted}; goals: data, words")


def test_goal_that_is_null_is_none() -> None:
    outcome = supervised("{json: {goal: null}}", ALL)

    assert order(outcome) == ["fetch", "check", "report"]


def test_root_of_a_run_holds_its_task() -> None:
    outcome = run_yaml(
        """
        channels: {told: {reducer: append}}
        agents:
          a: {instructions: "Do: ${task}", context: [instructions], writes: {told: "${task}"}}
          b: {function: "tests.functions:what_came"}
        flow: {supervisor: {goals: {g: {steps: [{a: One}, {b: "Two after ${task}"}]}}}}
        """,
        "turns: [{user: Hi, replies: {a: x}}]",
    )

    assert problems(outcome) == []
    assert message_lines(outcome.context("a").messages) == ["system/a: Do: One"]
    assert outcome.state("told") == ["One"]
    assert outcome.turn().reply == {
        "input": "Two after One", "task": "Two after One", "upstream": None,
    }  # fmt: skip


def test_root_has_no_task_elsewhere() -> None:
    outcome = run_yaml(
        """
        channels: {told: {reducer: append}}
        agents: {a: {writes: {told: ["${task}", "${upstream}"]}}}
        flow: {handoffs: {start: a}}
        """,
        "turns: [{user: Hi, replies: {a: x}}]",
    )

    assert outcome.state("told") == [None, None]


def test_step_whose_agent_transfers_goes_on_with_the_target() -> None:
    outcome = run_yaml(
        """
        agents:
          a: {instructions: A., handoffs: [helper]}
          helper: {instructions: H.}
          b: {instructions: B.}
        contracts: [{from: a, to: helper}]
        flow: {supervisor: {goals: {g: {steps: [{a: One}, {b: "Go on with ${run.output}"}]}}}}
        """,
        """
        turns:
          - user: Hi
            replies: {a: {handoff: {to: helper, query: Help}}, helper: Helped., b: x}
        """,
    )

    assert problems(outcome) == []
    assert tasks(outcome) == [
        ("a", "One", "One"), ("helper", "Help", ""),
        ("b", "Go on with Helped.", "Go on with Helped."),
    ]  # fmt: skip


# Contracts between steps

ROWS = "[{from: fetch, to: check, payload: {type: object, required: [rows]}POLICY}]"


def test_step_with_a_contract_is_a_handoff_of_what_was_put_out() -> None:
    outcome = supervised("Hi", ALL, "{handoffs: [{from: fetch, to: check, payload: {rows: 2}}]}",
                     ROWS.replace("POLICY", ""))  # fmt: skip

    assert problems(outcome) == []
    assert [(e.agent, e.handoff) for e in outcome.events(AgentStarted)] == [
        ("fetch", ""), ("check", "h1"), ("report", "")
    ]  # fmt: skip


def test_refused_step_runs_again_told_why_and_the_next_task_reads_what_it_then_said() -> None:
    outcome = supervised(
        "Hi", "fetch: [{json: {row: 1}}, {json: {rows: 7}}], check: Fine., report: Told.",
        contracts=ROWS.replace("POLICY", ""),
    )  # fmt: skip

    assert problems(outcome) == []
    assert [task for _, _, task in tasks(outcome)] == [
        "Fetch what null is about.", "Fetch what null is about.", "Check 7 rows of fetch.",
        "Report.",
    ]  # fmt: skip
    assert message_lines(outcome.calls("fetch")[1].context.messages) == [
        "system/fetch: F.", 'assistant/fetch: {"row":1}', "user: Hi",
        "user: Fetch what null is about.",
        "system/fetch: Handoff to check rejected: payload: 'rows' is a required property",
    ]  # fmt: skip
    assert [e.after for e in outcome.events(AgentStarted)] == [(), (), ("r2",), ("r3",)]


def test_refused_step_ends_the_turn_where_the_contract_says_stop() -> None:
    outcome = supervised(
        "Hi", "fetch: {json: {row: 1}}", "{agents: [fetch], reply: {row: 1}}",
        ROWS.replace("POLICY", ", on_invalid: stop"),
    )  # fmt: skip

    assert problems(outcome) == []


def test_contract_between_steps_holds_whoever_the_step_handed_off_to() -> None:
    outcome = supervised(
        "Hi", "fetch: {handoff: {to: report, query: q}}, report: No rows.",
        "{agents: [fetch, report]}",
        "[{from: fetch, to: report}, "
        f"{ROWS.replace('POLICY', ', on_invalid: stop').removeprefix('[')}",
        PIPELINE.replace("{instructions: F.}", "{instructions: F., handoffs: [report]}"),
    )  # fmt: skip

    assert problems(outcome) == []
    assert [(h.event.from_agent, h.event.to_agent, h.outcome) for h in outcome.turn().handoffs] == [
        ("fetch", "report", "made"), ("fetch", "check", "rejected"),
    ]  # fmt: skip
