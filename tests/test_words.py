"""The documentation keeps to its budget of words: `wc -w`, what is generated included."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
README = ROOT / "README.md"
DECISIONS = sorted((DOCS / "decisions").glob("*.md"))
PAGES = sorted({*DOCS.rglob("*.md")} - {*DECISIONS})
MOST_DOCS = 90_000
MOST_DECISIONS = 20_000
MOST_README, MOST_README_LINKS = 900, 12
MOST_HOW_TO = 1_500
MOST_PAGE = 2_500
GENERATED = {"lints.md": 3_000}
"""Pages with a line for each entry of a catalogue, which people search on one page."""


def words(*files: Path) -> int:
    """Count as `wc -w` does."""
    return sum(len(file.read_text(encoding="utf-8").split()) for file in files)


def test_all_pages_together_keep_to_the_budget() -> None:
    largest = sorted(PAGES, key=words, reverse=True)[:10]

    assert words(README, *PAGES) <= MOST_DOCS, {page.name: words(page) for page in largest}


def test_decisions_keep_to_the_budget() -> None:
    assert words(*DECISIONS) <= MOST_DECISIONS


def test_the_readme_is_one_screen_and_a_few_links() -> None:
    links = re.findall(r"(?<!!)\[[^\]]+\]\([^)]+\)", README.read_text(encoding="utf-8"))

    assert words(README) <= MOST_README
    assert len(links) <= MOST_README_LINKS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_is_short(page: Path) -> None:
    most = MOST_HOW_TO if "how-to" in page.parts else GENERATED.get(page.name, MOST_PAGE)

    assert words(page) <= most
