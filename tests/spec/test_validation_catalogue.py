from __future__ import annotations

import re
from pathlib import Path

import pytest

from simkit.spec.lint_catalogue import CODES, FINDINGS, PREFIX, REFUSALS
from tests.golden import assert_tables_are

ROOT = Path(__file__).parents[2]


@pytest.mark.golden
def test_the_page_on_validate_says_what_the_catalogue_says() -> None:
    rows = [
        f"- {code} {entry.name} ({entry.severity}): {entry.rule}. → {entry.fix}"
        for code, entry in CODES.items()
    ]

    assert_tables_are(
        ROOT / "docs" / "reference" / "validate.md", re.compile(r"- VAL-\d\d "), [rows]
    )


def test_names_are_one_each_and_refusals_are_errors() -> None:
    names = [entry.name for entry in CODES.values()]

    assert len(set(names)) == len(names)
    assert {entry.severity for entry in REFUSALS.values()} == {"E"}
    assert all(code.startswith(PREFIX) for code in CODES)


def test_each_finding_is_yielded_by_a_check_and_shown_by_a_test() -> None:
    checks = _texts(ROOT / "simkit" / "spec" / "validation", "*.py")
    tests = _texts(ROOT / "tests" / "spec" / "validation", "*.*")

    assert [code for code in FINDINGS if f'Flaw("{code}"' not in checks] == []
    assert [code for code in CODES if f"{code}" not in tests] == []


def _texts(folder: Path, pattern: str) -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in sorted(folder.glob(pattern)))
