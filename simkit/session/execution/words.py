"""Words of a request that an answer may repeat: numbers in it, and words to choose from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from simkit.runtime.ports import ModelRequest

REASONS_MAX: Final = 4
"""The number of lines in an error that says why none of them is an answer."""
KNOWN_MAX: Final = 6
"""The number of texts of the conversation that an argument may repeat."""
_MENTIONED: Final = re.compile(r"\b(?=[\w-]*\d)\w[\w-]+\b")
"""Numbers of orders, invoices and the like."""
_LISTED: Final = re.compile(r"\b[\w-]+(?:, [\w-]+)*,? (?:or|OR|\|) [\w-]+\b")
_QUOTED: Final = re.compile(r"['\"`]([\w-]{2,30})['\"`]")
_WORDS_MAX: Final = 6


@lru_cache(maxsize=256)
def words_offered(prompt: str, names: frozenset[str]) -> Sequence[str]:
    """Return the words of which instructions let a model say one: lists, quotes, names of agents.

    One word alone is no choice.
    """
    words = [*_QUOTED.findall(prompt), *(name for name in names if name in prompt)]
    for part in _LISTED.findall(prompt):
        words += re.split(r",? (?:or|OR|\|) |, ", part)
    several = sorted(dict.fromkeys(words))[:_WORDS_MAX]
    return several if len(several) > 1 else ()


def mentioned(request: ModelRequest) -> list[str]:
    """Return numbers and the like that the context mentions, the newest first."""
    texts = (message.content for message in reversed(request.messages()))
    return list(dict.fromkeys(word for text in texts for word in _MENTIONED.findall(text)))[
        :KNOWN_MAX
    ]


def no_line_left(agent: str, reasons: Sequence[str]) -> str:
    """Return the error of a file whose lines leave an agent nothing to say."""
    listed = ", ".join(reasons[:REASONS_MAX])
    more = f", and {len(reasons) - REASONS_MAX} more" if len(reasons) > REASONS_MAX else ""
    return (
        f"agent {agent!r} is asked for an answer, and none of its lines is left: {listed}{more}\n"
        "  Add a line that ends its work, such as a text, or `anything: true`."
    )
