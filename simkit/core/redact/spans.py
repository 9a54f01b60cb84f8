"""Places of secrets in a text, and cuts of texts that consist of pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final

import msgspec

from simkit.core.redact.shapes import CUT

_ENCODED: Final = re.compile(r"%([0-7][0-9A-Fa-f])")
DEPTH_MAX: Final = 3
"""The number of times a text is percent-decoded; proxies and redirects nest one URL in another."""


ELLIPSIS: Final = "…".encode()
_CUT: Final = re.compile("[\"'`]?…[\"'`]?")
CUT_LENGTH_MIN: Final = 6
"""The shortest piece of a secret beside an ellipsis that is replaced; shorter ones may be
anything."""


class Span(msgspec.Struct, frozen=True, gc=False):
    """The place of a secret, and the replacement."""

    start: int
    end: int
    text: str


def replaced(text: str, spans: Iterable[Span]) -> str:
    """Return the text with each span, in ascending order, replaced."""
    pieces, at = list[str](), 0
    for span in spans:
        pieces += text[at : span.start], span.text
        at = span.end
    return "".join((*pieces, text[at:]))


def cut(pieces: Sequence[str], spans: Sequence[Span]) -> list[str]:
    """Return the pieces of a text with each span of the joined text replaced.

    A replacement is in the piece in which the span begins. The number of pieces stays, and their
    join equals `replaced` of the joined text.
    """
    fragments, begin = list[str](), 0
    for piece in pieces:
        end = begin + len(piece)
        inside = [
            Span(
                max(span.start, begin) - begin,
                min(span.end, end) - begin,
                span.text if begin <= span.start else "",
            )
            for span in spans
            if span.start < end and span.end > begin
        ]
        fragments.append(replaced(piece, inside))
        begin = end
    return fragments


def percent_decoded(text: str) -> tuple[str, list[int]] | None:
    """Return a text decoded once, and the original place of each character and of the end.

    Return None if nothing is encoded. Only ASCII is decoded: secrets contain nothing else.
    """
    pieces, places, at = list[str](), list[int](), 0
    for match in _ENCODED.finditer(text):
        start = match.start()
        pieces += text[at:start], chr(int(match[1], 16))
        places += range(at, start + 1)
        at = match.end()
    if not at:
        return None
    pieces.append(text[at:])
    places += range(at, len(text) + 1)
    return "".join(pieces), places


def cut_spans(text: str, secrets: Sequence[str]) -> Iterator[Span]:
    """Yield the rest of known secrets where a report shortened a text: ``hunter…``."""
    ended = 0
    for match in _CUT.finditer(text):
        left = _left_of(text, ended, match.start(), secrets)
        right = _right_of(text, match.end(), secrets)
        if left:
            yield Span(match.start() - left, match.start(), "[redacted:env]")
        if right:
            yield Span(match.end(), match.end() + right, "[redacted:env]")
        ended = match.end() + right


def cut_keys(text: str) -> Iterator[Span]:
    """Yield the beginnings of vendors' keys where a report shortened a text."""
    if "…" in text:
        for match in _cut_rule().finditer(text):
            yield Span(match.start(), match.end(), f"[redacted:{match.lastgroup}]")


@cache
def _cut_rule() -> re.Pattern[str]:
    """Return the rule, compiled for the first text that was shortened."""
    return re.compile(CUT, re.ASCII)


def _left_of(text: str, start: int, end: int, secrets: Sequence[str]) -> int:
    """Return how much of a secret's beginning is before a place; 0 if it is too short."""
    return max(
        (
            size
            for secret in secrets
            for size in _sizes(secret)
            if text.endswith(secret[:size], start, end)
        ),
        default=0,
    )


def _right_of(text: str, start: int, secrets: Sequence[str]) -> int:
    """Return how much of a secret's end is after a place; 0 if it is too short."""
    return max(
        (
            size
            for secret in secrets
            for size in _sizes(secret)
            if text.startswith(secret[-size:], start)
        ),
        default=0,
    )


def _sizes(secret: str) -> range:
    return range(len(secret), CUT_LENGTH_MIN - 1, -1)
