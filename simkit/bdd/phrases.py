"""Phrases: the words of a step with typed holes in them, and templates of values.

A phrase is written as in a feature: ``{agent} calls {tool:word}[ with {values}]``. A hole's name is
its kind, unless a kind follows a colon; ``[…]`` may be left out; ``(is|are)`` is one of the two. A
phrase with a colon at its end takes a table or a text below it.

Each phrase has a template of its value, in which a text ``"{agent}"`` is replaced by the value of
that hole:

- a hole that is left out removes its key or item, and the mapping or list around it, if that is
  empty then;
- ``"{:pairs}"`` is the table or text below the step, in one of the forms of ``FORMS``;
- ``"{names:agent}"`` is the kind of name, if the hole has another name;
- a tuple is a list of alternatives: the first one with all holes filled counts;
- the key ``"**"`` adds the entries of a mapping to those beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from simkit.bdd.cells import TableInvalid

_PART: Final = re.compile(r"\{(\w+)(?::(\w+))?\}|\(([^()]*)\)|(\[)|(\])|([^{}()\[\]]+)")
LEFT_OUT: Final = object()
"""The value of a hole that a line leaves out."""


class Unreadable(ValueError):
    """The text in a hole is not of its kind."""


class Kind(NamedTuple):
    """A kind of hole."""

    pattern: str
    """A regular expression without named groups."""
    read: Callable[[str], Any]
    """Returns the value; raises Unreadable if the pattern is too wide."""
    example: str
    says: str
    """Its description on the page of phrases."""


class Phrase:
    """Words with holes, and their recognition."""

    def __init__(self, text: str, kinds: Mapping[str, Kind]) -> None:
        self.text = text
        self._holes: dict[str, Kind] = {}
        self.example = ""
        """The phrase as in a feature, with every hole filled."""
        pattern = ""
        for hole, kind, choice, opens, closes, words in _PART.findall(text):
            if hole:
                self._holes[hole] = kinds[kind or hole]
                pattern += f"(?P<{hole}>{self._holes[hole].pattern})"
                self.example += self._holes[hole].example
            elif choice:
                pattern += f"(?:{'|'.join(map(re.escape, choice.split('|')))})"
                self.example += choice.split("|")[0]
            elif opens or closes:
                pattern += "(?:" if opens else ")?"
            else:
                pattern += re.escape(words)
                self.example += words
        self._matches = re.compile(pattern, re.DOTALL).fullmatch

    def holes_in(self, content: str) -> dict[str, Any] | None:
        """Return the values of the holes, without those left out; None if the text does not fit."""
        match = self._matches(content)
        if match is None:
            return None
        try:
            return {
                hole: self._holes[hole].read(text)
                for hole, text in match.groupdict().items()
                if text is not None
            }
        except (Unreadable, TableInvalid):
            return None


def fill(template: Any, hole_value: Callable[[str], Any]) -> Any:
    """Return the value of a template.

    ``hole_value`` returns the value of a hole, ``LEFT_OUT`` if it has none.
    """
    if isinstance(template, str):
        return hole_value(template[1:-1]) if template.startswith("{") else template
    if isinstance(template, tuple):
        whole = (each for each in template if LEFT_OUT not in map(hole_value, holes_of(each)))
        return fill(next(whole, template[-1]), hole_value)
    if isinstance(template, list):
        items = [fill(inner, hole_value) for inner in template]
        filled: Any = [item for item in items if item is not LEFT_OUT]
    elif isinstance(template, dict):
        filled = _fill_mapping(template, hole_value)
    else:
        return template
    return filled if filled or not template else LEFT_OUT


def _fill_mapping(template: Mapping[str, Any], hole_value: Callable[[str], Any]) -> dict[Any, Any]:
    """Return a mapping's value; the mapping under ``**`` is merged into it."""
    filled: dict[Any, Any] = {}
    for key, inner in template.items():
        value = fill(inner, hole_value)
        if key == "**" and value is not LEFT_OUT:
            filled |= value
        elif value is not LEFT_OUT:
            filled[fill(key, hole_value)] = value
    return filled


def holes_of(template: Any) -> Iterator[str]:
    """Yield the holes that a template names."""
    if isinstance(template, str):
        if template.startswith("{"):
            yield template[1:-1]
    elif isinstance(template, (list, tuple, dict)):
        parts = template.items() if isinstance(template, dict) else template
        for part in parts:
            yield from holes_of(part)
