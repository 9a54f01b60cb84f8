# ruff: noqa: E501 -- whole texts are as wide as they are printed
"""`simkit replay`, called from outside: what is printed, and how it ends."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.projects import BAD, ECHO, GOOD, MISSPELT, Call, Done, write


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


def test_contexts_are_a_key_of_the_answer(simkit: Call) -> None:
    bad = "expect: {context: {a: {includes: [{$contains: goodbye}]}}}"
    write("scenarios/one.scenario.yaml", ECHO + GOOD.replace("expect: {reply: hello}", bad))

    words = ("replay", "scenarios/one.scenario.yaml", "--format", "json", "--show", "context")

    def chosen(*options: str) -> Any:
        return json.loads(simkit(*words, *options).out)["scenarios"][0]["contexts"]

    done = simkit(*words)

    (scenario,) = json.loads(done.out)["scenarios"]
    (call,) = scenario["contexts"]
    assert (call["turn"], call["reply"]["content"]) == (1, "hello")
    assert len(chosen("--agent", "a", "--turn", "1")) == 1
    assert chosen("--agent", "b") == []
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
        "3 scenarios: 3 passed (0.00 s)\n",
        "note: the traces of this run are not kept: .simkit is a file, and must be a folder: "
        "move it away\n",
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

3 scenarios: 3 passed (0.00 s)
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

2 scenarios: 1 passed, 1 failed (0.00 s)
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
        "## simkit: 4 scenarios, 3 passed, 1 failed",
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
        "3 scenarios: 3 passed (0.00 s)\n"
        "against base: 3 scenarios: 3 different; `simkit diff --base base` shows what\n",
        "",
    )
    text = summary.read_text(encoding="utf-8")
    assert "| it holds | a, turn 1 | 2 messages, 2 → 3 tokens; 1 changed |" in text


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
    assert "1 passed, 1 error" in done.out
    assert place.partition(": ")[2] in done.out
