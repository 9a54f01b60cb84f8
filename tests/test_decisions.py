"""Each decision says whether it holds, and their index says it of all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.golden import assert_file_is

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "decisions"
FILES = {file.name[:3]: file for file in sorted(FOLDER.glob("[0-9][0-9][0-9]-*.md"))}
HEAD = re.compile(r"# (?:\d{3}: )?(?P<title>.+)\n\nStatus: (?P<status>.+)\n\n")
STATUS = re.compile(r"accepted(?:; .+)?|superseded by .+|withdrawn: .+")
REPLACED_BY = re.compile(r"superseded by \[(\d{3})\]\((.+?)\)")
INDEX = """\
# Decisions

What could have gone another way, and why it went this one. A decision without a status here is
accepted. `nox -s golden -- tests/test_decisions.py` writes this page.

"""


@pytest.mark.parametrize("number", FILES)
def test_a_decision_says_whether_it_holds(number: str) -> None:
    head = HEAD.match(FILES[number].read_text(encoding="utf-8"))

    assert head, (
        "the third line must be `Status: accepted`, `superseded by [NNN](FILE)` or `withdrawn: WHY`"
    )
    status = head["status"]
    assert STATUS.fullmatch(status)
    replaced = REPLACED_BY.findall(status)
    assert len(replaced) == status.count("superseded")
    assert [FILES[other].name for other, _ in replaced] == [file for _, file in replaced]


def test_a_number_is_one_decision() -> None:
    assert len(FILES) == len(list(FOLDER.glob("*.md"))) - 1


@pytest.mark.golden
def test_the_index_lists_all() -> None:
    heads = {file.name: HEAD.match(file.read_text(encoding="utf-8")) for file in FILES.values()}
    rows = [
        f"- {name[:3]} [{head['title']}]({name})"
        + ("\n" if head["status"] == "accepted" else f": {head['status']}\n")
        for name, head in heads.items()
        if head
    ]

    assert_file_is(FOLDER / "README.md", INDEX + "".join(rows))
