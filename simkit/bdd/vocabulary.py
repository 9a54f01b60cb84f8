"""The vocabulary: all phrases of one keyword, and which of them a line says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from simkit.bdd.answers import GIVEN, WHEN
from simkit.bdd.claiming import WHOLE
from simkit.bdd.claims import THEN
from simkit.bdd.conditions import CLAIM_KINDS, CONDITIONS, Condition, Words
from simkit.bdd.phrases import Phrase
from simkit.bdd.steps import Step
from simkit.source import near

WHOSE: Final = re.compile(r"(?:(?:at the end|in the whole conversation)|in turn (\d+)), ")
"""What a Then may begin with, to speak of another turn than the last or of the whole run."""


class Line(NamedTuple):
    """A line of a feature, understood."""

    step: Step
    holes: Mapping[str, Any]
    whose: int | None
    """The turn that it speaks of, from 0; WHOLE; None is the last one."""
    takes: tuple[str, ...]
    """What must stand below it: `table`, `text`, or one of both."""


class Vocabulary:
    """All phrases that may follow one keyword."""

    def __init__(self, keyword: str, steps: Sequence[Step]) -> None:
        self.keyword = keyword
        self.phrases = [(step, Phrase(step.text, CLAIM_KINDS)) for step in steps]
        self._known: dict[str, Line | None] = {}

    def line(self, said: str) -> Line | None:
        """Returns what a line says; None if it is no phrase of this keyword."""
        if said not in self._known:
            self._known[said] = next(self.readings(said), None)
        return self._known[said]

    def readings(self, said: str) -> Iterator[Line]:
        """Yields every way to understand a line; the first one is meant."""
        whose = None
        begins = WHOSE.match(said) if self.keyword == "Then" else None
        if begins is not None:
            whose = WHOLE if begins[1] is None else int(begins[1]) - 1
            said = said[begins.end() :]
        for step, phrase in self.phrases:
            holes = phrase.holes_in(said)
            if holes is not None:
                yield Line(step, holes, whose, step.takes or _taken(holes))

    def nearest(self, said: str) -> str:
        """Returns the phrase that is nearest to a line that is none; may be empty."""
        examples = {phrase.example: step.text for step, phrase in self.phrases}
        return examples.get(near(said, examples), "")


def _taken(holes: Mapping[str, Any]) -> tuple[str, ...]:
    conditions = (hole for hole in holes.values() if isinstance(hole, Condition))
    return tuple(form for one in conditions for form in one.takes)


VOCABULARIES: Final = (
    Vocabulary("Given", GIVEN),
    Vocabulary("When", WHEN),
    Vocabulary("Then", THEN),
)


def condition_phrases() -> list[tuple[Words, Phrase]]:
    """Returns every way to say a condition."""
    return [(words, Phrase(words.text, CLAIM_KINDS)) for words in CONDITIONS]
