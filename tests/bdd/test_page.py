"""docs/how-to/bdd.md: its feature runs, and its tables are those of the phrases."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.bdd.vocabulary import tables
from tests.golden import assert_file_is
from tests.plugins import OTHERS_OFF
from tests.test_docs import blocks, write_files

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "how-to" / "bdd.md"
REFERENCE = "# Reference\n"


def reference() -> str:
    """The tables of all phrases, as the page holds them."""
    parts = [f"## {title}\n\n" + "\n".join(lines) + "\n" for title, lines in tables()]
    return f"{REFERENCE}\n" + "\n".join(parts)


@pytest.mark.golden
def test_the_reference_is_the_table_of_phrases() -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, _, _ = page.partition(REFERENCE)
    expected = before + reference()

    assert_file_is(PAGE, expected)


@pytest.fixture
def desk(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's files in a folder of their own."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_ADDOPTS", OTHERS_OFF)
    names = write_files(PAGE, pytester.path)
    files = ["desk.pipeline.yaml", "desk.feature", "explored.feature", "test_desk.py"]
    assert names == files
    return pytester.path


@pytest.mark.slow
def test_the_feature_of_the_page_holds(desk: Path, pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("-W", "error", "-p", "no:cacheprovider")

    result.assert_outcomes(passed=3)


@pytest.mark.slow
def test_the_finding_of_the_page_is_what_is_printed(desk: Path, pytester: pytest.Pytester) -> None:
    (output,) = [text for kind, text in blocks(PAGE) if kind == "text"]
    feature = desk / "desk.feature"
    text = feature.read_text(encoding="utf-8")
    changed = text.replace("| Yes, two copies.  |", "| Yes, three copies. |")
    feature.write_text(changed, encoding="utf-8")

    result = pytester.runpytest_subprocess("-W", "error", "-p", "no:cacheprovider")

    assert changed != text
    result.stdout.fnmatch_lines([line.replace("[", "[[]") for line in output.splitlines()])
