"""The promise: same scenario, seed and version give the same bytes, in whatever process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from simkit.spec.scenario.files import scenario_files
from tests.conftest import IS_NIGHTLY
from tests.digests import ROOT, digests

DEPENDENCIES = "import faker, msgspec, pydantic, yaml"
OTHER_PYTHONS = [f"python3.{minor}" for minor in (11, 12, 13) if (3, minor) != sys.version_info[:2]]


@cache
def chosen(python: str) -> dict[str, str]:
    """What the environment must say for a Python to start: pyenv starts none that is not chosen."""
    if shutil.which("pyenv") is None:
        return {}
    listed = subprocess.run(
        ["pyenv", "versions", "--bare"], capture_output=True, text=True, check=False, timeout=60
    )
    version = f"{python.removeprefix('python')}."
    words = [word for word in listed.stdout.split() if word.startswith(version)]
    return {"PYENV_VERSION": words[-1]} if words else {}


def in_child(python: str, hash_seed: str, *files: str, folder: Path = ROOT) -> dict[str, Any]:
    """What a new process says: its hash of a text, and the digests."""
    done = subprocess.run(
        [python, "-m", "tests.digests", *files],
        cwd=folder,
        env={
            **os.environ,
            **chosen(Path(python).name),
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    return data


@cache
def digests_here() -> dict[str, str]:
    return digests()


def reason_against(python: str) -> str:
    """Why an interpreter cannot be asked; empty if it can."""
    if shutil.which(python) is None:
        return f"there is no {python} on this machine"
    tried = subprocess.run(
        [python, "-c", DEPENDENCIES],
        env={**os.environ, **chosen(python)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if tried.returncode == 0:
        return ""
    lines = [line for line in tried.stderr.splitlines() if line.strip()]
    if tried.returncode != 1 or not lines:
        return f"{python} does not start on this machine (exit code {tried.returncode})"
    return f"{python} has not what simkit needs: {lines[-1]}"


@pytest.mark.slow
def test_scenarios_run_twice_in_one_process_have_one_digest_each() -> None:
    first = digests_here()

    assert digests() == first
    assert len(set(first.values())) == len(first) > 1


@pytest.mark.slow
def test_a_project_that_lies_elsewhere_gives_the_same_digests_with_another_hash_seed(
    tmp_path: Path,
) -> None:
    target = tmp_path / "else where"
    for name in ("scenarios", "cassettes"):
        shutil.copytree(ROOT / name, target / name)
    shutil.copy(ROOT / "pyproject.toml", target)
    files = [os.path.relpath(file, ROOT) for file in scenario_files(ROOT / "scenarios")]

    data = in_child(sys.executable, "1", *files, folder=target)

    assert data["hash"] != hash("simkit")
    assert data["digests"] == digests_here()


UNDER_XDIST = """
import json, os
from pathlib import Path

from tests.digests import digests


def test_digests():
    found = json.dumps(digests(*{files!r}), sort_keys=True)
    Path(os.environ["PYTEST_XDIST_WORKER"] + ".json").write_text(found)
"""


@pytest.mark.slow
def test_workers_of_xdist_give_the_same_digests(tmp_path: Path) -> None:
    files = scenario_files(ROOT / "scenarios")[:: 1 if IS_NIGHTLY else 4]
    (tmp_path / "test_here.py").write_text(UNDER_XDIST.format(files=files), encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n2", "--dist=each", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    rows = [json.loads(file.read_text()) for file in sorted(tmp_path.glob("gw*.json"))]
    assert done.returncode == 0, done.stdout
    assert len(rows) == 2
    assert rows[0] == rows[1] == {name: digests_here()[name] for name in rows[0]}


@pytest.mark.parametrize("python", OTHER_PYTHONS)
def test_another_python_gives_the_same_digests(python: str) -> None:
    against = reason_against(python)
    if against:
        pytest.skip(against)

    data = in_child(python, "0")

    assert data["digests"] == digests_here()
