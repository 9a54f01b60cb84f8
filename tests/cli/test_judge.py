# ruff: noqa: E501 -- whole texts are as wide as they are printed
"""`simkit judge`, called from outside: stored traces against today's claims."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simkit.report.last_run import slug
from tests.cli.projects import BAD, ECHO, GOOD, ROWS, Call, Done, write

GOOD_ID = "scenarios/good.scenario.yaml::it holds"
TRACE = f".simkit/traces/{slug(GOOD_ID)}.jsonl"
OTHER_CLAIM = ECHO + GOOD.replace("expect: {reply: hello}", "expect: {reply: bye}") + ROWS


@pytest.fixture
def ran(simkit: Call) -> Call:
    """The command line, after the scenarios of the project ran."""
    assert simkit("replay").code == 0
    return simkit


def test_the_last_run_is_judged_where_no_trace_is_named(ran: Call) -> None:
    names = [f"scenarios/good.scenario.yaml::{name}" for name in ("it holds", "row one", "row two")]
    files = {f".simkit/traces/{slug(name)}.jsonl": name.partition("::")[2] for name in names}

    assert ran("judge") == Done(
        0,
        "".join(f"{file}\n  ok      {files[file]}\n" for file in sorted(files))
        + "\n3 scenarios: 3 held (0.00 s)\n",
        "",
    )


def test_a_trace_is_held_against_the_claims_of_today_and_nothing_runs(ran: Call) -> None:
    # Lines that nobody asks for would fail a run; a trace has its answers.
    write(
        "scenarios/good.scenario.yaml",
        OTHER_CLAIM.replace("replies: {a: hello}, expect: {reply: bye}",
                            "replies: {a: [x, y, z]}, expect: {reply: bye}"),
    )  # fmt: skip

    assert ran("judge", TRACE) == Done(
        1,
        f"""\
{TRACE}
  FAILED  it holds

scenarios/good.scenario.yaml:10:61: reply does not match (turn 1)
    turns: [{{user: hi, replies: {{a: [x, y, z]}}, expect: {{reply: bye}}}}]
  wanted "bye", found "hello"
  the last run with an output is a's

    scenarios/good.scenario.yaml:6, pipeline echo, 1 turn, 1 model call, seed 0

    turn  time  agent  sent  tokens  dropped  answered  state written
    ----  ----  -----  ----  ------  -------  --------  -------------
       1  0 ms  user                          hi        messages
          0 ms  a         2       2        0  hello     messages

reproduce: simkit judge {TRACE}

1 scenario: 0 held, 1 failed (0.00 s)
""",
        "",
    )


def test_nothing_is_written(ran: Call) -> None:
    def files() -> dict[str, tuple[int, bytes]]:
        paths = [file for file in Path().rglob("*") if file.is_file()]
        return {str(f): (f.stat().st_mtime_ns, f.read_bytes()) for f in paths}

    before = files()
    write("scenarios/good.scenario.yaml", OTHER_CLAIM)
    changed = files()
    ran("judge")

    assert files() == changed
    assert changed != before


def test_a_trace_finds_its_scenario_by_its_name_and_the_name_of_its_file(ran: Call) -> None:
    write("scenarios/twin.scenario.yaml", ECHO + GOOD)
    Path("elsewhere").mkdir()
    path, renamed = Path("elsewhere") / Path(TRACE).name, Path("elsewhere/renamed.jsonl")
    path.write_bytes(Path(TRACE).read_bytes())
    renamed.write_bytes(Path(TRACE).read_bytes())

    done = ran("judge", str(path), "-q")
    unclear = ran("judge", str(renamed), "-q")

    assert done == Done(0, "1 scenario: 1 held (0.00 s)\n", "")
    assert unclear == Done(
        2,
        """\
elsewhere/renamed.jsonl
  BROKEN  elsewhere/renamed.jsonl

elsewhere/renamed.jsonl: the scenario 'it holds' that this trace is of was not found: there are 2 of that name: `scenarios/good.scenario.yaml::it holds`, `scenarios/twin.scenario.yaml::it holds`
  Name it with `--scenario PATH::NAME`.

reproduce: simkit judge elsewhere/renamed.jsonl

