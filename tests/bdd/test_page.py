"""docs/how-to/bdd.md: its feature runs. docs/reference/phrases.md: it lists every phrase."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from simkit.bdd.conditions import CLAIM_KINDS
from simkit.bdd.vocabulary import sections
from tests.golden import assert_file_is
from tests.plugins import OTHERS_OFF
from tests.test_docs import blocks, write_files

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "how-to" / "bdd.md"
PHRASES = ROOT / "docs" / "reference" / "phrases.md"


def lists() -> Iterator[str]:
    """Every phrase and every hole, as the page lists them."""
    for title, rows in sections():
        yield f"## {title}\n"
        yield from (f"- `{text}`" for text, _ in rows)
        yield ""
    yield "## Holes\n"
    for name, kind in sorted(CLAIM_KINDS.items()):
        yield f"- `{{{name}}}`: {kind.says} (`{kind.example}`)"


@pytest.mark.golden
def test_the_reference_lists_every_phrase() -> None:
    before, _, _ = PHRASES.read_text(encoding="utf-8").partition("\n## ")

    assert_file_is(PHRASES, before + "\n" + "\n".join(lists()) + "\n")


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
