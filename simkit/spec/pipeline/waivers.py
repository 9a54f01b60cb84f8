"""Waivers: findings that a file turns off under `lints`, everywhere or at a place.

::

    lints:
      CTX-07: the echo is intended
      RUN-02: {"app.py:265": the spinner's clock, subprocess.run: it only prints}

A place is anything that the finding names: a file with its line, an effect, an agent, a tool, `turn
2`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from simkit.spec.fields import OrText, TextValue

WHOLE: Final = ""
"""The place of a waiver that applies everywhere."""


def _by_place(value: Any) -> Any:
    return value if isinstance(value, (Mapping, list)) else {WHOLE: value}


Waivers = dict[
    str, Annotated[dict[str, TextValue], Field(min_length=1), BeforeValidator(_by_place), OrText]
]
"""Lint or finding to its places, each with the reason."""


def is_off(waivers: Mapping[str, Mapping[str, str]], code: str) -> bool:
    """Return whether a lint or finding is turned off everywhere."""
    return WHOLE in waivers.get(code, ())


def places_off(waivers: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield each lint or finding with each place at which it is turned off."""
    for code, places in waivers.items():
        yield from ((code, place) for place in places if place != WHOLE)


def reasons(waivers: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield each waiver, ``RUN-02`` or ``RUN-02 at app.py:265``, with the reason."""
    for code, places in waivers.items():
        for place, reason in places.items():
            yield (f"{code} at {place}" if place else code), reason


def names_place(texts: Iterable[str], place: str) -> bool:
    """Return whether one of the texts contains a place as whole words."""
    search = _pattern(place).search
    return any(search(text) for text in texts)


@lru_cache(maxsize=256)
def _pattern(place: str) -> re.Pattern[str]:
    before = r"(?<![\w-])(?<!\w\.)" if re.match(r"\w", place) else ""
    after = r"(?![\w-])" if re.search(r"\w$", place) else ""
    return re.compile(before + re.escape(place) + after)
