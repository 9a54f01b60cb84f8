"""The files that a process reads: those of its project, which it does not write itself."""

from __future__ import annotations

import os
from pathlib import Path

from simkit.core.files import FileReads


def test_reads_are_those_below_here_that_the_run_does_not_write_itself(cwd: Path) -> None:
    reads = FileReads()

    for path, mode, flags in (
        ("a.txt", "r", 0),
        ("sub/../b.txt", "rb", 0),
        ("log.txt", "a", 0),
        ("log.txt", "r", 0),
        ("db", None, os.O_RDWR),
        (".simkit/last.json", "r", 0),
        ("venv/lib/site-packages/x.py", "r", 0),
        ("__pycache__/m.cpython-311.pyc", "rb", 0),
        (str(cwd.parent / "far.txt"), "r", 0),
        (str(cwd.parent / "far.yaml"), "r", 0),
        (3, "r", 0),
    ):
        reads.note("open", (path, mode, flags))
    reads.note("os.listdir", ("c.txt",))

    assert reads.files() == ["a.txt", "b.txt", "m.py", "../far.yaml"]
