"""Values written as YAML: read back unchanged, and pleasant to read."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.scenario.writing import WIDTH, entry, flow, scalar, text_block
from simkit.source import load_text

TEXTS = [
    "plain", "", " lead", "12", "1.50", "true", "null", "~", "yes", "2026-01-01", "a: b", "a #b",
    "- x", "x:", "it's", 'say "hi"', "one\ntwo", "one\ntwo\n", "one\n\n\n", "\n", " a\nb", "a\tb",
    "\u2028", "é☃", "w " * 80 + "end", "w" * 200, "${x}", "[a", "{a", "*a", "&a", "!a", "%a", "@a",
    "`a", "?", "? a", "|", ">", "a,b", "a]", "w " * 80 + "end\n", ("w " * 60 + "x\n") * 2,
]  # fmt: skip


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
