"""Every example in README and docs runs, and prints what the page says it prints."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from simkit.lint_catalogue import LINTS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"^# (\S+\.(?:scenario|pipeline)\.yaml|\S+\.py|\S+\.feature)\n")
SECONDS = re.compile(r"\(\d+\.\d+ s\)")


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(found[1], found[2]) for found in FENCE.finditer(page.read_text(encoding="utf-8"))]


def write_files(page: Path, folder: Path) -> list[str]:
    """Writes the page's named examples; their first line, a comment, is their name."""
    names = []
    for _, text in blocks(page):
        named = FILE_NAME.match(text)
        if named:
            (folder / named[1]).write_text(text, encoding="utf-8")
            names.append(named[1])
    return names


def simkit(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = shlex.split(command)
    assert words[0] == "simkit"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-u", "-m", "simkit", *words[1:]],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
        check=False,
    )  # fmt: skip


CONSOLES = [
    pytest.param(page, text, id=f"{page.name}-{number}")
    for page in PAGES
    for number, (kind, text) in enumerate(blocks(page))
    if kind == "console"
]


@pytest.mark.parametrize(("page", "text"), CONSOLES)
def test_a_console_example_prints_what_the_page_says(page: Path, text: str, tmp_path: Path) -> None:
    write_files(page, tmp_path)

    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, wanted = part.partition("\n")
        done = simkit(command, tmp_path)
        printed = SECONDS.sub("(0.05 s)", done.stdout)
        assert printed.strip() == SECONDS.sub("(0.05 s)", wanted).strip()


YAML = [
    pytest.param(page, text, id=f"{page.name}-{number}")
    for page in PAGES
    for number, (kind, text) in enumerate(blocks(page))
    if kind == "yaml" and FILE_NAME.match(text) and "# misspelt" not in text
]


@pytest.mark.parametrize(("page", "text"), YAML)
def test_a_yaml_example_is_valid(page: Path, text: str, tmp_path: Path) -> None:
    write_files(page, tmp_path)
    named = FILE_NAME.match(text)
    assert named is not None

    done = simkit(f"simkit validate {named[1]}", tmp_path)

    assert done.returncode == 0, done.stdout


def test_the_readme_example_holds_once_the_section_is_added(tmp_path: Path) -> None:
    write_files(ROOT / "README.md", tmp_path)
    file = tmp_path / "refund.scenario.yaml"
    text = file.read_text(encoding="utf-8")
    fixed = text.replace(
        "context: [instructions, history, current_message]",
        "context: [instructions, history, handoff, current_message]",
    )
    file.write_text(fixed, encoding="utf-8")

    done = simkit("simkit replay refund.scenario.yaml", tmp_path)

    assert fixed != text
    assert done.returncode == 0, done.stdout
    assert "warning" not in done.stdout


def test_every_page_that_the_readme_names_is_there() -> None:
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))

    missing = [link for link in links if not (ROOT / link).exists()]

    assert missing == []


def test_the_page_on_lints_says_what_the_catalogue_says() -> None:
    page = (ROOT / "docs" / "lints.md").read_text(encoding="utf-8")

    rows = re.findall(r"^\| ([A-Z]{3}-\d\d) \| (.*) \|$", page, re.MULTILINE)

    assert rows == [
        (name, f"{lint.severity} | {lint.name} | {lint.rule} | {lint.fix}")
        for name, lint in LINTS.items()
    ]


@pytest.mark.parametrize("file", ["kitchen.scenario.yaml", "travel.scenario.yaml"])
def test_the_examples_of_the_page_on_scenarios_hold(tmp_path: Path, file: str) -> None:
    write_files(ROOT / "docs" / "scenarios.md", tmp_path)

    done = simkit(f"simkit replay {file}", tmp_path)

    assert done.returncode == 0, done.stdout
