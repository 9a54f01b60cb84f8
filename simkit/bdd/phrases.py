"""Phrases: the words of a step with typed holes in them, and what may stand in a hole.

A phrase is written as it is said: ``{agent} calls {tool:word}[ with {values}]``. A hole's name is
its kind, unless a kind follows a colon; ``[…]`` may be left out; ``(is|are)`` is one of these. A
phrase that is said with a colon at its end takes a table or a text below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from simkit.bdd.cells import TableInvalid

_PART: Final = re.compile(r"\{(\w+)(?::(\w+))?\}|\(([^()]*)\)|(\[)|(\])|([^{}()\[\]]+)")


class Unreadable(ValueError):
    """What stands in a hole is not of its kind."""


class Kind(NamedTuple):
    """What may stand in a hole."""

    pattern: str
    """A regular expression without named groups."""
    read: Callable[[str], Any]
    """Returns what is meant; raises Unreadable where the pattern is too wide."""
    example: str
    says: str
    """What it is, for the page that lists the phrases."""


class Phrase:
    """Words with holes in them, and how they are recognised."""

    def __init__(self, text: str, kinds: Mapping[str, Kind]) -> None:
        self.text = text
        self._holes: dict[str, Kind] = {}
        self.example = ""
        """The phrase as a feature may say it, with something in each hole."""
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
        """Return what stands in the holes, without those left out; None if it is not said so."""
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

    @property
    def kinds(self) -> Iterator[Kind]:
        """What may stand in its holes."""
        yield from self._holes.values()
