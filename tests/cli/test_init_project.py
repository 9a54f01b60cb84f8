"""``simkit init``: a first project is written, passes at once, and shows how a failure looks."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from simkit.cli.init.files import SAMPLE, files_around, workflow_text
from simkit.cli.init.project import look_at
from tests.cli.projects import Call, Done, write
from tests.plugins import OTHERS_OFF

Run = Callable[[str], Done]
ROOT = Path(__file__).resolve().parents[2]
FILES = (
    "scenarios/support.pipeline.yaml",
    "scenarios/refund.scenario.yaml",
    "features/refund.feature",
    "features/test_features.py",
    ".github/workflows/simkit.yml",
)
NEXT = "Next:\n  simkit replay scenarios\n  python -m pytest scenarios features\n"
LEFT = "there already, left as it is"


NO_APP = (
    "no code of agents was found here: a sample to edit is written; --app MODULE:NAME names yours\n"
)


def expected_output(subject: str, files: Iterable[str] = FILES) -> str:
    return NO_APP + "".join(f"{file}: {subject}\n" for file in files)


def contents(folder: str = ".") -> dict[str, bytes]:
    """Every file below a folder."""
    files = sorted(file for file in Path(folder).rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


@pytest.fixture(autouse=True)
def _fresh(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory is a new folder."""
    (project / "fresh").mkdir()
    monkeypatch.chdir(project / "fresh")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line as a user does who installed simkit: pytest finds its entry point."""
    site = tmp_path / "site"
    info = site / "agent_simkit-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: agent-simkit\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[pytest11]\nsimkit = simkit.pytest_plugin\n")
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, options in (("simkit", "-m simkit"), ("python", "")):
        script = commands / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {options} "$@"\n')
        script.chmod(0o755)
    monkeypatch.setenv("PATH", str(commands), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", f"{site}{os.pathsep}{ROOT}")
    monkeypatch.setenv("PYTEST_ADDOPTS", f"-W error {OTHERS_OFF}")

    def call(line: str) -> Done:
        done = subprocess.run(
            shlex.split(line), capture_output=True, text=True, check=False, timeout=120
        )
        return Done(done.returncode, re.sub(r"\d+\.\d\d ?s", "0.00 s", done.stdout), done.stderr)

    return call


# What is written


SCENARIO, FEATURE, PIPELINE = (
    "scenarios/refund.scenario.yaml",
    "features/refund.feature",
    "scenarios/support.pipeline.yaml",
)
TOP = "refund.scenario.yaml"
BOUND, BROKEN = "tests/test_refunds.py", "tests/test_broken.py"
"""A module of the project's own that binds its features, and one of its other tests."""
BINDER = """\
from pytest_bdd import scenarios
from simkit.bdd import *

scenarios("../features")
"""
STATES = {
    "nothing": ((), "simkit replay scenarios\npython -m pytest scenarios features", 2),
    "a scenario": ((PIPELINE, SCENARIO), "simkit replay scenarios\npython -m pytest scenarios", 1),
    "a scenario at the top": ((PIPELINE, TOP), f"simkit replay {TOP}\npython -m pytest {TOP}", 1),
    "a feature": ((PIPELINE, FEATURE), "python -m pytest features", 1),
    "a feature that is bound": ((PIPELINE, FEATURE, BOUND), f"python -m pytest {BOUND}", 1),
    "a pipeline": ((PIPELINE,), "simkit validate scenarios", 0),
    "all": (
        (PIPELINE, SCENARIO, FEATURE, BOUND),
        f"simkit replay scenarios\npython -m pytest scenarios {BOUND}",
        2,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("files", "typed", "passed"), STATES.values(), ids=STATES)
def test_every_command_that_is_printed_or_written_runs(
    simkit: Call, run: Run, files: tuple[str, ...], typed: str, passed: int
) -> None:
    own = {
        BOUND: BINDER,
        TOP: SAMPLE[SCENARIO].replace("support.p", "scenarios/support.p"),
        BROKEN: "import nothing_of_this_name\n",
    }
    for name in (BROKEN, *files):
        write(name, {**SAMPLE, **own}[name])

    next_lines = [simkit("init").out.partition("Next:\n")[2] for _ in range(2)]

    assert next_lines == ["".join(f"  {line}\n" for line in typed.split("\n"))] * 2
    assert not files or {*contents()} & {*SAMPLE, TOP} == {*files} - {BOUND}
    commands = typed.split("\n")
    if passed:
        workflow = yaml.safe_load(Path(".github/workflows/simkit.yml").read_text(encoding="utf-8"))
        install, *checks = [s["run"] for s in workflow["jobs"]["simkit"]["steps"] if "run" in s]
        assert install == f"python -m pip install agent-simkit=={version('agent-simkit')}"
        assert checks[-1] == commands[-1]
        commands += checks
    for line in commands:
        done = run(line)
        assert done.code == 0, done
        # No feature runs twice, and no test that is not simkit's.
        assert "pytest" not in line or f" {passed} passed in" in done.out


def test_without_requirements_ci_installs_what_the_modules_import(tmp_path: Path) -> None:
    write(str(tmp_path / "own.py"), "import json\nimport yaml\n")
    write(str(tmp_path / "app.py"), "import own\nfrom langgraph.graph import StateGraph\n")

    (line,) = look_at(tmp_path).install

    pins = line.removeprefix("python -m pip install ").split()
    assert {f"{name}=={version(name)}" for name in ("langgraph", "openai", "PyYAML")} < {*pins}
    assert not {pin.partition("==")[0] for pin in pins} & {"own", "json", "langgraph-sdk"}


def test_a_schema_for_editors_is_satisfied_by_the_sample(simkit: Call) -> None:
    simkit("init")
    simkit("schema", "-o", "schema.json")

    validator = jsonschema.Draft202012Validator(json.loads(Path("schema.json").read_bytes()))
    for file in (SCENARIO, PIPELINE):
        validator.validate(yaml.safe_load(Path(file).read_text(encoding="utf-8")))


# What is there already


def test_a_file_that_appears_meanwhile_is_left(
    simkit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def late(source: Path, target: Path) -> None:
        if target.name == "refund.feature":
            write(str(target), "mine\n")
        link(source, target)

    monkeypatch.setattr("os.link", late)

    done = simkit("init")

    # It has none of simkit's steps, so that it is not bound.
    binder = "features/test_features.py"
    text = expected_output("written").replace("refund.feature: written", f"refund.feature: {LEFT}")
    text = text.replace(f"{binder}: written\n", "") + NEXT.replace(" features\n", "\n")
    assert done == Done(0, text, "")
    assert contents()["features/refund.feature"] == b"mine\n"
    assert sorted(contents()) == sorted({*FILES} - {binder})


# What cannot be written

NO_FOLDER = """\
this is not a folder, and nothing is overwritten
  Name another folder, or move it away.
"""


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["notes.txt"], f"notes.txt: {NO_FOLDER}"),
        (["notes.txt/inside"], "notes.txt/inside: the folder cannot be made: Not a directory\n"),
    ],
)
def test_a_wrong_call_writes_nothing(simkit: Call, arguments: list[str], error: str) -> None:
    write("notes.txt", "mine\n")

    assert simkit("init", *arguments) == Done(2, "", error)
    assert os.listdir() == ["notes.txt"]


