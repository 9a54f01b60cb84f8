from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from simkit.cli.yaml_text import yaml_text
from simkit.source import load_text

TEXTS = st.text(
    st.one_of(
        st.sampled_from("ab 01.:-#'\"{}[],&*!|>%@`?~$\n\t_eEyY"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=12,
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), TEXTS,
    st.floats(allow_nan=False, allow_infinity=False),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(TEXTS.filter(bool), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(st.dictionaries(TEXTS.filter(bool), VALUES, min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read_back_by_simkit_and_by_readers_of_yaml_1_1(
    data: dict[str, Any],
) -> None:
    text = yaml_text(data, {})

    assert [document.data for document in load_text(text, "x.yaml")] == [data]
    assert yaml.safe_load(text) == data


@pytest.mark.parametrize(
    "word",
    [
        *("yes", "No", "on", "9:30", "2026-01-05", "2026-13-45", "0x1F", "1_000", "1e5", "007", ""),
        *("~", "null", "=", "<<", "a: b", "a #b", "- a", "${run}", "a, b", " a", "@a", "x\x85y"),
    ],
)
def test_a_text_that_some_reader_would_change_is_quoted(word: str) -> None:
    escaped = word.replace("\x85", "\\u0085")

    assert yaml_text({"key": word}, {}) == f'key: "{escaped}"\n'


def test_leaves_stand_on_one_line_where_they_fit_and_blocks_do_not() -> None:
    many = [f"a_rather_long_name_of_item_{number}" for number in range(4)]
    data = {
        "leaf": {"a": 1, "b": [x for x in "cd"]},
        "long": many,
        "block": {"one": {"a": {}}, "two": [{"b": [1]}, [[True]], "no"]},
        "text": "two\n\n  lines\n",
        "cut": ["no\nend"],
        "number": 1e16,
    }

    assert yaml_text(data, {"": "All of it.", "long": "Too long\nfor one line."}) == (
        """\
# All of it.
leaf: {a: 1, b: [c, d]}
# Too long
# for one line.
long:
  - a_rather_long_name_of_item_0
  - a_rather_long_name_of_item_1
  - a_rather_long_name_of_item_2
  - a_rather_long_name_of_item_3
block:
  one:
    a: {}
  two:
    - {b: [1]}
    - - [true]
    - "no"
text: |
  two

    lines
cut:
  - |-
    no
    end
number: 1.0e+16
"""
    )
