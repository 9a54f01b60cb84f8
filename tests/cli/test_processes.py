"""Several processes, and surroundings that are gone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from simkit.cli.commands import cli
from simkit.cli.running import Job, entries_of_code
from simkit.cli.selection import select
from simkit.language.yaml import DocumentCache
from tests.cli.conftest import ROOT
from tests.cli.projects import ECHO, Call, without_times, write

SCENARIO = """\
---
version: 1
scenario: number %d
pipeline: echo
turns: [{user: hi, replies: {a: hello}, expect: {reply: hello}}]
"""


def scenarios(count: int) -> str:
    return ECHO + "".join(SCENARIO % place for place in range(count))


@pytest.mark.slow
def test_many_scenarios_give_the_same_output_in_processes(process: Call) -> None:
    write("scenarios/many.scenario.yaml", scenarios(310))

    alone, several = process("replay"), process("replay", "-j", "3")

    assert alone == several
    assert alone.code == 0


WITHOUT_COPIES = """
from simkit.cli import main, processes
from simkit.session.execution import applications
from simkit.session.workers import worker
if __name__ == "__main__":
    worker.application_process = lambda *_: None
    applications.can_fork = lambda: False
    processes.SIZE_MIN = 1
    main()
"""


@pytest.mark.slow
def test_where_no_process_can_be_copied_the_output_is_the_same(process: Call) -> None:
    write("scenarios/many.scenario.yaml", scenarios(5))
    write("no_copies.py", WITHOUT_COPIES)
    command = ("replay", "scenarios")

    done = subprocess.run(
        [sys.executable, "no_copies.py", *command, "-j", "2"],
        capture_output=True, text=True, check=False, timeout=120, env=os.environ,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    assert without_times(done.stdout) == process(*command).out


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
    command: str, simkit: Call, deleted_folder: Path
) -> None:
    done = simkit(command)

    assert (done.code, done.out, done.err) == (2, "", MISSING)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows deletes no working directory")
def test_a_directory_that_user_code_deletes_is_one_clear_error(project: Path, simkit: Call) -> None:
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


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="closes streams by the shell")
@pytest.mark.parametrize("around", ["closed stdin", "no HOME", "no TMPDIR", "TMPDIR read-only"])
def test_a_replay_needs_no_stdin_no_home_and_no_tmpdir(project: Path, around: str) -> None:
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
        ["sh", "-c", f'exec "$0" -m simkit replay -q --update scenarios{closing}', sys.executable],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip

    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stdout + done.stderr


FILES_OF_PIPELINES: Final = {
    "code.pipeline.yaml": "pipeline: shop\ncode: shop:run\n",
    "declared.pipeline.yaml": "pipeline: shop\nagents: {desk: {}}\n",
}


@pytest.mark.parametrize(
    ("pipeline", "is_code"),
    [
        ("shop:run", True),
        ("code.pipeline.yaml", True),
        ("declared.pipeline.yaml", False),
        ("lost.pipeline.yaml", False),
        ("here", True),
        ("declared", False),
        ("module", True),
    ],
)
def test_a_pipeline_is_code_wherever_it_is_named(
    tmp_path: Path, pipeline: str, is_code: bool
) -> None:
    """So that each of its scenarios has a process of its own."""
    for name, text in FILES_OF_PIPELINES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    file = tmp_path / "a.scenario.yaml"
    file.write_text(
        "pipeline: here\ncode: shop:run\n---\npipeline: declared\nagents: {desk: {}}\n---\n"
        f"scenario: a\npipeline: {pipeline}\nturns: [{{user: Hello}}]\n",
        encoding="utf-8",
    )
    cache = DocumentCache()
    entries = select([str(file)], cache).entries

    assert [*entries_of_code(entries, Job(), cache)] == ([*entries] if is_code else [])
