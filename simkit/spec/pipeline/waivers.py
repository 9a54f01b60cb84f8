"""What a file turns off under `lints`: a finding altogether, or only at a place or of an effect.

::

    lints:
      CTX-07: the echo is intended
      RUN-02: {"app.py:265": the spinner's clock, subprocess.run: it only prints}

A place is whatever the finding names: a file with its line, an effect, an agent, a tool, `turn 2`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from simkit.spec.fields import OrText, TextValue

WHOLE: Final = ""
"""The place of what is turned off altogether."""


def _by_place(value: Any) -> Any:
    return value if isinstance(value, (Mapping, list)) else {WHOLE: value}


Waivers = dict[
    str,
    Annotated[dict[str, TextValue], Field(min_length=1), BeforeValidator(_by_place), OrText],
]
"""By lint or finding: the reason by the place where it is turned off."""


def is_off(waivers: Mapping[str, Mapping[str, str]], code: str) -> bool:
    """Return whether a lint or finding is turned off wherever it is found."""
    return WHOLE in waivers.get(code, ())


def places_off(waivers: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield each lint or finding with each place where alone it is turned off."""
    for code, places in waivers.items():
        yield from ((code, place) for place in places if place != WHOLE)


def reasons(waivers: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield what is turned off, ``RUN-02`` or ``RUN-02 at app.py:265``, with the reason."""
    for code, places in waivers.items():
        for place, reason in places.items():
            yield (f"{code} at {place}" if place else code), reason


def names_place(texts: Iterable[str], place: str) -> bool:
    """Return whether one of the texts names a place, as words of its own."""
    search = _pattern(place).search
    return any(search(text) for text in texts)


@lru_cache(maxsize=256)
def _pattern(place: str) -> re.Pattern[str]:
    before = r"(?<![\w-])(?<!\w\.)" if re.match(r"\w", place) else ""
    after = r"(?![\w-])" if re.search(r"\w$", place) else ""
    return re.compile(before + re.escape(place) + after)
