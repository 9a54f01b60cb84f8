"""Each table of the page on performance is one command, and writing one leaves the others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.__main__ import TABLES
from benchmarks.page import Table, places, with_tables

PAGE = (Path(__file__).parent.parent / "docs" / "explanation" / "performance.md").read_text(
    encoding="utf-8"
)


def test_each_table_of_the_page_is_one_command() -> None:
    commands = re.findall(r"^`python -m benchmarks (\w+)`$", PAGE, re.MULTILINE)

    assert commands == places(PAGE)
    assert set(commands) <= set(TABLES)


def test_the_page_is_short() -> None:
    assert len(PAGE.split()) <= 1_200


def test_only_what_was_measured_is_written_anew() -> None:
    first, second = places(PAGE)[:2]

    once = with_tables(PAGE, {first: [["anchovy", 1]]}, {first: "measured on Monday"})
    tables: dict[str, Table] = {first: [["beetroot", 2]], second: [["", "x"], ["chicory", 3]]}
    twice = with_tables(once, tables, dict.fromkeys(tables, "measured on Friday"))

    words = ("anchovy", "on Monday", "beetroot", "chicory", "on Friday")
    assert [twice.count(word) for word in words] == [0, 0, 1, 1, 2]
    assert places(twice) == places(PAGE)
    rest = PAGE.index("<!-- end -->", PAGE.index(f"<!-- measured: {second} -->"))
    assert twice.endswith(PAGE[rest:])


def test_a_table_without_a_place_is_an_error() -> None:
    with pytest.raises(LookupError, match="measured: rooms"):
        with_tables(PAGE, {"rooms": [["a"]]}, {"rooms": ""})
