"""CONTRIBUTING, the workflow and the release checklist say what is so."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CODE = re.compile(r"``(.+?)``|`([^`\n]+)`")
FILE = re.compile(r"[\w./-]+(?:\.(?:py|md|ya?ml|toml)|/)|\.ci/run")
ROOMS = re.compile(r"^\| `simkit/([\w.]+)/?` \| .+ \|$", re.MULTILINE)
STEP = re.compile(r"^\| (`[^|]+) \| [^|]+ \| (`.+`) \|$", re.MULTILINE)
PAGES = [
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/explanation/releasing.md",
    "docs/reference/versioning.md",
]


def spans(text: str) -> list[str]:
    """What is written as code."""
    return [(two or item).strip() for two, item in CODE.findall(text)]


def project() -> dict[str, Any]:
    """What pyproject.toml says."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def in_workflow() -> dict[str, Any]:
    """The jobs of the workflow."""
    file = ROOT / ".github" / "workflows" / "ci.yml"
    jobs: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))["jobs"]
    return jobs


def sessions() -> set[str]:
    """The sessions that nox has."""
    text = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    return set(re.findall(r"^def (\w+)\(session:", text, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES)
def test_every_file_and_link_that_a_page_names_is_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    folder = (ROOT / page).parent
    links = [link for link in re.findall(r"\]\(([^)#:]+)[^):]*\)", text) if link]
    files = [
        word
        for span in spans(text)
        for word in span.split()
        if FILE.fullmatch(word) and word not in ("build/site/", "dist/", ".simkit/")
    ]

    assert [link for link in links if not (folder / link).exists()] == []
    if page == "CONTRIBUTING.md":
        assert len(files) > 40
        assert [name for name in files if not (ROOT / name).exists()] == []


STEPS = [
    pytest.param(file, text, id=f"{files}-{number}")
    for number, (files, output) in enumerate(STEP.findall(CONTRIBUTING))
    for file in [spans(files)[0]]
    for text in spans(output)
]


@pytest.mark.parametrize(("file", "expected"), STEPS)
def test_a_worked_example_is_what_the_code_does(file: str, expected: str) -> None:
    assert expected in (ROOT / file).read_text(encoding="utf-8")


def test_there_is_a_worked_example_for_each_kind_of_thing() -> None:
    parts = CONTRIBUTING.split("\n### ")[1:]

    examples = {head: rest for head, _, rest in (part.partition("\n") for part in parts)}
    assert list(examples)[1:] == [
        *("Add a claim", "Add a lint", "Add an adapter", "Add an option", "Add a command")
    ]
    assert all(len(STEP.findall(rest)) >= 3 for rest in list(examples.values())[1:])


def test_the_table_of_packages_is_the_order_of_imports() -> None:
    layers = next(
        contract["layers"]
        for contract in project()["tool"]["importlinter"]["contracts"]
        if contract["id"] == "layers"
    )
    # One layer may hold several, `|`; what is in parentheses is planned.
    floors = {
        name.strip(): floor
        for floor, layer in enumerate(layers)
        for name in layer.split("|")
        if not name.strip().startswith("(") and name != "__main__"
    }
    table, _, _ = CONTRIBUTING.partition("### Which tests hold a module")
    named = [name.removesuffix(".py") for name in ROOMS.findall(table)]

    assert sorted(named) == sorted(floors)
    assert [floors[name] for name in named] == sorted(floors[name] for name in named)


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/explanation/releasing.md"])
def test_every_nox_session_that_a_page_names_is_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")

    named = set(re.findall(r"nox -s (\w+)", text))

    assert named
    assert named <= sessions()


def test_the_workflow_runs_what_runs_here_and_the_quick_suite_on_every_python() -> None:
    jobs = in_workflow()
    commands = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
    pythons = jobs["quick"]["strategy"]["matrix"]["python"]
    classifiers = project()["project"]["classifiers"]

    assert ".ci/run" in commands
    assert "nox -s quick-${{ matrix.python }}" in commands
    assert "quick" in sessions()
    assert [f"Programming Language :: Python :: {version}" for version in pythons] == [
        classifier for classifier in classifiers if re.search(r":: 3\.\d+$", classifier)
    ]


def test_hooks_use_the_environment_and_what_it_installs() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    (repository,) = yaml.safe_load(text)["repos"]
    installed = {
        re.split(r"[\[>]", item)[0] for item in project()["project"]["optional-dependencies"]["dev"]
    }

    assert repository["repo"] == "local"
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}
    assert {hook["entry"].split()[0] for hook in repository["hooks"]} == {"ruff", "mypy"}
    assert {"ruff", "mypy", "pre-commit", "nox", "pytest-cov"} <= installed


def test_one_test_starts_without_other_processes() -> None:
    words = project()["tool"]["pytest"]["ini_options"]["addopts"]

    assert "-n" not in words
    assert "auto" not in words
    assert "no:langsmith_plugin" in words


def test_whoever_runs_many_tests_runs_them_in_several_processes() -> None:
    steps = re.findall(
        r"^step (python -m pytest .*)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE
    )

    assert steps
    assert [step for step in steps if "-n auto" not in step] == []


def test_a_vulnerability_can_be_reported_privately() -> None:
    _, _, how = (ROOT / "SECURITY.md").read_text().partition("## How to report a vulnerability\n")

    assert "privately" in how
    assert re.search(r"\bsecurity@[\w.]+", how)


def test_the_checklist_builds_with_the_version_that_is_written_down() -> None:
    assert set(project()["project"]["urls"]) >= {"Homepage", "Source", "Issues", "Changelog"}
    assert "release" in sessions()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pre-commit") is None, reason="needs pre-commit")
def test_the_hooks_are_valid() -> None:
    done = subprocess.run(
        ["pre-commit", "validate-config"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
