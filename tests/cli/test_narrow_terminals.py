"""What a terminal shows: no line is longer than it, the finding comes before the table."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.projects import BAD, ECHO, write

if sys.platform == "win32":
    pytest.skip("there are no pseudo terminals", allow_module_level=True)

import fcntl
import pty
import struct
import termios

ROOT = Path(__file__).resolve().parent.parent.parent
STYLE = re.compile(r"\x1b\[[0-9;]*[mK]")


def replay_output(columns: int, **environment: str) -> str:
    """Return what `simkit replay` writes to a terminal with so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    by_name = {
        k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")
    }
    by_name |= {"TERM": "xterm", "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-m", "simkit", "replay", "a.scenario.yaml", "--verify"]
    with subprocess.Popen(
        command, stdout=theirs, stderr=subprocess.DEVNULL, env=by_name
    ) as process:
        os.close(theirs)
        text = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:
                break
            if not part:
                break
            text += part
        process.wait()
    os.close(ours)
    return text.decode().replace("\r", "")


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 80, 100, 140])
def test_no_line_is_wider_than_the_terminal(columns: int, cwd: Path) -> None:
    write("a.scenario.yaml", ECHO + BAD)

    text = replay_output(columns)
    plain = STYLE.sub("", text)

    # A command is on one line, to be copied.
    lines = [line for line in plain.split("\n") if not line.startswith("reproduce: ")]
    assert [line for line in lines if len(line) > columns] == []
    assert "\x1b[31m" in text
    assert "\x1b[" not in replay_output(columns, NO_COLOR="1")
    # The table of this scenario is 72 columns wide with its indent.
    assert ("----" in plain) is (columns >= 80)