def test_what_is_written_before_an_error_is_said(simkit: Call) -> None:
    write("features", "mine\n")

    assert simkit("init") == Done(
        2, expected_output("written", FILES[:2]), f"features: {NO_FOLDER}"
    )
    assert sorted(contents()) == sorted([*FILES[:2], "features"])


def test_a_folder_that_may_not_be_written_to_is_one_error_and_nothing_half_written(
    simkit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied", str(source))

    monkeypatch.setattr("os.link", refuse)

    assert simkit("init") == Done(
        2, NO_APP, "scenarios/support.pipeline.yaml: it cannot be written: Permission denied\n"
    )
    assert contents() == {}


@pytest.mark.parametrize(
    ("origin", "line"),
    [
        (None, "python -m pip install agent-simkit==0"),
        (
            {"url": "https://me:key@git.example/s", "vcs_info": {"vcs": "git", "commit_id": "a1"}},
            "python -m pip install 'agent-simkit @ git+https://git.example/s@a1'",
        ),
        (
            {"url": "https://files.example/simkit.whl", "archive_info": {}},
            "python -m pip install 'agent-simkit @ https://files.example/simkit.whl'",
        ),
        ({"url": "WHEEL", "archive_info": {}}, "python -m pip install ./wheels/simkit.whl"),
        ({"url": "OTHER", "archive_info": {}}, "python -m pip install ./vendor/simkit.whl"),
        ({"url": "file:///elsewhere", "dir_info": {}}, "python -m pip install agent-simkit==0"),
    ],
    ids=["release", "commit", "address", "wheel in the repository", "wheel elsewhere", "folder"],
)
def test_ci_installs_the_simkit_that_is_installed_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any] | None, line: str
) -> None:
    info = tmp_path / "site" / "agent_simkit-0.dist-info"
    write(f"{info}/METADATA", "Metadata-Version: 2.1\nName: agent-simkit\nVersion: 0\n")
    project = tmp_path / "project"
    inside, outside = project / "wheels/simkit.whl", tmp_path / "downloads/simkit.whl"
    for wheel in (inside, outside):
        write(str(wheel), "PK")
    write(f"{project}/{SCENARIO}", SAMPLE[SCENARIO])
    if origin is not None:
        text = json.dumps(origin).replace("WHEEL", inside.as_uri())
        write(f"{info}/direct_url.json", text.replace("OTHER", outside.as_uri()))
    monkeypatch.syspath_prepend(tmp_path / "site")

    workflow = workflow_text(look_at(project), [])

    steps = yaml.safe_load(workflow)["jobs"]["simkit"]["steps"]
    assert [
        step["run"] for step in steps if "agent-simkit" in str(step) or ".whl" in str(step)
    ] == [line]
    url = origin["url"] if origin is not None else ""
    assert ("was installed from a folder of this machine" in workflow) == url.startswith("file:")
    copies = [name for name in files_around(look_at(project)) if name.startswith("vendor")]
    assert copies == (["vendor/simkit.whl"] if url == "OTHER" else [])
