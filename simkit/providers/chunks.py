"""How a stream cuts a text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Final

_DEFAULT_SIZE: Final = 20
"""In characters: a stream is then seen to be one, and a long text does not become too many."""


def pieces(text: str, chunks: tuple[int, ...] | int | None = None) -> list[str]:
    """Returns the text in pieces, none of them empty; no piece for an empty text.

    ``chunks`` are sizes in characters, of which the last goes on holding, or the number of pieces,
    the longer ones first; a text with fewer characters than that has one piece for each.
    """
    if isinstance(chunks, int):
        number = max(1, min(chunks, len(text)))
        size, longer = divmod(len(text), number)
        sizes: Iterator[int] = (size + (place < longer) for place in range(number))
    else:
        sizes = _endless(chunks or (_DEFAULT_SIZE,))
    pieces_out, start = [], 0
    while start < len(text):
        end = start + next(sizes)
        if end > start:
            pieces_out.append(text[start:end])
        start = end
    return pieces_out


def _endless(sizes: tuple[int, ...]) -> Iterator[int]:
    yield from sizes
    yield from repeat(max(sizes[-1], 1))
