"""What a shell is told when a user presses Tab: in bash itself, and what click says to others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BASH = shutil.which("bash") or ""


def environment(**more: str) -> dict[str, str]:
    """An environment in which `simkit` is this one's."""
    folder = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": os.pathsep.join([folder, os.environ.get("PATH", "")]), **more}


def completed(*words: str, folder: Path) -> list[str]:
    """Return what bash would offer after these words."""
    listed = " ".join(f"'{word}'" for word in words)
    script = (
        'eval "$(_SIMKIT_COMPLETE=bash_source simkit)"\n'
        'compopt() { echo "let bash complete: $2"; }\n'
        f"COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}\n"
        "_simkit_completion simkit\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        [BASH, "--norc", "-c", script],
        cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


@pytest.mark.slow
@pytest.mark.skipif(not BASH, reason="needs bash")
def test_bash_completes_commands_options_and_ids(tmp_path: Path) -> None:
    assert completed("simkit", "rep", folder=tmp_path) == ["replay"]
    assert completed("simkit", "replay", "--sh", folder=tmp_path) == ["--show"]
    assert completed("simkit", "replay", "--show", "co", folder=tmp_path) == ["context"]
    assert completed("simkit", "explain", "HND-1", folder=tmp_path) == [
        "HND-10",
        "HND-11",
        "HND-12",
    ]


COMMANDS_WITH_FILES = [
    "cassettes", "coverage", "diff", "doctor", "expect", "judge", "mutate", "record", "replay",
    "serve", "validate",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not BASH, reason="needs bash")
@pytest.mark.parametrize("command", COMMANDS_WITH_FILES)
def test_bash_completes_the_names_of_files(tmp_path: Path, command: str) -> None:
    assert "let bash complete: default" in completed("simkit", command, "ref", folder=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_that_the_docs_name_gets_a_script(shell: str) -> None:
    done = subprocess.run(
        ["simkit"],
        env=environment(_SIMKIT_COMPLETE=f"{shell}_source"),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert done.returncode == 0
    assert f"_SIMKIT_COMPLETE={shell}_complete" in done.stdout
