# ruff: noqa: E501 -- whole texts are as wide as they are printed
"""`simkit diff`, called from outside: traces, folders, and two pipelines."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from simkit.report.last_run import slug
from tests.cli.projects import BAD, ECHO, GOOD, ROWS, Call, Done, write

GOOD_ID = "scenarios/good.scenario.yaml::it holds"
NAME = f"{slug(GOOD_ID)}.jsonl"
NOW = f".simkit/traces/{NAME}"
KIND = ECHO.replace("instructions: Say.", "instructions: Say it kindly.")
DIFFERENCE = """\
  first differing event: 7
          4      0 ms  turn 1   MessageAdded        m1 user: hi
          5      0 ms  turn 1   StateUpdated        user: {"messages": [{"$message": 1}]}
          6      0 ms  turn 1   AgentStarted        a r1: input hi
    -     7      0 ms  turn 1   ContextBuilt        a r1: c1 from instructions, history, current_me…
    +     7      0 ms  turn 1   ContextBuilt        a r1: c1 from instructions, history, current_me…
      parts[0].message.content: "Say." → "Say it kindly."
      parts[0].tokens: 1 → 4
      tokens: 2 → 5

  a, turn 1: 2 messages, 2 → 5 tokens
    ~ 1. system a · instructions
        - Say.
        + Say it kindly.
      = 1 message
"""


@pytest.fixture
def based(simkit: Call) -> Call:
    """The command line; `base` holds traces of the project, and `.simkit` those of a kinder one."""
    assert simkit("replay").code == 0
    shutil.copytree(".simkit/traces", "base")
    write("scenarios/good.scenario.yaml", KIND + GOOD + ROWS)
    assert simkit("replay").code == 0
    return simkit


def test_two_traces_are_compared(based: Call) -> None:
    assert based("diff", f"base/{NAME}", NOW) == Done(
        1,
        f"""\
{GOOD_ID}
  - base/{NAME}
  + {NOW}

  declared differently: agents.a.instructions

{DIFFERENCE}
1 scenario: 1 different
""",
        "",
    )


def test_a_trace_and_itself_are_equal(based: Call) -> None:
    assert based("diff", NOW, NOW) == Done(0, "1 scenario: 1 equal\n", "")


def test_the_last_run_is_compared_with_the_base_by_scenario(based: Call) -> None:
    write("scenarios/good.scenario.yaml", ECHO + ROWS + GOOD.replace("it holds", "is new"))
    based("replay")

    done = based("diff", "--base", "base")

    assert done == Done(
        1,
        """\
it holds: only in base

scenarios/good.scenario.yaml::is new: only in now

4 scenarios: 2 equal, 1 only in base, 1 only in now
""",
        "",
    )


def test_traces_whose_files_were_renamed_are_paired_by_their_scenarios(based: Call) -> None:
    Path(f"base/{NAME}").rename("base/renamed.jsonl")

    assert based("diff", "base", ".simkit").out.splitlines()[-1] == "3 scenarios: 3 different"


def test_nothing_is_written(based: Call) -> None:
    def files() -> dict[str, tuple[int, bytes]]:
        paths = [file for file in Path().rglob("*") if file.is_file()]
        return {str(f): (f.stat().st_mtime_ns, f.read_bytes()) for f in paths}

    before = files()
    based("diff", "--base", "base")
    based("diff", GOOD_ID, "--pipeline", "echo")

    assert files() == before


def test_a_scenario_is_run_on_its_own_pipeline_and_on_another(simkit: Call) -> None:
    write("other/kind.pipeline.yaml", KIND)

    assert simkit("diff", GOOD_ID, "--pipeline", "other/kind.pipeline.yaml") == Done(
        1,
        f"""\
{GOOD_ID}
  - echo (scenarios/good.scenario.yaml)
  + echo (other/kind.pipeline.yaml)

  declared differently: agents.a.instructions

{DIFFERENCE}
1 scenario: 1 different
""",
        "",
    )


def test_a_pipeline_is_found_by_its_name_in_the_file_and_beside_it(simkit: Call) -> None:
    write("scenarios/kind.pipeline.yaml", KIND.replace("pipeline: echo", "pipeline: kind"))

    assert simkit("diff", GOOD_ID, "--pipeline", "echo").code == 0
    assert simkit("diff", GOOD_ID, "--pipeline", "kind").code == 1
    assert simkit("diff", GOOD_ID, "--pipeline", "kine") == Done(
        2,
        "",
        """\
scenarios/good.scenario.yaml: --pipeline: there is no pipeline `kine` in this file or beside it
  did you mean `kind`?   known: echo, kind
