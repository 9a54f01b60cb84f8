"""`simkit replay --update`: the difference first, then what somebody agrees to."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.projects import BAD, ECHO, GOOD, Call, Done, write

ROOT = Path(__file__).resolve().parents[2]
FILE = "scenarios/bad.scenario.yaml"
DIFF = f"""\
--- {FILE}
+++ {FILE} (new)
@@ -10,4 +10,4 @@
   - user: hi
     replies: {{a: hello}}
     expect:
-      reply: bye
+      reply: hello
"""
REFUSED = (
    "{} changes scenario files, and is refused in CI (CI is set)\n"
    "  Run it where somebody reads the difference, and commit what it writes.\n"
)


@pytest.fixture(autouse=True)
def _bad(project: Path) -> None:
    write(FILE, ECHO + BAD)


def text() -> str:
    return Path(FILE).read_text(encoding="utf-8")


def test_without_a_terminal_the_difference_is_only_shown(simkit: Call) -> None:
    done = simkit("replay", FILE, "--update")

    assert done == Done(1, f"\n{DIFF}\nnothing written: say so with --yes\n", "")
    assert text() == ECHO + BAD


def test_with_yes_it_is_written_and_holds(simkit: Call) -> None:
    done = simkit("replay", "--update", "--yes")

    reply = f"\n{DIFF}\n1 file of 1 written\n4 scenarios: 4 held (0.00 s)\n"
    assert done == Done(0, reply, "")
    assert text() == ECHO + BAD.replace("bye", "hello")


@pytest.mark.slow
def test_several_processes_propose_the_same(process: Call) -> None:
    write("scenarios/other.scenario.yaml", ECHO + BAD)

    done = process("replay", "--update", "--yes", "-j", "2")

    assert done.code == 0
    assert text() == ECHO + BAD.replace("bye", "hello")
    assert Path("scenarios/other.scenario.yaml").read_text() == text()


def test_what_must_be_changed_by_hand_still_fails(simkit: Call) -> None:
    write(FILE, ECHO + BAD.replace("reply: bye", "reply: {$starts: bye}\n      agents: [a, a]"))

    done = simkit("replay", FILE, "--update", "--yes")

    assert done.code == 1
    assert (
        "must be changed by hand:\n"
        f'  {FILE}:13:24: turns[0].expect.reply.$starts: `$starts` does not match "hello"\n'
        "\n1 file of 1 written\n"
    ) in done.out
    assert text() == ECHO + BAD.replace("reply: bye", "reply: {$starts: bye}\n      agents: [a]")


def test_where_all_holds_nothing_is_offered(simkit: Call) -> None:
    done = simkit("replay", "scenarios/good.scenario.yaml", "--update")

    assert done.code == 0
    assert "written" not in done.out


def test_scenarios_that_are_expected_to_fail_stay(simkit: Call) -> None:
    known = ECHO + BAD.replace("pipeline: echo", "pipeline: echo\nxfail: bug 12")
    write(FILE, known)

    done = simkit("replay", FILE, "--update", "--yes")

    assert done.code == 0
    assert text() == known


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--yes"], "--yes says that --update may write, and there is no --update."),
        (["--update", "--seed", "3"],
         "--update writes what the scenarios' own seeds give, not --seed."),
        (["--update", "--format", "json"],
         "--update shows a difference, for people; leave out --format json."),
    ],
)  # fmt: skip
def test_a_call_that_makes_no_sense_is_refused(
    simkit: Call, arguments: list[str], message: str
) -> None:
    done = simkit("replay", FILE, *arguments)

    assert done.code == 2
    assert message in done.err
    assert text() == ECHO + BAD


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["replay", FILE, "--update", "--yes"], "simkit replay --update"),
        (["expect", FILE, "--yes"], "simkit expect"),
    ],
)
def test_in_ci_nothing_is_written(
    simkit: Call, monkeypatch: pytest.MonkeyPatch, arguments: list[str], name: str
) -> None:
    monkeypatch.setenv("CI", "true")

    done = simkit(*arguments)

    assert done == Done(2, "", REFUSED.format(name))
    assert text() == ECHO + BAD


def on_a_terminal(answer: str, *arguments: str) -> tuple[int, str]:
    """Calls the command line where somebody answers its questions."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "TERM": "dumb"}
    process = subprocess.Popen(
        [sys.executable, "-m", "simkit", *arguments],
        stdin=follower, stdout=follower, stderr=follower, env=environment,
    )  # fmt: skip
    os.close(follower)
    os.write(leader, answer.encode())
    reply = b""
    try:
        while piece := os.read(leader, 4096):
            reply += piece
    except OSError:
        # Nobody holds the other end any more.
        pass
    os.close(leader)
    return process.wait(60), reply.decode().replace("\r\n", "\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "code", "last", "reply"),
    [("y\n", 0, "1 scenario: 1 held", "hello"), ("n\n", 1, "nothing written", "bye")],
)
def test_on_a_terminal_each_file_is_asked_for(
    answer: str, code: int, last: str, reply: str
) -> None:
    ended, message = on_a_terminal(answer, "replay", FILE, "--update")

    assert ended == code, message
    assert f"write {FILE}? [y/N]: " in message
    assert last in message.splitlines()[-1]
    assert text() == ECHO + BAD.replace("bye", reply)


BARE = GOOD.replace(", expect: {reply: hello}", "")


def test_claims_are_written_where_there_are_none_and_hold(simkit: Call) -> None:
    write(FILE, ECHO + BARE + BAD)

    output = simkit("expect", f"{FILE}::it holds")
    written_text = simkit("expect", f"{FILE}::it holds", "--yes")
    again = simkit("expect", FILE, "--yes")

    echo = ECHO + BARE.replace("turns: [{user: hi, replies: {a: hello}}]\n", """\
turns:
  - user: hi
    replies: {a: hello}
    expect:
      agents: [a]
      reply: hello
      context:
        a:
          sections: [instructions, current_message]
          current_message:
            - user: hi
      handoffs: []
      tool_calls: []
      state:
        messages:
          - user: hi
          - assistant: hello
""") + BAD  # fmt: skip
    assert output.code == 1
    assert output.out.endswith("nothing written: say so with --yes\n")
    assert written_text.code == 0
    assert written_text.out == output.out.replace(
        "nothing written: say so with --yes", "1 file of 1 written"
    )
    assert again == Done(0, "every turn that runs has claims\n", "")
    assert text() == echo
    assert simkit("replay", f"{FILE}::it holds", "-q").code == 0


def test_turns_behind_an_error_get_claims_too(simkit: Call) -> None:
    turns = (
        "turns:\n"
        "  - {user: hi, replies: {a: {error: rate_limit}}}\n"
        "  - {user: you, replies: {a: x}}\n"
    )
    write(FILE, f"{ECHO}---\nversion: 1\nscenario: it goes on\npipeline: echo\n{turns}")

    done = simkit("expect", FILE, "--yes")

    assert done.code == 0
    assert text().count("    expect:\n") == 2
    assert simkit("replay", FILE, "-q").code == 0


def test_a_broken_file_is_said(simkit: Call) -> None:
    write(FILE, ECHO + BAD.replace("turns:", "turnes:"))

    done = simkit("expect", FILE)

    assert done.code == 2
    assert done.err.startswith(f"{FILE}:9:1: unknown key `turnes`")
