"""The simplest text that a regular expression matches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final

from simkit.language.expressions import Expression

_RANKS: Final = f"{ascii_lowercase}{ascii_uppercase}1234567890-_. "
"""The characters that a person reads best come first."""
_MORE: Final = (0, 1, 2, 4, 8, 16, 36)
"""Numbers of repetitions beyond the least, which are tried one after the other."""


@lru_cache(maxsize=256)
def texts_of(pattern: str) -> tuple[str, ...]:
    """Return texts that a pattern matches, the shortest first; none if it is not Python's.

    >>> texts_of(r"^[A-Z]{2}-\\d+$")[:2]
    ('AA-1', 'AA-11')
    """
    return tuple(dict.fromkeys(_texts(pattern)))


def _texts(pattern: str) -> Iterator[str]:
    from rstr import Rstr

    try:
        search = Expression(pattern).search
    except re.error:
        return
    for more in _MORE:
        # Of a source of chance it needs no more than this.
        simplest: Any = _Simplest(more)
        try:
            text: str = Rstr(simplest).xeger(pattern)
            if search(text) is not None:
                yield text
        except (re.error, LookupError, OverflowError, RecursionError):
            return


class _Simplest:
    """A source of chance that always chooses the simplest."""

    def __init__(self, more: int) -> None:
        self._more = more

    def choice(self, options: Any) -> Any:
        """Return the character that reads best; of other things the first."""
        if isinstance(options[0], str):
            return min(options, key=_rank)
        return options[0]

    def shuffle(self, options: Any) -> None:
        """Leave the order as it is."""

    def randint(self, least: int, most: int) -> int:
        """Return the number of repetitions."""
        return min(least + self._more, most)


def _rank(character: str) -> tuple[int, str]:
    place = _RANKS.find(character)
    return (len(_RANKS) if place < 0 else place, character)
