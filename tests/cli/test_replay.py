# ruff: noqa: E501 -- whole texts are as wide as they are printed
"""`simkit replay`, called from outside: what is printed, and how it ends."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.projects import BAD, ECHO, GOOD, MISSPELT, Call, Done, write
from tests.report.flows import GRAPH

GOOD_TABLE = """\
    turn  time  agent  sent  tokens  dropped  answered  state written
    ----  ----  -----  ----  ------  -------  --------  -------------
       1  0 ms  user                          hi        messages
          0 ms  a         2       2        0  hello     messages
"""


def test_scenarios_that_hold_take_a_line_each_under_their_file(simkit: Call) -> None:
    assert simkit("replay") == Done(
        0,
        """\
scenarios/good.scenario.yaml
  ok      it holds
  ok      row one
  ok      row two

3 scenarios: 3 held (0.00 s)
""",
        "",
    )


def test_a_single_scenario_is_shown_turn_by_turn(simkit: Call) -> None:
    assert simkit("replay", "scenarios/good.scenario.yaml::it holds") == Done(
        0,
        f"""\
scenarios/good.scenario.yaml
  ok      it holds

    scenarios/good.scenario.yaml:6, pipeline echo, 1 turn, 1 model call, seed 0

{GOOD_TABLE}
1 scenario: 1 held (0.00 s)
""",
        "",
    )


def test_what_fails_is_shown_with_its_findings_and_how_to_run_it_again(simkit: Call) -> None:
    write("scenarios/bad.scenario.yaml", ECHO + BAD)

    assert simkit("replay", "scenarios", "--seed", "7") == Done(
        1,
        f"""\
scenarios/bad.scenario.yaml
  FAILED  it's wrong

scenarios/bad.scenario.yaml:13:14: reply does not match (turn 1)
    reply: bye
  wanted "bye", found "hello"
  the last run with an output is a's

    scenarios/bad.scenario.yaml:6, pipeline echo, 1 turn, 1 model call, seed 7

{GOOD_TABLE}
reproduce: simkit replay "scenarios/bad.scenario.yaml::it's wrong" --seed 7

scenarios/good.scenario.yaml
  ok      it holds
  ok      row one
  ok      row two

4 scenarios: 3 held, 1 failed (0.00 s)
""",
        "",
    )


def test_a_broken_file_or_scenario_stops_no_other_and_ends_with_2(simkit: Call) -> None:
    write("scenarios/a.scenario.yaml", "version: 1\n\tscenario: x\n")
    write("scenarios/b.scenario.yaml", ECHO + MISSPELT + BAD)

    done = simkit("replay", "-q")

    assert done == Done(
        2,
        f"""\
scenarios/a.scenario.yaml
  BROKEN  scenarios/a.scenario.yaml

scenarios/a.scenario.yaml:2:1: a tab cannot indent or separate
  use spaces

reproduce: simkit replay scenarios/a.scenario.yaml

scenarios/b.scenario.yaml
  BROKEN  misspelt

scenarios/b.scenario.yaml:9:50: unknown claim `replly`
  at turns[0].expect.replly
  did you mean `reply`?   known: agents, context, error, events, findings, handoffs, interrupt, \
judge, logs, model_calls, reply, runs, satisfies, state, tool_calls

reproduce: simkit replay scenarios/b.scenario.yaml::misspelt

  FAILED  it's wrong

scenarios/b.scenario.yaml:18:14: reply does not match (turn 1)
    reply: bye
  wanted "bye", found "hello"
  the last run with an output is a's

    scenarios/b.scenario.yaml:11, pipeline echo, 1 turn, 1 model call, seed 0

{GOOD_TABLE}
reproduce: simkit replay "scenarios/b.scenario.yaml::it's wrong" --seed 0

6 scenarios: 3 held, 1 failed, 2 broken (0.00 s)
""",
        "",
    )


def test_skipped_and_expected_failures_are_told_and_fail_nothing(simkit: Call) -> None:
    skipped = GOOD.replace("tags: [smoke]", "skip: not yet")
    expected = BAD.replace("pipeline: echo", "pipeline: echo\nxfail: bug 12")
    write("scenarios/good.scenario.yaml", ECHO + skipped + expected)

    assert simkit("replay") == Done(
        0,
        """\
scenarios/good.scenario.yaml
  skipped it holds (not yet)
  xfailed it's wrong (bug 12)

