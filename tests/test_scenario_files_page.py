"""docs/reference/files/: its pages are the schema, and links into them lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.golden import assert_file_is
from tests.refusals import refusal_of
from tests.scenario_files_page import HEADINGS, NOT_YET, PAGES, anchor, kinds, page

DOCS = Path(__file__).resolve().parent.parent / "docs"
INDEX = DOCS / "reference" / "scenario-files.md"
FILES = DOCS / "reference" / "files"
WISHES = "| I want to … | use |\n|---|---|\n"
KEY = re.compile(r"\[`(\w+)`\]\(files/([\w/.#-]+)\)")


def keys_of_lists() -> set[tuple[str, str]]:
    """Each key of the reference with the place of its list."""
    result = set()
    for name in PAGES:
        for part in page(name).split("## ")[1:]:
            heading, _, lines = part.partition("\n")
            place = f"{name}.md#{anchor(heading)}"
            result |= {(key, place) for key in re.findall(r"^- `(.+?)` \(", lines, re.M)}
    return result


@pytest.mark.golden
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_schema_says(name: str) -> None:
    assert_file_is(FILES / f"{name}.md", page(name))


def test_every_kind_of_thing_has_a_list() -> None:
    assert set(HEADINGS) == set(kinds())
    assert {file.stem for file in FILES.glob("*.md")} == set(PAGES)


def test_every_key_that_the_index_names_stands_in_the_list_it_links_to() -> None:
    named = set(KEY.findall(INDEX.read_text(encoding="utf-8")))

    assert len(named) > 10
    assert named - keys_of_lists() == set()


@pytest.mark.parametrize("word", ["contains", "matches", "mock", "stub", "assert", "fixture"])
def test_the_words_of_other_tools_lead_to_keys(word: str) -> None:
    assert re.search(rf"\b{word}\b", INDEX.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "page", ["how-to/bdd.md", "how-to/pytest.md", "reference/scenario-files.md"]
)
def test_the_page_opens_with_what_one_may_want(page: str) -> None:
    title, _, rest = (DOCS / page).read_text(encoding="utf-8").partition("\n\n")
    sentence, _, opening = rest.partition("\n\n")
    rows = opening.partition("\n\n")[0].removeprefix(WISHES).splitlines()

    assert re.fullmatch("# .+", title)
    assert sentence.startswith("After this page you ")
    assert opening.startswith(WISHES)
    assert 8 <= len(rows) <= 14


PIPELINE = """
version: 1
pipeline: desk
agents: {clerk: {instructions: Help.}}
flow: {handoffs: {start: clerk}}
---
version: 1
scenario: the clerk answers
pipeline: desk
turns:
  - user: Hello
    replies: {clerk: Hi}
"""
HELLO = "user: Hello"
CHANGES = {
    "Scenario": ("scenario: the clerk answers", "scenario: the clerk answers\n{}: [one]"),
    "UserMessage": (HELLO, "user: {{{}: [one]}}"),
    "Use": ("turns:", "use: [shared.yaml]\nturns:"),
}


@pytest.mark.parametrize(("kind", "key"), sorted(NOT_YET))
def test_what_the_page_says_is_not_in_this_version_is_refused(
    kind: str, key: str, cwd: Path
) -> None:
    Path("shared.yaml").write_text("agents: [one]\n", encoding="utf-8")
    old, new = CHANGES[kind]

    refusal = refusal_of(PIPELINE.replace(old, new.format(key)))

    assert f"`{key}` is not supported by this version of simkit" in refusal


def test_a_text_alone_is_the_reason_of_a_known_failure(cwd: Path) -> None:

    assert refusal_of(PIPELINE.replace("turns:", "xfail: the clerk is slow\nturns:")) == ""
    assert refusal_of(PIPELINE.replace("turns:", "xfail: [the clerk is slow]\nturns:")) != ""
