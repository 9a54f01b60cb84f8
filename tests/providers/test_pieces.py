"""How a stream cuts a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.providers.sse import pieces


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        (None, ["abcdefghijklmnopqrst", "uvwxyz"]),
        ((2, 3), ["ab", "cde", "fgh", "ijk", "lmn", "opq", "rst", "uvw", "xyz"]),
        ((25,), ["abcdefghijklmnopqrstuvwxy", "z"]),
        (3, ["abcdefghi", "jklmnopqr", "stuvwxyz"]),
        (1, ["abcdefghijklmnopqrstuvwxyz"]),
        (99, list("abcdefghijklmnopqrstuvwxyz")),
    ],
)
def test_a_text_is_cut_as_it_is_asked(
    chunks: tuple[int, ...] | int | None, expected: list[str]
) -> None:
    assert pieces("abcdefghijklmnopqrstuvwxyz", chunks) == expected


@given(st.text(), st.none() | st.integers(1, 9) | st.lists(st.integers(0, 9), min_size=1))
def test_no_piece_is_empty_and_together_they_are_the_text(
    text: str, chunks: int | list[int] | None
) -> None:
    texts = pieces(text, tuple(chunks) if isinstance(chunks, list) else chunks)

    assert "".join(texts) == text
    assert all(texts)
