# ruff: noqa: E501 -- whole texts are as wide as they are printed
"""`simkit judge`, called from outside: stored traces against today's claims."""

from __future__ import annotations

import json

import pytest

from simkit.report.last_run import slug
from tests.cli.projects import ECHO, GOOD, ROWS, Call, Done, files_here, write

GOOD_ID = "scenarios/good.scenario.yaml::it holds"
TRACE = f".simkit/traces/{slug(GOOD_ID)}.jsonl"
OTHER_CLAIM = ECHO + GOOD.replace("expect: {reply: hello}", "expect: {reply: bye}") + ROWS


@pytest.fixture
def ran(simkit: Call) -> Call:
    """The command line, after the scenarios of the project ran."""
    assert simkit("replay").code == 0
    return simkit


def test_nothing_is_written(ran: Call) -> None:
    before = files_here()
    write("scenarios/good.scenario.yaml", OTHER_CLAIM)
    changed = files_here()
    ran("judge")

    assert files_here() == changed
    assert changed != before


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
            ":4: not an event of a simkit trace: Invalid value 'TurnStartled' - at `$.kind`. Run its scenario again to "
            "get a new one.",
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
1 scenario: 1 passed (0.00 s)
""",
        "",
    )
    data = json.loads(simkit("judge", "--format", "json").out)
    assert data["not_judged"] == [
        {"id": "STA-08", "reason": "it holds a session against the same alone", "scenarios": 1}
    ]


def test_json_is_that_of_replay_and_says_which_trace(ran: Call) -> None:
    replayed = json.loads(ran("replay", GOOD_ID, "--format", "json").out)["scenarios"][0]

    judged = json.loads(ran("judge", TRACE, "--format", "json").out)["scenarios"][0]

    assert {**replayed, "reproduce": f"simkit judge {TRACE}"} == {
        key: value for key, value in judged.items() if key not in ("unjudged", "asked")
    }
