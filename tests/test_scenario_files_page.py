"""docs/reference/scenario-files.md: its tables are the schema, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.golden import assert_file_is
from tests.refusals import refusal_of
from tests.scenario_files_page import HEADINGS, NOT_YET, anchor, kinds, reference

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "reference" / "scenario-files.md"
REFERENCE = "# Reference\n"
WISHES = "| I want to … | use |\n|---|---|\n"
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
KEY = re.compile(r"\[`(\w+)`\]\(#([\w-]+)\)")


def headings(page: Path) -> set[str]:
    """What links into a page may name."""
    matches = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {anchor(heading) for heading in matches}


def keys_of_tables() -> set[tuple[str, str]]:
    """Each key of the reference with the table that it stands in."""
    result = set()
    for part in reference().split("## ")[1:]:
        heading, _, rows = part.partition("\n")
        result |= {(key, anchor(heading)) for key in re.findall(r"^\| `(.+?)` \|", rows, re.M)}
    return result


@pytest.mark.golden
def test_the_reference_is_what_the_schema_says() -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, _, _ = page.partition(REFERENCE)
    text = f"{before}{REFERENCE}\n{reference()}"

    assert_file_is(PAGE, text)


def test_every_kind_of_thing_has_a_table() -> None:
    assert set(HEADINGS) == set(kinds())


def test_every_link_leads_to_a_heading() -> None:
    links = LINK.findall(PAGE.read_text(encoding="utf-8"))

    broken = [
        (file, place)
        for file, place in links
        if not (target := PAGE.parent / file if file else PAGE).exists()
        or (place and place not in headings(target))
    ]

    assert links
    assert broken == []


def test_every_key_that_is_named_before_the_tables_stands_in_the_table_it_links_to() -> None:
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(REFERENCE)
    named = set(KEY.findall(before))

    assert len(named) > 10
    assert named - keys_of_tables() == set()


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
    kind: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shared.yaml").write_text("agents: [one]\n", encoding="utf-8")
    old, new = CHANGES[kind]

    refusal = refusal_of(PIPELINE.replace(old, new.format(key)))

    assert f"`{key}` is not supported by this version of simkit" in refusal


def test_a_text_alone_is_the_reason_of_a_known_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert refusal_of(PIPELINE.replace("turns:", "xfail: the clerk is slow\nturns:")) == ""
    assert refusal_of(PIPELINE.replace("turns:", "xfail: [the clerk is slow]\nturns:")) != ""
