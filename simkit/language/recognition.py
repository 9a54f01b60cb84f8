"""Recognition of a value in a text: between word boundaries, as a number, or behind its key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import msgspec

from simkit.language.json_schema import is_number

_encode: Final = msgspec.json.Encoder().encode
_NUMBER: Final = re.compile(
    r"(?<![\w.\-])(?<!\d:)-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w]|[-.:,]\d)"
)
"""A number that is no part of a word, a date, a time or a version."""
_WORD: Final = re.compile(r"\w+")
_BETWEEN: Final = " \t\"'`*[({=:#$€£-"
"""Characters that may stand between a key and its value."""
_BEGIN: Final = 20
"""The length of a long text that must be recognized: recipes show previews."""
_PLAIN: Final = (int, float)


def whole_places(text: str, part: str) -> Iterator[int]:
    """Yield where a part stands in a text, between word boundaries."""
    start = text.find(part) if part else -1
    while start >= 0:
        end = start + len(part)
        before = text[start - 1 : start] + part[0]
        after = part[-1] + text[end : end + 1]
        if not (_is_joined(before) or _is_joined(after)):
            yield start
        start = text.find(part, start + 1)


def _is_joined(pair: str) -> bool:
    return len(pair) > 1 and all(letter.isalnum() or letter == "_" for letter in pair)


class Sought:
    """One value of JSON, ready to be recognized in texts.

    A text counts by its first 20 characters, plain or as JSON writes it; a number also with
    thousands separators, rounded to the digits that are shown, or in percent.
    """

    def __init__(self, value: object, key: str = "") -> None:
        self.value, self.key, self._keys = value, key, _forms_of_key(key)
        self._forms: tuple[str, ...] = ()
        self._is_cut = False
        if isinstance(value, str):
            whole = " ".join(value.split()) if len(value) > _BEGIN else value.strip()
            begin = value.strip()[:_BEGIN].rstrip()
            self._is_cut = len(whole) > len(begin)
            self._forms = tuple(dict.fromkeys((begin, _encode(begin).decode()[1:-1])))
        elif isinstance(value, bool):
            self._forms = ("true", "True") if value else ("false", "False")

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing that a text could show."""
        return self.value is None or (isinstance(self.value, str) and not self.value.strip())

    @property
    def is_distinctive(self) -> bool:
        """Return whether no text has it by chance: several words, or three digits or more."""
        if isinstance(self.value, bool):
            return False
        text = str(self.value)
        if is_number(self.value):
            return sum(letter.isdigit() for letter in text.lstrip("-0.")) >= 3
        has_digit = any(letter.isdigit() for letter in text)
        return len(text) >= 3 and (has_digit or len(_WORD.findall(text)) > 1)

    def places(self, text: str) -> Iterator[int]:
        """Yield where a text shows the value."""
        if is_number(self.value):
            for match in _NUMBER.finditer(text):
                if _is_shown_as(self.value, match[0], text[match.end() : match.end() + 2]):
                    yield match.start()
            return
        for form in self._forms:
            if not self._is_cut:
                yield from whole_places(text, form)
                continue
            start = text.find(form)
            while start >= 0:
                if not _is_joined(text[start - 1 : start] + form[0]):
                    yield start
                start = text.find(form, start + 1)

    def is_in(self, text: str) -> bool:
        """Return whether a text shows the value."""
        return next(self.places(text), None) is not None

    def is_keyed(self, text: str) -> bool:
        """Return whether a text shows the value behind its key: ``order: 3``, ``"order":3``."""
        return any(
            self._follows_key(text[max(0, start - 60) : start]) for start in self.places(text)
        )

    def _follows_key(self, before: str) -> bool:
        bare = before.rstrip(_BETWEEN)
        if bare == before or "\n" in before[len(bare) :]:
            return False
        bare = bare.casefold().removesuffix(" is")
        return any(
            bare.endswith(key) and not _is_joined(bare[: -len(key)][-1:] + key[0])
            for key in self._keys
        )


@lru_cache(maxsize=512)
def _forms_of_key(key: str) -> tuple[str, ...]:
    """Return a key as texts write it: ``order_id``, ``order id``, ``order-id``, ``orderId``."""
    if not key:
        return ()
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", key).replace("_", " ").casefold()
    forms = (key.casefold(), spaced, spaced.replace(" ", "_"), spaced.replace(" ", "-"))
    return tuple(dict.fromkeys(form for form in forms if form))


def _is_shown_as(value: object, token: str, following: str) -> bool:
    assert isinstance(value, _PLAIN)
    amount = float(token.replace(",", ""))
    if amount == value:
        return True
    decimals = len(token.partition(".")[2])
    if "e" not in token.casefold() and decimals and round(float(value), decimals) == amount:
        return True
    return following.lstrip().startswith("%") and abs(value * 100 - amount) < 1e-9