skipped: 1 scenario: not yet
2 scenarios: 0 held, 1 skipped, 1 failed as expected (0.00 s)
""",
        "",
    )


def test_a_scenario_whose_needs_are_not_met_is_skipped_with_what_to_install(simkit: Call) -> None:
    write("kit.yaml", "needs: [shared-kit]\n")
    needs = "needs: ['own-kit>=1.2', pytest]\nuse: [../kit.yaml]"
    write("scenarios/good.scenario.yaml", ECHO + GOOD.replace("tags: [smoke]", needs))
    reason = (
        "needs shared-kit, own-kit>=1.2, which are not installed: "
        "pip install shared-kit 'own-kit>=1.2'"
    )

    assert simkit("replay") == Done(
        0, f"scenarios/good.scenario.yaml\n  skipped it holds ({reason})\n\n"
        f"skipped: 1 scenario: {reason}\n1 scenario: 0 held, 1 skipped (0.00 s)\n", "",
    )  # fmt: skip
    assert simkit("replay", "--needs-met") == Done(
        2, "scenarios/good.scenario.yaml\n  BROKEN  it holds\n\n"
        f"scenarios/good.scenario.yaml:8:8: {reason}\n  at needs\n\n"
        "reproduce: simkit replay 'scenarios/good.scenario.yaml::it holds'\n\n"
        "1 scenario: 0 held, 1 broken (0.00 s)\n", "",
    )  # fmt: skip


def test_needs_must_not_be_met_where_a_scenario_is_skipped_anyway(simkit: Call) -> None:
    skipped = GOOD.replace("tags: [smoke]", "needs: [own-kit]\nskip: not yet")
    write("scenarios/good.scenario.yaml", ECHO + skipped)

    done = simkit("replay", "--needs-met", "-q")

    assert done.code == 0
    assert done.out.startswith("skipped: 1 scenario: not yet\n")


def test_a_need_that_is_none_is_broken_where_it_stands(simkit: Call) -> None:
    write("scenarios/good.scenario.yaml", ECHO + GOOD.replace("tags: [smoke]", "needs: [own kit]"))

    done = simkit("replay")

    assert done.code == 2
    assert "good.scenario.yaml:8:9: `own kit` is no distribution with versions\n" in done.out


@pytest.mark.parametrize(("strict", "code"), [("true", 1), ("false", 0)])
def test_a_scenario_that_holds_against_its_xfail_fails_unless_it_is_not_strict(
    simkit: Call, strict: str, code: int
) -> None:
    xfail = f"xfail: {{reason: bug 12, strict: {strict}}}"
    write("scenarios/good.scenario.yaml", ECHO + GOOD.replace("tags: [smoke]", xfail))

    done = simkit("replay")

    text = (
        "scenarios/good.scenario.yaml:8:8: the scenario held, but is expected to fail: bug 12\n"
        "  → Remove `xfail`, or write `strict: false` under it.\n"
    )
    assert done.code == code
    assert (text in done.out) is (code == 1)


def test_lints_that_are_turned_off_are_printed_with_their_reason(simkit: Call) -> None:
    off = GOOD.replace("tags: [smoke]", "lints: {CTX-07: twice is meant}")
    write("scenarios/good.scenario.yaml", ECHO + off)

    done = simkit("replay", "-q")

    assert done == Done(
        0,
        "lint turned off: CTX-07 in 1 scenario: twice is meant\n1 scenario: 1 held (0.00 s)\n",
        "",
    )


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("row", ["row one", "row two"]),
        ("row and not two", ["row one"]),
        ("smoke", ["it holds"]),
        ("good", ["it holds", "row one", "row two"]),
    ],
)
def test_k_selects_by_words_of_path_name_and_tags(
    simkit: Call, expression: str, names: list[str]
) -> None:
    done = simkit("replay", "-k", expression, "--format", "json")

    assert [scenario["name"] for scenario in json.loads(done.out)["scenarios"]] == names


def test_nothing_to_run_is_an_error(simkit: Call) -> None:
    Path("empty").mkdir()

    assert simkit("replay", "-k", "nope") == Done(
        2, "", "scenarios: nothing to run: none of 3 fits -k 'nope'\n"
    )
    assert simkit("replay", "empty") == Done(
        2, "", "empty: nothing to run: there is no `*.scenario.yaml` file with a scenario\n"
        "  Name one, or another folder; `simkit init` writes a first scenario.\n",
    )  # fmt: skip


def test_a_file_with_another_ending_is_told_its_name(simkit: Call) -> None:
    write("other/refund.scenario.yml", ECHO + GOOD)

    assert simkit("replay", "other") == Done(
        2, "", "other: nothing to run: there is no `*.scenario.yaml` file with a scenario\n"
        "  If `refund.scenario.yml` is one, name it `refund.scenario.yaml`.\n",
    )  # fmt: skip
    assert simkit("replay", "other/refund.scenario.yml") == Done(
        2, "", "other/refund.scenario.yml: is no scenario file: its name must end with "
        "`.scenario.yaml`\n  Name it `refund.scenario.yaml`.\n",
    )  # fmt: skip


def test_a_pipeline_file_has_nothing_to_run(simkit: Call) -> None:
    write("echo.pipeline.yaml", ECHO)

    assert simkit("replay", "echo.pipeline.yaml") == Done(
        2, "", "echo.pipeline.yaml: nothing to run: a pipeline file holds no scenario\n"
        "  Check it with `simkit validate echo.pipeline.yaml`.\n",
    )  # fmt: skip


def test_a_table_can_be_named_as_a_whole_or_row_by_row(simkit: Call) -> None:
    numbered = ECHO + GOOD.replace("tags: [smoke]", "examples: [{n: 1}, {n: 2}]")
    write("scenarios/good.scenario.yaml", numbered)

    whole = simkit("replay", "scenarios/good.scenario.yaml::it holds", "--format", "json")
    row = simkit("replay", "scenarios/good.scenario.yaml::it holds [2]", "--format", "json")

    names = [
        [scenario["name"] for scenario in json.loads(done.out)["scenarios"]]
        for done in (whole, row)
    ]
    assert names == [["it holds [1]", "it holds [2]"], ["it holds [2]"]]


def test_a_name_that_is_not_there_is_an_error_with_the_nearest(simkit: Call) -> None:
    assert simkit("replay", "scenarios/good.scenario.yaml::it hold") == Done(
        2,
        "",
        "scenarios/good.scenario.yaml: there is no scenario 'it hold'\n"
        "  did you mean `it holds`?\n",
    )
    assert simkit("replay", "scenarios/good.scenario.yaml::x") == Done(
        2,
        "",
        "scenarios/good.scenario.yaml: there is no scenario 'x'\n"
        "  It holds:\n    it holds\n    row one\n    row two\n",
    )


def test_failed_runs_what_failed_until_it_holds(simkit: Call) -> None:
    write("scenarios/bad.scenario.yaml", ECHO + BAD + BAD.replace("it's", "also"))
    before = simkit("replay", "--failed")
    simkit("replay")

    simkit("replay", "scenarios/bad.scenario.yaml::it's wrong")
    both = simkit("replay", "--failed", "-q")
    repaired_text = (ECHO + BAD + BAD.replace("it's", "also")).replace("bye", "hello")
    write("scenarios/bad.scenario.yaml", repaired_text)
    repaired = simkit("replay", "--failed")
    after = simkit("replay", "--failed")

    assert before == Done(
        2, "", "--failed: there is no earlier run in .simkit/\n  Run `simkit replay` first.\n"
    )
    assert both.out.endswith("\n2 scenarios: 0 held, 2 failed (0.00 s)\n")
    assert repaired.out.endswith("\n2 scenarios: 2 held (0.00 s)\n")
    assert after == Done(0, "nothing failed when it last ran\n", "")


def test_the_context_of_every_call_can_be_shown(simkit: Call) -> None:
    done = simkit("replay", "--show", "context", "-k", "two")

    assert (
        """\
    turn 1, a, at 0 ms: 2 messages, 2 tokens, 0 dropped
      1. system · instructions
          Say.
      2. user · current_message · turn 1 · m1
          two
      answered · m2
          hello

