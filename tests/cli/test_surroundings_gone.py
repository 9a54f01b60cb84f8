"""What surrounds a command is not there: its working directory, HOME, TMPDIR, stdin."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from simkit.cli.commands import cli
from tests.cli.conftest import ROOT
from tests.cli.projects import Done, write

MISSING: Final = """\
the working directory is not there any more: No such file or directory
  Go to a folder that is there, and call simkit again.
"""
SHELL: Final = """\
version: 1
scenario: it goes
pipeline: leaves:run
app: {path: [.], setup: "leaves:leave"}
turns: [{user: hi, expect: {reply: hello}}]
---
version: 1
scenario: it comes after
pipeline: leaves:run
app: {path: [.]}
turns: [{user: hi, expect: {reply: hello}}]
"""
LEAVES: Final = """\
import os, shutil, tempfile
def leave():
    folder = os.getcwd()
    shutil.rmtree(folder)
def run(message):
    return "hello"
"""


@pytest.fixture
def deleted_folder(project: Path) -> Iterator[Path]:
    """A working directory that was deleted."""
    folder = project / "gone"
    folder.mkdir()
    os.chdir(folder)
    shutil.rmtree(folder)
    yield folder
    os.chdir(project)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows deletes no working directory")
@pytest.mark.parametrize("command", cli.commands)
def test_every_command_says_that_its_directory_is_gone(
    command: str, simkit: Callable[..., Done], deleted_folder: Path
) -> None:
    done = simkit(command)

    assert (done.code, done.out, done.err) == (2, "", MISSING)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows deletes no working directory")
def test_a_directory_that_user_code_deletes_is_one_clear_error(
    project: Path, simkit: Callable[..., Done]
) -> None:
    shutil.rmtree(project / "scenarios")
    write("work/leaves.py", LEAVES)
    write("work/s.scenario.yaml", SHELL)
    os.chdir(project / "work")
    try:
        done = simkit("replay", ".")
    finally:
        os.chdir(project)

    assert done.code == 2
    assert "the working directory is not there any more" in done.out
    assert "bug in simkit" not in done.out + done.err
    assert "Traceback" not in done.out + done.err


@pytest.mark.skipif(sys.platform == "win32", reason="closes streams by the shell")
@pytest.mark.parametrize("around", ["closed stdin", "no HOME", "no TMPDIR", "TMPDIR read-only"])
@pytest.mark.parametrize("option", ["-q", "--update"])
def test_a_replay_needs_no_stdin_no_home_and_no_tmpdir(
    project: Path, around: str, option: str
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if around == "no HOME":
        environment.pop("HOME", None)
    elif around == "no TMPDIR":
        environment["TMPDIR"] = str(project / "nowhere")
    elif around == "TMPDIR read-only":
        (project / "kept").mkdir(mode=0o500)
        environment["TMPDIR"] = str(project / "kept")
    closing = " <&-" if around == "closed stdin" else ""

    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -m simkit replay {option} scenarios{closing}', sys.executable],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip

    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stdout + done.stderr
