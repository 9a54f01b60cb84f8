"""Plain values: what is typed, what is text, and which keys can be."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from simkit.language.yaml import SourceFloat, SourceInt, text_of
from simkit.language.yaml.parsing import packed, unpacked
from tests.language.yaml.reading import QUOTE, TAG, read, refusal


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


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "turns:\n  - a: 1\n    b: 2\n    a: 3",
            "4:5: the key `a` is here twice; the first is on line 2: join them\n  at turns[0].a",
        ),
        (
            "1: a\n'1': b",
            "2:1: the key `1` is here twice; the first is on line 1: join them\n  at 1",
        ),
        (
            "x-a: &a {b: 1}\nc:\n  <<: *a",
            "3:3: the merge key `<<` is not supported\n  at c.<<\n"
            "  write the keys out, or put an anchor under an `x-` key and alias it whole",
        ),
        ("a:\n  ? \n  : 1", "2:4: a key is missing before the `:`\n  at a.\"\""),
        (
            "a:\n  ? [b]\n  : c",
            f"2:5: a key must be a text, not a list or a mapping\n  at a\n  {QUOTE}",
        ),
        (
            "? {b: c}\n: d",
            f"1:3: a key must be a text, not a list or a mapping\n  {QUOTE}",
        ),
        (
            "a: [!!python/object/apply:os.system [ls]]",
            f"1:5: the tag `!!python/object/apply:os.system` is not supported\n  at a[0]\n  {TAG}",
        ),
        ("a: !important x", f"1:4: the tag `!important` is not supported\n  at a\n  {TAG}"),
        ("!!str a: b", f"1:1: the tag `!!str` is not supported\n  at a\n  {TAG}"),
        (
            "a: 9223372036854775808",
            "1:4: the integer 9223372036854775808 does not fit into 64 bits\n  at a\n"
            "  quote it to keep it as text",
        ),
        (
            f"a: -{'9' * 5000}",
            f"1:4: the integer -{'9' * 39}… does not fit into 64 bits\n  at a\n"
            "  quote it to keep it as text",
        ),
        (
            "a: [-1e999]",
            "1:5: the number -1e999 is too large\n  at a[0]\n  quote it to keep it as text",
        ),
        (
            "name: &name 1\na: *nam",
            "2:4: the alias `*nam` names no anchor above it\n"
            "  did you mean `name`?   known: name\n  if it is a text, quote it",
        ),
        (
            "a: &a\n  b: [*a]",
            "1:4: an alias stands inside the very value that it names\n  at a",
        ),
    ],
)  # fmt: skip
def test_what_simkit_does_not_read_is_refused_at_its_path(text: str, error: str) -> None:
    assert refusal(text) == f"f.yaml:{error}"


def test_numbers_of_many_zeros_are_small() -> None:
    assert read(f"a: +{'0' * 5000}7") == {"a": 7}