2 not selected"""
        in done.out
    )


def test_the_state_and_the_events_can_be_shown_of_one_turn_and_agent(simkit: Call) -> None:
    state = simkit("replay", "--show", "state", "-k", "two")
    events = simkit("replay", "--show", "events", "-k", "two", "--agent", "a", "--turn", "1")

    assert "    turn 1: 1 of 1 channel changed\n      messages: 0 → 2 items\n" in state.out
    assert "ModelReplied        a r1: call c1, message m2, reply text\n" in events.out
    assert "RunStarted" not in events.out


def test_asking_for_an_agent_that_did_nothing_names_those_that_did(simkit: Call) -> None:
    done = simkit("replay", "-k", "two", "--agent", "b", "--turn", "1")

    assert "    nothing was done by agent 'b' in turn 1; agents of the whole run: a\n" in done.out


def test_a_turn_that_the_run_does_not_have_is_told_with_how_many_it_has(simkit: Call) -> None:
    done = simkit("replay", "-k", "two", "--turn", "9")

    assert "    there is no turn 9: the run has 1 turn\n" in done.out


def test_json_is_one_object_and_the_same_every_time(simkit: Call) -> None:
    write("scenarios/bad.scenario.yaml", ECHO + BAD)

    first, second = simkit("replay", "--format", "json"), simkit("replay", "--format", "json")

    data = json.loads(first.out)
    assert first == second
    assert first.code == data["summary"]["exit_code"] == 1
    assert [scenario["outcome"] for scenario in data["scenarios"]] == [
        "failed",
        "held",
        "held",
        "held",
    ]
    assert Path(data["scenarios"][0]["trace"]).is_file()


def test_json_and_show_are_not_asked_for_together(simkit: Call) -> None:
    done = simkit("replay", "--format", "json", "--show", "state")

    assert done.code == 2
    assert done.err.endswith(
        "Error: --format json has contexts (`--show context`); the file under `trace` has the rest.\n"
    )


def test_contexts_are_a_key_of_the_answer(simkit: Call) -> None:
    bad = "expect: {context: {a: {includes: [{$contains: goodbye}]}}}"
    write("scenarios/one.scenario.yaml", ECHO + GOOD.replace("expect: {reply: hello}", bad))

    done = simkit("replay", "scenarios/one.scenario.yaml", "--format", "json", "--show", "context")

    (scenario,) = json.loads(done.out)["scenarios"]
    (call,) = scenario["contexts"]
    assert (call["turn"], call["reply"]["content"]) == (1, "hello")
    assert [message["content"] for message in call["messages"]][-1] == "hi"
    # What people see of a claim is never empty for programs.
    (finding,) = scenario["findings"]
    assert finding["differences"][0]["wanted"]
    assert finding["fix"].endswith(
        "`simkit replay 'scenarios/one.scenario.yaml::it holds' --update`."
    )


def test_what_a_users_function_prints_stands_on_stderr(simkit: Call) -> None:
    write("loud_functions.py", "def predicate(view):\n    print('looking')\n    return True\n")
    satisfies = "expect: {satisfies: 'loud_functions:predicate'}"
    write("scenarios/good.scenario.yaml", ECHO + GOOD.replace("expect: {reply: hello}", satisfies))

    done = simkit("replay", "--format", "json")

    assert (done.code, done.err) == (0, "looking\n")
    assert json.loads(done.out)["summary"]["held"] == 1


def test_the_traces_of_the_last_run_are_kept_and_recorded(simkit: Call) -> None:
    simkit("replay")
    simkit("replay", "-k", "two")

    last = json.loads(Path(".simkit/last.json").read_text(encoding="utf-8"))
    (remaining,) = Path(".simkit/traces").iterdir()
    assert [scenario["id"] for scenario in last["scenarios"]] == [
        "scenarios/good.scenario.yaml::row two"
    ]
    assert last["scenarios"][0]["trace"] == str(remaining)
    assert remaining.read_text(encoding="utf-8").startswith(
        '{"simkit_trace":3}\n{"kind":"RunStarted"'
    )
    assert Path(".simkit/.gitignore").read_text(encoding="utf-8") == "*\n"


def test_a_ledger_that_cannot_be_written_is_a_note_and_no_failure(simkit: Call) -> None:
    Path(".simkit").write_text("a file is in the way")

    done = simkit("replay", "-q")

    assert done == Done(
        0,
        "3 scenarios: 3 held (0.00 s)\n",
        "note: the traces of this run are not kept: .simkit: File exists\n",
    )


@pytest.mark.slow
def test_processes_give_the_same_output_in_the_same_order(process: Call) -> None:
    write("scenarios/bad.scenario.yaml", ECHO + BAD)
    write("scenarios/broken.scenario.yaml", ECHO + MISSPELT)

    item, three = process("replay"), process("replay", "-j", "3")

    assert item == three
    assert item.code == 2


@pytest.mark.slow
def test_a_process_that_dies_is_an_error_that_says_what_to_do(process: Call) -> None:
    write("deadly.py", "import os\ndef predicate(view):\n    os._exit(3)\n")
    satisfies = "expect: {satisfies: 'deadly:predicate'}"
    write("scenarios/good.scenario.yaml", ECHO + GOOD.replace("expect: {reply: hello}", satisfies))

    done = process("replay", "-j", "2")

    assert done == Done(
        2,
        "",
        "-j: a process died while it ran scenarios\n  Run with -j 1 to see which one does it.\n",
    )


@pytest.mark.slow
def test_a_second_run_with_other_hashes_has_the_same_bytes(process: Call) -> None:
    done = process("replay", "--verify", PYTHONHASHSEED="1")

    assert done == Done(
        0,
        """\
