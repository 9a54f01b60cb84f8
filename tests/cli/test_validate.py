from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.projects import BAD, ECHO, GOOD, MISSPELT, ROWS, Call, Done, write

ROOT = Path(__file__).resolve().parents[2]


def test_good_files_are_counted_and_nothing_runs(simkit: Call) -> None:
    write("scenarios/bad.scenario.yaml", ECHO + BAD)

    assert simkit("validate") == Done(0, "2 files, 4 scenarios: fine\n", "")


def test_every_file_is_checked_and_every_document_tells_its_first_problem(simkit: Call) -> None:
    write("scenarios/a.scenario.yaml", "version: 1\n\tscenario: x\n")
    rows = ROWS.replace("hello}}", "hello}, x: 1}")
    write("scenarios/b.scenario.yaml", ECHO + MISSPELT + GOOD + rows)
    write("scenarios/c.pipeline.yaml", ECHO.replace("agents: {a: ", "agents: {a: 1, b: "))

    done = simkit("validate", "scenarios")

    assert done == Done(
        2,
        "4 files, 7 scenarios: 4 errors\n",
        """\
scenarios/a.scenario.yaml:2:1: VAL-01: a tab cannot indent or separate
  use spaces
scenarios/b.scenario.yaml:9:50: VAL-02: unknown claim `replly`
  at turns[0].expect.replly
  did you mean `reply`?   known: agents, context, error, events, findings, handoffs, interrupt, \
judge, logs, model_calls, reply, runs, satisfies, state, tool_calls
scenarios/b.scenario.yaml:21:76: VAL-02: unknown key `x`
  at turns[0].x
  known: cancel, crash, elicits, expect, faults, judge_replies, pause, project, repeat, replies, \
restart, resume, schedule, session, tool_results, user
scenarios/c.pipeline.yaml:3:13: VAL-02: must be a mapping, not a number
  at agents.a
  Write names and values: `key: value`, or braces around all: `{…}`.
""",
    )


def test_a_pipeline_that_is_wrong_is_told_once_however_many_scenarios_use_it(simkit: Call) -> None:
    write("scenarios/p.pipeline.yaml", ECHO.replace("start: a", "start: nobody"))
    for name in ("x", "y"):
        write(f"scenarios/{name}.scenario.yaml", GOOD.replace("echo", "p.pipeline.yaml"))

    done = simkit("validate", "scenarios")

    assert (done.code, done.out) == (2, "4 files, 5 scenarios: 1 error\n")
    assert done.err.startswith("scenarios/p.pipeline.yaml:4:")


def test_an_empty_folder_is_not_fine(simkit: Call) -> None:
    write("empty/readme.md", "")

    assert simkit("validate", "empty") == Done(
        2,
        "",
        "empty: there is nothing to check: no `*.scenario.yaml`, `*.simulation.yaml` or "
        "`*.pipeline.yaml` file\n",
    )


def test_a_file_is_checked_whole(simkit: Call) -> None:
    assert simkit("validate", "scenarios/good.scenario.yaml::it holds") == Done(
        2,
        "",
        "scenarios/good.scenario.yaml::it holds: files are checked whole\n"
        "  Write `simkit validate scenarios/good.scenario.yaml`.\n",
    )


ODD = GOOD.replace("it holds", "it is odd").replace("reply: hello", "reply: {$schema: {}}")
WARNING = """\
scenarios/odd.scenario.yaml:10:57: warning VAL-24: this matches every value, so it cannot fail
  at turns[0].expect.reply
  Claim the value itself, or a bound that could be missed.
"""


def test_warnings_are_told_and_end_with_0(simkit: Call) -> None:
    write("scenarios/odd.scenario.yaml", ECHO + ODD)

    assert simkit("validate") == Done(0, "2 files, 4 scenarios: 1 warning\n", WARNING)


@pytest.mark.parametrize(("more", "code"), [("", 1), (MISSPELT, 2)])
def test_strict_makes_warnings_1_and_leaves_errors_2(simkit: Call, more: str, code: int) -> None:
    write("scenarios/odd.scenario.yaml", ECHO + ODD + more)

    assert simkit("validate", "--strict").code == code
    assert simkit("validate", "--strict", "scenarios/good.scenario.yaml").code == 0


def test_a_warning_that_is_turned_off_is_counted(simkit: Call) -> None:
    off = ODD.replace("pipeline: echo\n", "pipeline: echo\nlints: {VAL-24: the point}\n")
    write("scenarios/odd.scenario.yaml", ECHO + off)

    done = simkit("validate", "--strict")

    assert done == Done(0, "2 files, 4 scenarios: fine (1 turned off)\n", "")


def test_github_gets_annotations_and_the_last_line(simkit: Call) -> None:
    write("scenarios/odd.scenario.yaml", ECHO + ODD)

    done = simkit("validate", "--format", "github")

    assert done == Done(
        0,
        "::warning file=scenarios/odd.scenario.yaml,line=10,col=57,title=VAL-24 cannot-fail::"
        "this matches every value, so it cannot fail%0Aat turns[0].expect.reply%0A"
        "Claim the value itself, or a bound that could be missed.\n"
        "2 files, 4 scenarios: 1 warning\n",
        "",
    )


def test_programs_get_one_object(simkit: Call) -> None:
    write("scenarios/odd.scenario.yaml", ECHO + ODD)

    done = simkit("validate", "--strict", "--format", "json")

    data = json.loads(done.out)
    assert (done.code, done.err) == (1, "")
    assert [problem["code"] for problem in data["problems"]] == ["VAL-24"]
    assert data["summary"] == {
        "files": 2, "scenarios": 4, "errors": 0, "warnings": 1, "turned_off": 0, "exit_code": 1,
    }  # fmt: skip


def test_the_projects_own_scenarios_are_without_a_warning(
    simkit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)

    done = simkit("validate", "--strict", "scenarios")

    assert (done.code, done.err) == (0, "")
