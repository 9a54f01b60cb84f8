"""`simkit replay --update`: the difference first, then what somebody agrees to."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.projects import BAD, ECHO, Call, Done, write

ROOT = Path(__file__).resolve().parents[2]
FILE = "scenarios/bad.scenario.yaml"
REFUSED = (
    "{} changes scenario files, and is refused in CI (CI is set)\n"
    "  Run it where somebody reads the difference, and commit what it writes.\n"
)


@pytest.fixture(autouse=True)
def _bad(project: Path) -> None:
    write(FILE, ECHO + BAD)


def text() -> str:
    return Path(FILE).read_text(encoding="utf-8")


@pytest.mark.slow
def test_several_processes_propose_the_same(process: Call) -> None:
    write("scenarios/other.scenario.yaml", ECHO + BAD)

    done = process("replay", "--update", "--yes", "-j", "2")

    assert done.code == 0
    assert text() == ECHO + BAD.replace("bye", "hello")
    assert Path("scenarios/other.scenario.yaml").read_text() == text()


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
    [("y\n", 0, "1 scenario: 1 passed", "hello"), ("n\n", 1, "nothing written", "bye")],
)
def test_on_a_terminal_each_file_is_asked_for(
    answer: str, code: int, last: str, reply: str
) -> None:
    ended, message = on_a_terminal(answer, "replay", FILE, "--update")

    assert ended == code, message
    assert f"write {FILE}? [y/N]: " in message
    assert last in message.splitlines()[-1]
    assert text() == ECHO + BAD.replace("bye", reply)