1 scenario: 0 held, 1 broken (0.00 s)
""",
        "",
    )


def test_the_scenario_can_be_named(ran: Call) -> None:
    write("other.scenario.yaml", ECHO + BAD)

    assert ran("judge", TRACE, "-q", "--scenario", "other.scenario.yaml::it's wrong") == Done(
        1,
        f"""\
{TRACE}
  FAILED  it's wrong

other.scenario.yaml:13:14: reply does not match (turn 1)
    reply: bye
  wanted "bye", found "hello"
  the last run with an output is a's

    other.scenario.yaml:6, pipeline echo, 1 turn, 1 model call, seed 0

    turn  time  agent  sent  tokens  dropped  answered  state written
    ----  ----  -----  ----  ------  -------  --------  -------------
       1  0 ms  user                          hi        messages
          0 ms  a         2       2        0  hello     messages

reproduce: simkit judge {TRACE} --scenario "other.scenario.yaml::it's wrong"

1 scenario: 0 held, 1 failed (0.00 s)
""",
        "",
    )


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        ("rename", "`scenarios/good.scenario.yaml` holds none of that name, but 'it held'"),
        ("remove", "its file `scenarios/good.scenario.yaml` is not there"),
        ("forget", "the trace does not say in which file it is"),
    ],
)
def test_a_scenario_that_is_not_there_is_told_with_where_it_was_looked_for(
    ran: Call, prepare: str, why: str
) -> None:
    file = Path("scenarios/good.scenario.yaml")
    if prepare == "rename":
        file.write_text(file.read_text().replace("it holds", "it held"))
    else:
        file.unlink()
    if prepare == "forget":
        file.parent.rmdir()
        Path(".simkit/last.json").unlink()

    done = ran("judge", TRACE)

    assert done.code == 2
    assert (
        f"\n{TRACE}: the scenario 'it holds' that this trace is of was not found: {why}\n"
        "  Name it with `--scenario PATH::NAME`.\n" in done.out
    )


def damaged(content: bytes) -> dict[str, tuple[bytes, str]]:
    """What can be wrong with a trace, and what is said of it."""
    lines = content.splitlines()
    return {
        "older": (
            content.replace(b'{"simkit_trace":3}', b'{"simkit_trace":0}'),
            ":1: the trace has format 0, this simkit reads format 3. Run its scenario again to get a new one.",
        ),
        "foreign": (
            b'{"hello": 1}\n',
            ':1: this is no simkit trace: its first line must be {"simkit_trace":3}',
        ),
        "no event": (
            content.replace(b"TurnStarted", b"TurnStartled"),
            ":4: not an event of a simkit trace: Invalid value 'TurnStartled' - at `$.kind`",
        ),
        "cut off": (
            b"\n".join(lines[:-1]),
            ": the trace is cut off: it ends with TurnFinished, not RunFinished",
        ),
        "beheaded": (
            b"\n".join((lines[0], *lines[2:])),
            ": the trace is damaged: its first event must be RunStarted",
        ),
        "a line is missing": (
            b"\n".join(line for line in lines if b"AgentStarted" not in line),
            ":12: the trace is damaged: this AgentFinished does not fit what came before",
        ),
        "empty": (b"", ':1: this is no simkit trace: its first line must be {"simkit_trace":3}'),
    }


@pytest.mark.parametrize(
    "kind", ["older", "foreign", "no event", "cut off", "beheaded", "a line is missing", "empty"]
)
def test_a_damaged_trace_is_one_error_and_stops_no_other(ran: Call, kind: str) -> None:
    content, says = damaged(Path(TRACE).read_bytes())[kind]
    Path("bad.jsonl").write_bytes(content)

    assert ran("judge", "bad.jsonl", TRACE, "-q") == Done(
        2,
        f"""\
bad.jsonl
  BROKEN  bad.jsonl

bad.jsonl{says}

reproduce: simkit judge bad.jsonl

2 scenarios: 1 held, 1 broken (0.00 s)
""",
        "",
    )


def test_what_is_not_there_is_told(simkit: Call) -> None:
    Path("empty").mkdir()

    assert simkit("judge") == Done(
        2,
        "",
        ".simkit: there is no trace of an earlier run\n  Run `simkit replay` first, or name a trace.\n",
    )
    assert simkit("judge", "empty") == Done(
        2, "", "empty: there is no trace in this folder, no file `*.jsonl`\n"
    )
    assert simkit("judge", "nope.jsonl") == Done(
        2, "", "nope.jsonl: there is no such file or folder\n"
    )


TALK = """\
---
version: 1
scenario: two sessions
pipeline: echo
turns:
  - {user: hi, session: one, replies: {a: hello}}
  - {user: ho, session: two, replies: {a: hullo}}
