"""The check of a first test in a new process, which imports the app once.

A copy of that process replays the scenario, and another one passes all to pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Final

import msgspec

from simkit.capture.http.places import is_library
from simkit.core.gc_pause import imports_frozen
from simkit.spec.scenario.code_names import file_of

# A file replayed alone, in a new process that inherits nothing from this one.


def replayed_alone(file: str) -> str:
    """Replay a scenario file in a new process; return the error, empty if it holds."""
    code, output = run_alone("simkit", "replay", "-q", file)
    return output if code else ""


def run_alone(module: str, *arguments: str) -> tuple[int, str]:
    """Run a module in a new process; return its exit code and its output.

    The process has no ``PYTHON…`` variable of this one, and does not import from its working
    directory, so that it finds only what a user would have.
    """
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }
    done = subprocess.run(
        [sys.executable, "-P", "-m", module, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    return done.returncode, f"{done.stdout}{done.stderr}".strip()


def root_of(pipeline: str, folders: Iterable[Path]) -> Path | None:
    """Return the folder from which a pipeline's module is imported; None for an installed one.

    It is looked for in ``folders`` first.
    """
    module = pipeline.partition(":")[0]
    file = file_of(module, [*map(str, folders), *sys.path])
    if file is None or is_library(str(file)):
        return None
    package = file.parent if file.name == "__init__.py" else file
    return package.resolve().parents[module.count(".")]


_REPLAY_FAILED: Final = 1
_PYTEST_FAILED: Final = 3
PYTEST: Final = ("-q", "--no-header", "-p", "no:cacheprovider")
_IMPORTED_BEFORE: Final = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
"""simkit has imported plugins of pytest before pytest starts here. A project may make each warning
an error (`filterwarnings = error`)."""


class Failures(msgspec.Struct, frozen=True):
    """The reports of what failed; each is empty if all held."""

    replay: str = ""
    pytest: str = ""


def failures_alone(scenario: Path, *features: Path) -> Failures:
    """Replay a scenario in a new process, and run pytest on it and on folders of features."""
    files = [str(file) for file in (scenario, *features)]
    code, report = run_alone(__name__, *files)
    if code == _PYTEST_FAILED:
        # It was a copy of a process that has imported the app: pytest alone has the last word.
        code, report = run_alone("pytest", *PYTEST, *files)
        return Failures(pytest=report if code else "")
    return Failures(replay=report if code else "")


# In the new process


def check(files: list[str]) -> int:
    """Hold files in this process, which has run nothing; return the exit code."""
    with imports_frozen:
        from simkit.cli import Command
        from simkit.cli.plan import cases_at
        from simkit.cli.processes import RunsInProcesses
        from simkit.cli.running import Job
        from simkit.core.output import echo
        from simkit.language.yaml import DocumentCache

    Command.owns_process = True
    cache = DocumentCache()
    entries = cases_at(files[:1], cache)
    with RunsInProcesses(entries, Job(), cache, 1) as runs:
        for ran in runs:
            if ran.result.failed:
                echo(ran.text)
                return _REPLAY_FAILED
        if len(files) > 1 and (report := runs.call(entries[0], _pytest_report, files)):
            echo(report)
            return _PYTEST_FAILED
    return 0


def _pytest_report(files: list[str]) -> str:
    """Run pytest in this process; return what it prints, empty if all pass."""
    import pytest

    output = StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        code = pytest.main([*PYTEST, *_IMPORTED_BEFORE, *files])
    return output.getvalue() or f"pytest ended with {code}" if code else ""


if __name__ == "__main__":
    from simkit.cli.init import checking

    # Another process finds the functions of this module by its name.
    sys.exit(checking.check(sys.argv[1:]))
