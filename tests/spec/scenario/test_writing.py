"""Values written as YAML: read back unchanged, and pleasant to read."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from simkit.language.yaml import load_text
from simkit.spec.scenario.writing import WIDTH, comment, entry, flow, scalar, text_block

TEXTS = [
    "plain", "", " lead", "12", "1.50", "true", "null", "~", "yes", "2026-01-01", "a: b", "a #b",
    "- x", "x:", "it's", 'say "hi"', "one\ntwo", "one\ntwo\n", "one\n\n\n", "\n", " a\nb", "a\tb",
    "\u2028", "é☃", "w " * 80 + "end", "w" * 200, "${x}", "[a", "{a", "*a", "&a", "!a", "%a", "@a",
    "`a", "?", "? a", "|", ">", "a,b", "a]", "w " * 80 + "end\n", ("w " * 60 + "x\n") * 2,
]  # fmt: skip

ANY_TEXT = st.text(
    st.one_of(
        st.sampled_from("ab 01.:-#'\"{}[],&*!|>%@`?~$\n\t_eEyY"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=12,
)
KEYS = ANY_TEXT.filter(bool) | st.sampled_from(["k" * 999, "k " * 511 + "k", "[" * 5_000])
BREAKS = ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"]
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), ANY_TEXT,
    st.floats(allow_nan=False, allow_infinity=False),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.parametrize("text", TEXTS)
def test_every_text_reads_back_wherever_it_stands(text: str) -> None:
    value = {"a": text, "b": [text, [text], {"c": text, text or "d": [text]}]}

    lines = entry("k", value, 0)

    (document,) = load_text("\n".join(lines) + "\nlast: 1\n", "a.yaml")
    assert document.data == {"k": value, "last": 1}
    assert load_text(f"k: {flow(value)}\n", "a.yaml")[0].data == {"k": value}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("style", ["", "'", '"'])
def test_every_text_reads_back_in_every_quote(text: str, style: str) -> None:
    line = scalar(text, style)

    (document,) = load_text(f"k: {line}\n", "a.yaml")
    assert document.data == {"k": text}


def test_a_quote_is_kept_where_it_can_hold_the_text() -> None:
    assert [scalar("it's", "'"), scalar("a", '"'), scalar("a\tb", "'")] == [
        "'it''s'", '"a"', '"a\\tb"',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        (["a", "b"], ["k: [a, b]"]),
        ([["a", "b"], "c"], ["k: [[a, b], c]"]),
        ({"a": 1, "b": [2]}, ["k: {a: 1, b: [2]}"]),
        ([{"user": "Why?"}, {"assistant": "So."}], ["k:", "  - user: Why?", "  - assistant: So."]),
        ([{"from": "a", "to": "b"}], ["k:", "  - {from: a, to: b}"]),
        ({"a": {"b": {"c": 1}}}, ["k:", "  a: {b: {c: 1}}"]),
        ({"a": "x\ny\n"}, ["k:", "  a: |", "    x", "    y"]),
        ([], ["k: []"]),
        ({}, ["k: {}"]),
        (1e20, ["k: 1.0e+20"]),
        (None, ["k: null"]),
        (True, ["k: true"]),
    ],
)  # fmt: skip
def test_small_values_stand_on_one_line_and_others_in_blocks(value: Any, lines: list[str]) -> None:
    assert entry("k", value, 0) == lines


def test_a_long_text_is_folded_below_the_width() -> None:
    lines = entry("k", "some words " * 30 + "end", 8)

    assert lines[0] == "        k: >-"
    assert all(len(line) <= WIDTH for line in lines)
    assert len(lines) == 5


def test_a_text_that_no_block_can_hold_is_none() -> None:
    assert text_block(" one\n two\n", 2) is None


@pytest.mark.slow
@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=4))
def test_what_is_written_is_read_back_by_simkit_and_by_readers_of_yaml_1_1(
    data: dict[str, Any],
) -> None:
    text = "".join(f"{line}\n" for key, value in data.items() for line in entry(key, value, 0))

    assert [document.data for document in load_text(text, "x.yaml")] == [data]
    assert yaml.safe_load(text) == data


@pytest.mark.parametrize(
    "word",
    [
        *("yes", "No", "on", "9:30", "2026-01-05", "2026-13-45", "0x1F", "1_000", "1e5", "007", ""),
        *("~", "null", "=", "<<", "a: b", "a #b", "- a", " a", "@a", "x\x85y"),
    ],
)
def test_a_text_that_some_reader_would_change_is_quoted(word: str) -> None:
    escaped = word.replace("\x85", "\\u0085")

    assert entry("key", word, 0) == [f'key: "{escaped}"']


@given(
    st.one_of(ANY_TEXT, st.lists(st.sampled_from(["a: b", "---", "#", " ", *BREAKS])).map("".join))
)
def test_a_comment_is_one_line_whatever_it_says(text: str) -> None:
    document = f"{comment(text)}\nversion: 1\n"

    assert load_text(document, "a.yaml")[0].data == {"version": 1}
    assert yaml.safe_load(document) == {"version": 1}
