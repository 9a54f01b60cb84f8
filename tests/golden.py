"""Whole texts that tests compare with files: `nox -s golden` writes them anew.

A test that compares one has the marker `golden`, by which that command finds it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from itertools import groupby, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest
import yaml

VARIABLE: Final = "SIMKIT_WRITE_GOLDEN"
_LINES_MAX: Final = 40


def hint(part: str = "", text: str = "") -> str:
    """Return what to do if the text of the test that runs should change, and how it differs."""
    lines = unified_diff(part.splitlines(), text.splitlines(), "file", "test", n=1, lineterm="")
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0].partition("[")[0]
    advice = f"if the text should change, run `nox -s golden -- {test}`, and read `git diff`"
    return "\n".join([advice, *islice(lines, _LINES_MAX)])


def is_writing() -> bool:
    """Whether files are to be written, rather than compared."""
    return os.environ.get(VARIABLE) == "1"


def assert_file_is(file: Path, text: str) -> None:
    """Compare a whole file with a text."""
    if is_writing():
        file.write_text(text, encoding="utf-8")
    part = file.read_text(encoding="utf-8")
    assert part == text, hint(part, text)


def assert_files_are(texts: Mapping[Path, str]) -> None:
    """Compare whole files with texts; report each that differs."""
    different = []
    for file, text in texts.items():
        try:
            assert_file_is(file, text)
        except AssertionError:
            different.append(f"{file.name}: {hint(file.read_text(encoding='utf-8'), text)}")
    assert not different, "\n\n".join(different)


def assert_part_is(file: Path, part: str, text: str) -> None:
    """Compare a part of a file, as it stands there, with a text."""
    if is_writing() and part != text:
        page = file.read_text(encoding="utf-8")
        assert page.count(part) == 1, f"{file.name} holds this {page.count(part)} times:\n{part}"
        file.write_text(page.replace(part, text), encoding="utf-8")
        return
    assert part == text, hint(part, text)


def assert_tables_are(file: Path, row: re.Pattern[str], tables: Sequence[Sequence[str]]) -> None:
    """Compare a page's tables with lines; a table is consecutive lines that match ``row``."""
    lines = file.read_text(encoding="utf-8").splitlines()
    grouped = groupby(lines, lambda line: bool(row.match(line)))
    runs = [(is_row, list(run)) for is_row, run in grouped]
    assert sum(is_row for is_row, _ in runs) == len(tables)
    expected = iter(tables)
    results = [line for is_row, run in runs for line in (next(expected) if is_row else run)]
    assert_file_is(file, "\n".join(results) + "\n")


class CaseText(str):
    """A text that stands in a table of cases, a YAML file, and knows where."""

    file: Path
    path: tuple[str | int, ...]
    lists: Mapping[str, str]

    @classmethod
    def at(
        cls,
        file: Path,
        path: tuple[str | int, ...],
        text: str,
        lists: Mapping[str, str] = MappingProxyType({}),
    ) -> CaseText:
        """Return a text with its place; ``lists`` are its placeholders, and what they mean."""
        result = cls(text)
        for name, meaning in lists.items():
            result = cls(result.replace(name, meaning))
        result.file, result.path = file, path
        result.lists = {name: meaning for name, meaning in lists.items() if name in text}
        return result

    def write(self, text: str) -> None:
        """Put another text in its place; all else in the file stays as it is."""
        for name, meaning in self.lists.items():
            text = text.replace(meaning, name)
        page = self.file.read_text(encoding="utf-8")
        self.file.write_text(_with_text(page, self.path, text), encoding="utf-8")


def cases(test_file: str, section: str) -> pytest.MarkDecorator:
    """Run a test for each case of a section of the YAML file beside it.

    A case's keys are the parameters, and `says` is a whole text.
    """
    file = Path(test_file).with_suffix(".yaml")
    entries = yaml.safe_load(file.read_text(encoding="utf-8"))[section]
    rows = [
        {**entry, "says": CaseText.at(file, (section, number, "says"), entry["says"])}
        for number, entry in enumerate(entries)
    ]
    params = [pytest.param(*row.values(), marks=pytest.mark.golden) for row in rows]
    return pytest.mark.parametrize(",".join(rows[0]), params)


def assert_says(result: str, expected: str) -> None:
    """Compare what is found with what a case says; a text without a place is never written."""
    if is_writing() and isinstance(expected, CaseText) and result != expected:
        expected.write(result)
        return
    assert result == str(expected), hint()


def _with_text(page: str, path: tuple[str | int, ...], text: str) -> str:
    """Return a YAML file with another text at a path, as a block; all else stays as it is."""
    node: Any = yaml.compose(page, Loader=yaml.SafeLoader)
    for step in path:
        node = _inside(node, step)
    start, end = node.start_mark.index, node.end_mark.index
    old = page[start:end]
    header = old.partition("\n")[0] if old.startswith("|") else "|-"
    # A block ends with all line ends after it; a quoted or plain text with none.
    after = old[len(old.rstrip("\n")) :]
    indent = " " * (node.start_mark.column - len(f"{path[-1]}: ") + 2)
    lines = "\n".join(f"{indent}{line}".rstrip() for line in text.splitlines())
    return f"{page[:start]}{header}\n{lines}{after}{page[end:]}"


def _inside(node: Any, step: str | int) -> Any:
    if isinstance(step, int):
        return node.value[step]
    return next(value for key, value in node.value if key.value == step)
