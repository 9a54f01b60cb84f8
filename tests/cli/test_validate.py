from __future__ import annotations

from collections.abc import Callable

from tests.cli.projects import BAD, ECHO, GOOD, MISSPELT, ROWS, Done, write

Call = Callable[..., Done]


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
        "4 files, 7 scenarios: 4 problems\n",
        """\
scenarios/a.scenario.yaml:2:1: a tab cannot indent or separate
  use spaces
scenarios/b.scenario.yaml:9:50: unknown claim `replly`
  at turns[0].expect.replly
  did you mean `reply`?   known: agents, context, error, events, findings, handoffs, interrupt, \
model_calls, reply, runs, satisfies, state, tool_calls
scenarios/b.scenario.yaml:21:76: unknown key `x`
  at turns[0].x
  known: expect, project, replies, restart, resume, session, tool_results, user
scenarios/c.pipeline.yaml:3:13: must be a mapping, not a number
  at agents.a
""",
    )


def test_a_pipeline_that_is_wrong_is_told_once_however_many_scenarios_use_it(simkit: Call) -> None:
    write("scenarios/p.pipeline.yaml", ECHO.replace("start: a", "start: nobody"))
    for name in ("x", "y"):
        write(f"scenarios/{name}.scenario.yaml", GOOD.replace("echo", "p.pipeline.yaml"))

    done = simkit("validate", "scenarios")

    assert (done.code, done.out) == (2, "4 files, 5 scenarios: 1 problem\n")
    assert done.err.startswith("scenarios/p.pipeline.yaml:4:")


def test_an_empty_folder_is_not_fine(simkit: Call) -> None:
    write("empty/readme.md", "")

    assert simkit("validate", "empty") == Done(
        2,
        "",
        "empty: there is nothing to check: no `*.scenario.yaml` and no `*.pipeline.yaml` file\n",
    )


def test_a_file_is_checked_whole(simkit: Call) -> None:
    assert simkit("validate", "scenarios/good.scenario.yaml::it holds") == Done(
        2,
        "",
        "scenarios/good.scenario.yaml::it holds: files are checked whole\n"
        "  Write `simkit validate scenarios/good.scenario.yaml`.\n",
    )
