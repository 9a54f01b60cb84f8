"""Rows of a table are named by their values."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.cli.selection import select
from simkit.spec.scenario.items import items_in

SCENARIO = """version: 1
scenario: an order%s
pipeline: p
examples:
%s
turns: [{user: Hi}]
"""


def names(folder: Path, rows: str, words: str = "") -> list[str]:
    file = folder / "a.scenario.yaml"
    file.write_text(SCENARIO % (words, rows), encoding="utf-8")
    return [item.name for item in items_in(str(file))]


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        ("  - {who: Ada, n: 2}\n  - {who: Bob, n: 2}", ["Ada, 2", "Bob, 2"]),
        ("  - {who: Ada}\n  - {who: Ada}\n  - {who: Bob}", ["Ada #1", "Ada #2", "Bob"]),
        ('  - {a: [1, 2], b: null}\n  - {a: {k: true}, b: "x\\n y"}', [
            "[1, 2], null", '{"k": true}, x y',
        ]),
    ],
)  # fmt: skip
def test_a_row_is_named_by_its_values(tmp_path: Path, rows: str, labels: list[str]) -> None:
    assert names(tmp_path, rows) == [f"an order [{label}]" for label in labels]


def test_long_values_are_cut_and_stay_apart(tmp_path: Path) -> None:
    first, second = names(tmp_path, f"  - {{a: {'x' * 80}1}}\n  - {{a: {'x' * 80}2}}")

    assert first.endswith("… #1]")
    assert second.endswith("… #2]")
    assert len(first) < 80


def test_words_of_a_name_go_before_values(tmp_path: Path) -> None:
    assert names(tmp_path, "  - {who: Ada, n: 2}", " of ${column.who}") == ["an order of Ada"]


@pytest.mark.parametrize("name", ["an order [Bob, 3]", "an order [2]"])
def test_a_row_is_chosen_by_its_values_or_its_number(tmp_path: Path, name: str) -> None:
    names(tmp_path, "  - {who: Ada, n: 2}\n  - {who: Bob, n: 3}")

    (item,) = select([f"{tmp_path}/a.scenario.yaml::{name}"]).entries

    assert item.name == "an order [Bob, 3]"


def test_a_table_is_chosen_by_the_name_of_all_its_rows(tmp_path: Path) -> None:
    names(tmp_path, "  - {who: Ada, n: 2}\n  - {who: Bob, n: 3}")

    assert len(select([f"{tmp_path}/a.scenario.yaml::an order"]).entries) == 2