"""


def test_what_needs_a_second_run_is_not_claimed_to_have_passed(simkit: Call) -> None:
    write("scenarios/good.scenario.yaml", ECHO + TALK)
    assert simkit("replay").code == 0

    assert simkit("judge", "-q") == Done(
        0,
        """\
not judged: STA-08 in 1 scenario: it holds a session against the same alone, and only `simkit
  replay` makes that run
1 scenario: 1 held (0.00 s)
""",
        "",
    )
    data = json.loads(simkit("judge", "--format", "json").out)
    assert data["not_judged"] == [
        {"id": "STA-08", "reason": "it holds a session against the same alone", "scenarios": 1}
    ]


def test_a_lint_that_only_a_second_run_could_find_is_not_missed(simkit: Call) -> None:
    write("scenarios/good.scenario.yaml", ECHO + TALK)
    simkit("replay")
    write(
        "scenarios/good.scenario.yaml",
        ECHO + TALK + "expect: {findings: [{id: STA-08}, {id: CTX-01}]}\n",
    )

    data = json.loads(simkit("judge", "--format", "json").out)

    assert [finding["what"] for finding in data["scenarios"][0]["findings"]] == [
        "CTX-01 is claimed, but not found in the whole run"
    ]


def test_json_is_that_of_replay_and_says_which_trace(ran: Call) -> None:
    replayed = json.loads(ran("replay", GOOD_ID, "--format", "json").out)["scenarios"][0]

    judged = json.loads(ran("judge", TRACE, "--format", "json").out)["scenarios"][0]

    assert {**replayed, "reproduce": f"simkit judge {TRACE}"} == {
        key: value for key, value in judged.items() if key not in ("unjudged", "asked")
    }


def test_github_gets_an_annotation_at_the_claim(ran: Call) -> None:
    write("scenarios/good.scenario.yaml", OTHER_CLAIM)

    done = ran("judge", TRACE, "--format", "github")

    assert done == Done(
        1,
        "::error file=scenarios/good.scenario.yaml,line=10,col=57,title=it holds::"
        "reply does not match (turn 1)%0A"
        "    turns: [{user: hi, replies: {a: hello}, expect: {reply: bye}}]%0A"
        '  wanted "bye", found "hello"%0A'
        "  the last run with an output is a's\n"
        "1 scenario: 0 held, 1 failed (0.00 s)\n",
        "",
    )


def test_a_run_with_another_seed_is_judged_under_that_seed(simkit: Call) -> None:
    drawn = ECHO + GOOD.replace("{user: hi,", '{user: "I am ${fake.name}",').replace(
        "expect: {reply: hello}",
        'expect: {context: {a: {includes: [{user: "I am ${fake.name}"}]}}}',
    )
    write("scenarios/good.scenario.yaml", drawn)
    simkit("replay", "--seed", "11")

    assert simkit("judge", "-q") == Done(0, "1 scenario: 1 held (0.00 s)\n", "")


def test_a_predicate_of_the_user_is_asked(ran: Call) -> None:
    write("predicates.py", "def short(view):\n    print('looking')\n    return 'too long'\n")
    write(
        "scenarios/good.scenario.yaml",
        ECHO + GOOD.replace("{reply: hello}", "{satisfies: 'predicates:short'}") + ROWS,
    )

    done = ran("judge", TRACE, "-q")

    assert done.code == 1
    assert "`predicates:short` does not hold: too long" in done.out
    assert "looking" not in done.out


def test_skipped_scenarios_are_skipped_here_too(ran: Call) -> None:
    write("scenarios/good.scenario.yaml", ECHO + GOOD.replace("tags: [smoke]", "skip: not yet"))

    assert ran("judge", TRACE) == Done(
        0, f"{TRACE}\n  skipped it holds (not yet)\n\nskipped: 1 scenario: not yet\n"
        "1 scenario: 0 held, 1 skipped (0.00 s)\n", "",
    )  # fmt: skip