""",
    )
    assert simkit("diff", GOOD_ID, "--pipeline", "x.pipeline.yaml") == Done(
        2, "", "x.pipeline.yaml: there is no such file\n"
    )


def test_a_scenario_that_does_not_fit_the_other_pipeline_is_broken(simkit: Call) -> None:
    write("b.pipeline.yaml", ECHO.replace("{a: {", "{b: {").replace("start: a", "start: b"))

    assert simkit("diff", GOOD_ID, "--pipeline", "b.pipeline.yaml") == Done(
        2,
        f"""\
{GOOD_ID}
  with --pipeline b.pipeline.yaml
  scenarios/good.scenario.yaml:10:30: unknown agent `a`
    at turns[0].replies.a
    known: b

1 scenario: 1 broken
""",
        "",
    )


def test_a_damaged_trace_is_one_error(based: Call) -> None:
    Path(f"base/{NAME}").write_bytes(b'{"simkit_trace":3}\n{"kind":"x"}\n')

    done = based("diff", f"base/{NAME}", NOW)

    assert done == Done(
        2,
        f"""\
{GOOD_ID}
  base/{NAME}:2: not an event of a simkit trace: Invalid value 'x' - at `$.kind`

1 scenario: 1 broken
""",
        "",
    )


def test_secrets_stay_redacted(simkit: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "hunter2-hunter2")
    telling = KIND.replace("kindly", "hunter2-hunter2").replace("pipeline: echo", "pipeline: kind")
    write("scenarios/kind.pipeline.yaml", telling)

    outputs = [
        simkit("diff", GOOD_ID, "--pipeline", "kind", "--format", form).out
        for form in ("text", "json", "github", "markdown")
    ]

    assert all("[redacted:env]" in text for text in outputs)
    assert "hunter2" not in "".join(outputs)


def test_the_other_formats_speak_of_the_same(based: Call) -> None:
    data = json.loads(based("diff", "--base", "base", "--format", "json").out)
    lines = based("diff", "--base", "base", "--format", "github").out.splitlines()
    output = based("diff", "--base", "base", "--format", "markdown").out.splitlines()

    assert data["summary"] == {
        "equal": 0, "different": 3, "one": 0, "other": 0, "left_out": 0, "broken": 0,
        "exit_code": 1,
    }  # fmt: skip
    assert [pair["name"] for pair in data["scenarios"]][:1] == [GOOD_ID]
    assert [line.partition("::scenarios")[0] for line in lines] == [
        f"::warning file=scenarios/good.scenario.yaml,line={line},title={name}%3A now differs from base"
        for line, name in ((6, "it holds"), (12, "row one"), (12, "row two"))
    ] + ["3 scenarios: 3 different"]
    assert output[:3] == ["### Contexts in now against base", "", "3 scenarios: 3 different"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["a"], "`simkit diff` takes two traces or folders; with --base one at most, with --pipeline one scenario; this call names 1."),
        (["a", "b", "c"], "this call names 3."),
        (["--base", "x", "a", "b"], "this call names 2."),
        (["--pipeline", "x"], "this call names 0."),
        (["a", "--base", "x", "--pipeline", "y"], "--base compares stored traces, --pipeline runs scenarios: use one."),
    ],
)  # fmt: skip
def test_a_call_that_means_nothing_is_refused(
    simkit: Call, arguments: list[str], says: str
) -> None:
    done = simkit("diff", *arguments)

    assert done.code == 2
    assert says in " ".join(done.err.split())


def test_what_is_not_there_is_told(based: Call) -> None:
    write("empty/read.me", "")

    assert based("diff", NOW, f"{NOW[:-1]}").err == (
        f"{NOW[:-1]}: there is no such file or folder\n  did you mean `{NOW}`?\n"
    )
    assert based("diff", "--base", "empty").err == (
        "empty: there is no trace in this folder, no file `*.jsonl`\n"
    )
    assert based("diff", "base", NOW).err == (
        f"base, {NOW}: one is a folder; compare two traces or two folders\n"
    )
    assert based("view", "--no-open", "--diff", NOW).err == (
        f"{NOW}, .simkit: one is a folder; compare two traces or two folders\n"
    )
    shutil.rmtree(".simkit")
    assert based("diff", "--base", "base").err == (
        ".simkit: there is no trace of an earlier run\n  Run `simkit replay` first.\n"
    )


def test_a_broken_scenario_does_not_stop_the_others(simkit: Call) -> None:
    write("scenarios/bad.scenario.yaml", ECHO + BAD.replace("replies", "repplies"))

    done = simkit("diff", "scenarios", "--pipeline", "echo")

    assert done.code == 2
    assert done.out.splitlines()[-1] == "4 scenarios: 3 equal, 1 broken"
