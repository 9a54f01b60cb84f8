"""The promise: same scenario, seed and version give the same bytes, in whatever process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from simkit.spec.scenario.files import scenario_files
from tests.conftest import IS_NIGHTLY, sample_by_day
from tests.digests import ROOT, digests
from tests.processes import run_python

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


FILES = [os.path.abspath(file) for file in scenario_files(ROOT / "scenarios")]
SOME = sample_by_day(FILES, 12)
"""By day `.ci/run` compares the digests of all files on two Pythons."""


@cache
def digests_here() -> dict[str, str]:
    return digests(*SOME)


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


@pytest.mark.slow(10)
def test_scenarios_run_twice_in_one_process_have_one_digest_each() -> None:
    first = digests_here()

    assert digests(*SOME) == first
    assert len(set(first.values())) == len(first) > 1


@pytest.mark.slow
def test_a_project_that_lies_elsewhere_gives_the_same_digests_with_another_hash_seed(
    tmp_path: Path,
) -> None:
    target = tmp_path / "else where"
    for name in ("scenarios", "cassettes"):
        shutil.copytree(ROOT / name, target / name)
    shutil.copy(ROOT / "pyproject.toml", target)
    files = [os.path.relpath(file, ROOT) for file in SOME]

    data = in_child(sys.executable, "1", *files, folder=target)

    assert data["hash"] != hash("simkit")
    assert data["digests"] == digests_here()


PYTEST = ("pytest", "-q", "-p", "no:cacheprovider", "--junitxml=report.xml")
REPLAY = ("simkit", "replay", "--format", "json")
DOORS = {
    "two at a time": (*REPLAY, "-j", "2"),
    "pytest": PYTEST,
    "alone": REPLAY,
    "in reverse": REPLAY,
    "in one process, in reverse": (*REPLAY, "--in-process"),
    "pytest-xdist": (*PYTEST, "-n", "2"),
}
"""The commands that run scenarios: each alone, or in the company of others."""
OF_PLAIN_CODE = [file for file in FILES if "plain_http" in file]
"""They import no framework, so that they take little time."""


def digests_through(door: str, names: Sequence[str], folder: Path) -> list[str]:
    """Return the digests of scenarios that one command runs in this order."""
    done = run_python("-m", *DOORS[door], *names, folder=folder)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    if "pytest" in door:
        properties = ElementTree.parse(folder / "report.xml").iterfind(".//property")
        return [each.attrib["value"] for each in properties if "digest" in each.attrib["name"]]
    return [scenario["digest"] for scenario in json.loads(done.stdout)["scenarios"]]


@pytest.mark.parametrize(
    ("door", "files"),
    [
        ("two at a time", OF_PLAIN_CODE),
        pytest.param("pytest", OF_PLAIN_CODE, marks=pytest.mark.slow),
        *(
            pytest.param(door, FILES if IS_NIGHTLY else FILES[first::48], marks=pytest.mark.slow)
            for first, door in enumerate(DOORS)
        ),
    ],
)
def test_a_digest_depends_neither_on_the_door_nor_on_the_company(
    door: str, files: Sequence[str], tmp_path: Path
) -> None:
    """Each door runs one file of 48 in CI; all of them at night."""
    known = {str(ROOT / name): digest for name, digest in digests(*files).items()}
    if door == "alone":
        last = {name.partition("::")[0]: name for name in known}
        actual = [
            digest for name in last.values() for digest in digests_through(door, [name], tmp_path)
        ]
        known = {name: known[name] for name in last.values()}
    else:
        actual = digests_through(door, files[:: -1 if "reverse" in door else 1], tmp_path)

    assert sorted(filter(None, actual)) == sorted(known.values())


@pytest.mark.parametrize("python", OTHER_PYTHONS)
def test_another_python_gives_the_same_digests(python: str) -> None:
    against = reason_against(python)
    if against:
        pytest.skip(against)

    data = in_child(python, "0", *SOME)

    assert data["digests"] == digests_here()