scenarios/good.scenario.yaml
  ok      it holds
  ok      row one
  ok      row two

verified: 3 scenarios ran twice, the second time with PYTHONHASHSEED=2 and 401 days later; 3 of 3 digests are equal

3 scenarios: 3 held (0.00 s)
""",
        "",
    )


@pytest.mark.slow
def test_a_function_that_depends_on_hashes_is_found_with_the_first_differing_event(
    process: Call,
) -> None:
    write("hashing.py", "def answer(view):\n    return f'hash {hash(\"x\") % 1000}'\n")
    scripted, computed = "a: hello}, expect: {reply: hello}", "a: {function: 'hashing:answer'}}"
    lucky = GOOD.replace(scripted, computed)
    write("scenarios/good.scenario.yaml", ECHO + GOOD + lucky.replace("it holds", "by hash"))

    done = process("replay", "--verify", "-q", PYTHONHASHSEED="1")

    first, second = (_hash(seed) for seed in ("1", "2"))
    assert done == Done(
        1,
        f"""\
scenarios/good.scenario.yaml:12:1: not-deterministic: the second run (PYTHONHASHSEED=2, 401 days
  later) parts from the first at event 9 of 14
      6      0 ms  turn 1   AgentStarted        a r1: input hi
      7      0 ms  turn 1   ContextBuilt        a r1: c1 from instructions, history, current_mess…
      8      0 ms  turn 1   ModelCalled         a r1: call c1
      9      0 ms  turn 1   MessageAdded        a r1: m2 assistant a: hash {first}
  first:  …ge":{{"role":"assistant","content":"hash {first}","id":"m2","agent":"a","turn":1}},"tokens":2}}
  second: …ge":{{"role":"assistant","content":"hash {second}","id":"m2","agent":"a","turn":1}},"tokens":2}}
  → Look for a set that is iterated, an id or hash of an object, a clock, or chance that does not
    come from the seed, in the functions of the pipeline.

