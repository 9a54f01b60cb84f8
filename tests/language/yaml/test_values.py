"""Plain values: what is typed, what is text, and which keys can be."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from simkit.language.yaml import SourceFloat, SourceInt, text_of
from simkit.language.yaml.parsing import packed, unpacked
from tests.golden import assert_says, cases
from tests.language.yaml.reading import read, refusal


@pytest.mark.parametrize(
    ("plain", "value"),
    [
        ("true", True), ("false", False), ("null", None), ("~", None), ("", None),
        ("7", 7), ("-7", -7), ("1.5", 1.5), ("-.5", -0.5), ("1e3", 1000.0), ("007", 7),
        ("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63)),
    ],
)  # fmt: skip
def test_plain_words_and_numbers_of_yaml_1_2_are_typed(plain: str, value: Any) -> None:
    data = read(f"a: {plain}\nb: [{plain or '~'}]")

    assert data == {"a": value, "b": [value]}
    assert isinstance(data["a"], type(value))


@pytest.mark.parametrize(
    "plain",
    ["yes", "no", "on", "off", "Yes", "True", "NULL", "9:30", "2026-01-05", "0x1F", "0o7", ".inf",
     "-.INF", ".nan", "1_000", "1e", "+", ".", "1.2.3", "٣", "<<", "=", "x}", "What now?"],
)  # fmt: skip
def test_everything_else_that_is_plain_is_text(plain: str) -> None:
    assert read(f"a: {plain}") == {"a": plain}


def test_quoted_and_block_scalars_are_always_text() -> None:
    text = "- '1'\n- \"true\"\n- ''\n- '~'\n- |\n  2\n- >-\n  null\n"

    assert read(text) == ["1", "true", "", "~", "2\n", "null"]


def test_keys_are_their_source_text() -> None:
    text = "1: a\ntrue: b\n1.50: c\n~: d\n'<<': e\n'': f\n2026-01-05: g"

    assert read(text) == {
        "1": "a", "true": "b", "1.50": "c", "~": "d", "<<": "e", "": "f", "2026-01-05": "g"
    }  # fmt: skip


@pytest.mark.parametrize("text", ["7", "1.5", "true", "1.50", "007", "1e3", "+5", "-0", ".5", "5."])
def test_text_of_a_scalar_is_what_the_file_says(text: str) -> None:
    assert text_of(read(f"a: {text}")["a"]) == text


@pytest.mark.parametrize("value", [None, {}, []])
def test_null_and_collections_have_no_text(value: Any) -> None:
    assert text_of(value) is None


def test_only_numbers_that_python_writes_differently_keep_their_source() -> None:
    kinds = [type(value) for value in read("[7, 007, +5, 1.5, 1.50, 1e3]")]

    assert kinds == [int, SourceInt, SourceInt, float, SourceFloat, SourceFloat]


@pytest.mark.parametrize("number", [SourceInt(7, "007"), SourceFloat(1.5, "1.50")])
def test_source_numbers_are_numbers_and_survive_copies(number: Any) -> None:
    copies = [pickle.loads(pickle.dumps(number)), copy.copy(number), copy.deepcopy(number)]
    copies += unpacked(packed({"a": [number]}))["a"]

    assert [(type(item), item, item.source) for item in copies] == [
        (type(number), number, number.source)
    ] * 4
    assert (number + 1, hash(number)) == (number.real + 1, hash(number.real))


@cases(__file__, "refused")
def test_what_simkit_does_not_read_is_refused_at_its_path(text: str, says: str) -> None:
    assert_says(refusal(text), says)


def test_a_long_integer_is_shortened_where_it_is_refused() -> None:
    text = f"f.yaml:1:4: the integer -{'9' * 39}… does not fit into 64 bits"
    assert refusal(f"a: -{'9' * 5000}").startswith(text)


def test_numbers_of_many_zeros_are_small() -> None:
    assert read(f"a: +{'0' * 5000}7") == {"a": 7}
