"""Repeated turns, and references of a turn to replies of earlier turns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from simkit.core.messages import ABSENT
from simkit.core.text import late_pattern
from simkit.language.paths import as_text, lookup, walk, with_texts
from simkit.language.yaml import Document, SourcePath

WHOLE: Final = -1
"""The index that stands for the claims on the whole run."""
FIELDS: Final = ("reply",)
"""The fields of an earlier turn that can be referred to."""
MOST: Final = 10_000
"""The largest number of repetitions."""
_EARLIER: Final = late_pattern(r"turns\[(-?\d+)\]\.(\w+)(.*)", re.DOTALL)
_OPENS, _CLOSES = "\ufdd0", "\ufdd1"
"""The marks around an unresolved reference: characters from Unicode's private area."""
_WAITING: Final = late_pattern(f"{_OPENS}([^{_CLOSES}]*){_CLOSES}")
EQUALS: Final = "$eq"
PLACES: Final = {
    "user": "json",
    "replies": "json:of",
    "tool_results": "returns:of",
    "expect": EQUALS,
}
"""Key of a turn to the wrapper that keeps a value from being read as keywords there."""
_OF_VALUES: Final = ("$eq", "$ne", "$exact", "$in", "$contains", "$keys", "$schema")
"""Operators below which everything is a value."""


class Spot(msgspec.Struct, frozen=True):
    """A turn of a conversation, and its place in the file."""

    number: int
    """The number of the turn, from 1, over the whole conversation."""
    place: int
    """The index among the written turns."""
    repetition: int = 1
    times: int = 1

    @property
    def root(self) -> dict[str, Any]:
        """Return the target of `${turn.…}`."""
        return {"number": self.number, "repetition": self.repetition}


def spots(times: Sequence[int], numbers: Sequence[int] = ()) -> Iterator[Spot]:
    """Yield the turns of a conversation, given the number of repetitions of each written turn.

    ``numbers`` are their numbers if only a part of the conversation is used.
    """
    number = 0
    for index, often in enumerate(times):
        for repetition in range(1, often + 1):
            number = numbers[index] if numbers else number + 1
            yield Spot(number, index, repetition, often)


def waits(value: Any) -> bool:
    """Return whether a value contains a reference to an earlier turn."""
    words = (word for path, inner in walk(value) for word in (*path[-1:], inner))
    return any(isinstance(word, str) and _OPENS in word for word in words)


def waiting(reference: str) -> str:
    """Return the mark for a reference that cannot be resolved yet."""
    return f"{_OPENS}{reference}{_CLOSES}"


def as_written(value: Any) -> Any:
    """Return a value with marks turned back into references, as in the file."""
    return _with(value, lambda reference: f"${{{reference}}}")


def answered(
    value: Mapping[str, Any],
    turn_values: Sequence[Mapping[str, Any]],
    places: Mapping[str, str] = PLACES,
) -> dict[str, Any]:
    """Return a turn with references to earlier turns filled in.

    A missing reply, as in a turn that ended with a question or an error, is null. A JSON reply
    stays a value: a model's answer is never read as keywords of a scenario, so that a reply
    ``{"$any": true}`` is no matcher, and ``{"error": "bad"}`` no error of a tool.

    ``places`` gives the wrapper of a value for each key.
    """

    def value_at(reference: str) -> Any:
        leads_to = lookup({"turns": turn_values}, reference)
        return None if leads_to is ABSENT else leads_to

    return {
        _with(key, value_at): _with_values(inner, value_at, places.get(key, ""))
        for key, inner in value.items()
    }


def _with_values(value: Any, value_at: Callable[[str], Any], wrapper: str) -> Any:
    """Resolve references; a value at a place for keywords is wrapped."""
    if isinstance(value, str):
        filled = _with(value, value_at)
        stands_alone = wrapper and _WAITING.fullmatch(value) is not None
        if not stands_alone or filled is None or isinstance(filled, str):
            return filled
        if wrapper == EQUALS and not isinstance(filled, (dict, list)):
            return filled
        return {wrapper: filled}
    if isinstance(value, list):
        return [_with_values(inner, value_at, wrapper) for inner in value]
    if not isinstance(value, Mapping):
        return value
    return {
        _with(key, value_at): _with_values(inner, value_at, _below(key, wrapper))
        for key, inner in value.items()
    }


def _below(key: str, wrapper: str) -> str:
    """Return the wrapper below a key; empty if everything there is a value."""
    if wrapper == EQUALS:
        return "" if key in _OF_VALUES else EQUALS
    # In `replies: {agent: LINE}` and `tool_results: {tool: RESULT}`, everything below is a value.
    return {"json:of": "json", "returns:of": "returns"}.get(wrapper, "")


def _with(value: Any, value_there: Any) -> Any:
    def change(text: str) -> Any:
        whole = _WAITING.fullmatch(text)
        if whole is not None:
            return value_there(whole[1])
        if _OPENS not in text:
            return text
        return _WAITING.sub(lambda at: as_text(value_there(at[1])), text)

    return with_texts(value, change)


def check_earlier(document: Document, path: SourcePath, reference: str, number: int) -> None:
    """Raise SourceError for a reference to a turn that is not earlier.

    ``number`` is the number of the turn with the reference, from 1; for the whole run, one more
    than all turns.
    """
    match = _EARLIER.fullmatch(reference)
    if match is None:
        raise document.error(
            path,
            f"`${{{reference}}}` does not name a turn and a field",
            advice="Write `${turns[0].reply}`, or `${turns[-1].reply}` for the turn before.",
        )
    index, field = int(match[1]), match[2]
    if field not in FIELDS:
        raise document.error(
            path, f"nothing of a turn is called `{field}`", word=field, known=FIELDS
        )
    before = number - 1
    if not -before <= index < before:
        which = f"turns[{index}]"
        turns_text = f"turns[0] to turns[{before - 1}]" if before > 1 else "turns[0]"
        raise document.error(
            path,
            f"`{which}` is not before turn {number}",
            advice=f"What was said before it is {turns_text}."
            if before
            else "Nothing was said before the first turn.",
        )