reproduce: simkit replay 'scenarios/good.scenario.yaml::by hash' --seed 0 --verify

verified: 2 scenarios ran twice, the second time with PYTHONHASHSEED=2 and 401 days later; 1 of 2 digests is equal

2 scenarios: 1 held, 1 failed (0.00 s)
""",
        "",
    )


@pytest.mark.slow
def test_a_date_that_code_has_for_real_is_found(process: Call) -> None:
    write(
        "dated.py",
        "import datetime\n\n\ndef run(text):\n    return f'{datetime.date.today():%Y}'\n",
    )
    write(
        "scenarios/dated.scenario.yaml",
        "version: 1\nscenario: a year\npipeline: dated:run\napp: {real: [clock]}\n"
        "turns: [{user: hi}]\n---\n"
        "version: 1\nscenario: a virtual year\npipeline: dated:run\n"
        "turns: [{user: hi, expect: {reply: '2026'}}]\n",
    )

    done = process("replay", "--verify", "-q", "scenarios/dated.scenario.yaml")

    assert "1 of 2 digests is equal" in done.out
    assert "'scenarios/dated.scenario.yaml::a year' --seed 0 --verify" in done.out


def _hash(seed: str) -> int:
    code = "print(hash('x') % 1000)"
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    return int(subprocess.check_output([sys.executable, "-c", code], env=environment))


def test_a_graphs_timeline_shows_input_and_output_of_every_node(simkit: Call) -> None:
    write("scenarios/graph.scenario.yaml", GRAPH)

    assert simkit("replay", "scenarios/graph.scenario.yaml") == Done(
        0,
        """\
scenarios/graph.scenario.yaml
  ok      found

    scenarios/graph.scenario.yaml:19, pipeline finding, 1 turn, 3 model calls, seed 0

    turn  time  node    sent  tokens  dropped  input                output                       state written
    ----  ----  ------  ----  ------  -------  -------------------  ---------------------------  -------------
       1  0 ms  user                                                {"request":"find"}           messages
          0 ms  start                          {"request": "find"}  {"request": "find"}
          0 ms  search     2       7        0  {"request": "find"}  search(for: "a") → ["a.py"]
          0 ms  search     4      14        0                       {"files": ["a.py"]}          messages
          0 ms  exit       2       7        0  {"files": ["a.py"]}  It is empty.                 messages

1 scenario: 1 held (0.00 s)
""",
        "",
    )


@pytest.fixture
def summary(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project / "summary.md"))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.parent))
    return project / "summary.md"


def test_findings_are_annotations_after_what_people_read(simkit: Call, summary: Path) -> None:
    write("scenarios/bad.scenario.yaml", ECHO + BAD)

    table = simkit("replay")
    github = simkit("replay", "--format", "github")

    assert github == Done(
        1,
        table.out
        + f"::error file={summary.parent.name}/scenarios/bad.scenario.yaml,line=13,col=14,title=it's wrong"
        '::reply does not match (turn 1)%0A    reply: bye%0A  wanted "bye", found "hello"%0A'
        "  the last run with an output is a's\n",
        "",
    )
    assert summary.read_text(encoding="utf-8").splitlines()[:3] == [
        "## simkit: 4 scenarios, 3 held, 1 failed",
        "",
        "Model calls: 4; tokens sent: 8.",
    ]


def test_only_the_format_of_github_writes_a_summary(simkit: Call, summary: Path) -> None:
    simkit("replay")

    assert not summary.exists()


def test_a_base_is_compared_and_what_changed_is_in_the_summary(simkit: Call, summary: Path) -> None:
    simkit("replay")
    shutil.copytree(".simkit", "base")
    file = Path("scenarios/good.scenario.yaml")
    file.write_text(file.read_text().replace("instructions: Say.", "instructions: Say it."))

    done = simkit("replay", "--format", "github", "--base", "base", "-q")

    assert done == Done(
        0,
        "3 scenarios: 3 held (0.00 s)\n"
        "against base: 3 scenarios: 3 different; `simkit diff --base base` shows what\n",
        "",
    )
    text = summary.read_text(encoding="utf-8")
    assert "| it holds | a, turn 1 | 2 messages, 2 → 3 tokens; 1 changed |" in text


def test_a_base_that_is_none_is_refused_before_anything_runs(simkit: Call, project: Path) -> None:
    done = simkit("replay", "--base", "nowhere")

    assert done == Done(2, "", "nowhere: there is no trace in this folder, no file `*.jsonl`\n")
    assert not (project / ".simkit").exists()


def test_a_base_is_not_for_programs(simkit: Call) -> None:
    done = simkit("replay", "--base", "nowhere", "--format", "json")

    assert done.code == 2
    assert "--base is not for --format json; see `simkit diff --base DIR`." in done.err


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("use: [{0}.yaml]", "2:7: there is no file `xx"),
        ("pipeline: {0}.pipeline.yaml", "2:11: there is no file `xx"),
        ("pipeline: echo\ncassette: {0}", ""),
    ],
    ids=["use", "pipeline", "cassette"],
)
def test_a_file_whose_name_no_system_takes_is_one_error_of_its_scenario(
    simkit: Call, line: str, place: str
) -> None:
    """Python raises for such a name where it is asked whether the file is there."""
    turns = "turns: [{user: hi, replies: {a: hello}}]\n"
    rest = "" if "pipeline" in line else "pipeline: echo\n"
    long = f"scenario: long\n{line.format('x' * 300)}\n{rest}{turns}"
    write("scenarios/long.scenario.yaml", f"{ECHO}---\n{long}---\n{GOOD.removeprefix('---')}")

    done = simkit("replay", "scenarios/long.scenario.yaml")

    assert (done.code, done.err) == (2, "")
    assert "1 held, 1 broken" in done.out
    assert place.partition(": ")[2] in done.out
