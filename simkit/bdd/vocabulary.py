"""The vocabulary: all phrases of each keyword, the search for a line's phrase, and the list of
phrases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from simkit.bdd.assembling import EVERY, WHOLE
from simkit.bdd.claims import THEN
from simkit.bdd.conditions import CLAIM_KINDS, CONDITIONS, Words, forms_taken_in
from simkit.bdd.given_when_steps import GIVEN, WHEN
from simkit.bdd.phrases import VALUE, Phrase
from simkit.bdd.story import Step
from simkit.language.yaml import near

TURN_PREFIX: Final = re.compile(
    r"(?:(?:at the end|in the whole conversation|in turn (?P<turn>\d+)), "
    r"|(?P<every>it always holds that ))"
)
"""Beginnings of a Then that select another turn than the last, the whole run, or every turn of
conversations that are explored."""

_OPTIONAL: Final = re.compile(r"\[[^\]]*\]")
_VALUES: Final = re.compile(rf"{VALUE}|/(?:[^/\\]|\\.)+/")


class Line(NamedTuple):
    """A parsed line of a feature."""

    step: Step
    holes: Mapping[str, Any]
    owner: int | None
    """Its turn, by index; WHOLE; None is the last one."""
    takes: tuple[str, ...]
    """The required part below it: `table`, `text`, or one of both."""


class Vocabulary:
    """All phrases that may follow one keyword."""

    def __init__(self, keyword: str, steps: Sequence[Step]) -> None:
        self.keyword = keyword
        self.phrases = [(step, Phrase(step.text, CLAIM_KINDS)) for step in steps]
        self._known: dict[str, Line | None] = {}

    def line(self, text: str) -> Line | None:
        """Return the parsed line; None if it is no phrase of this keyword."""
        if text not in self._known:
            self._known[text] = next(self.readings(text), None)
        return self._known[text]

    def readings(self, text: str) -> Iterator[Line]:
        """Yield every parse of a line; the first one wins."""
        owner = None
        begins = TURN_PREFIX.match(text) if self.keyword == "Then" else None
        if begins is not None:
            owner = WHOLE if begins["turn"] is None else int(begins["turn"]) - 1
            owner = EVERY if begins["every"] else owner
            text = text[begins.end() :]
        for step, phrase in self.phrases:
            holes = phrase.holes_in(text)
            if holes is not None:
                yield Line(step, holes, owner, step.takes or forms_taken_in(holes))

    def nearest(self, line_text: str) -> tuple[str, str]:
        """Return the nearest phrase to an unknown line, with an example; or nothing.

        Only words are compared; quoted texts, numbers and lists are ignored.
        """
        begins = TURN_PREFIX.match(line_text) if self.keyword == "Then" else None
        line = _words(line_text[begins.end() :] if begins else line_text)
        examples = {_words(example): (text, example) for example, text in self._examples()}
        return examples.get(near(line, examples), ("", ""))

    def _examples(self) -> Iterator[tuple[str, str]]:
        """Yield example lines, each with its phrase."""
        for step, phrase in self.phrases:
            yield from _variants(step.text, phrase)
            if not step.text.endswith("{condition}"):
                continue
            for words, condition in condition_phrases():
                if "{condition}" not in words.text:
                    yield (
                        phrase.example.removesuffix(CLAIM_KINDS["condition"].example)
                        + condition.example,
                        step.text.replace("{condition}", words.text),
                    )


def _variants(text: str, phrase: Phrase) -> Iterator[tuple[str, str]]:
    """Yield a phrase with and without its optional parts."""
    yield phrase.example, text
    short = _OPTIONAL.sub("", text)
    if short != text:
        yield Phrase(short, CLAIM_KINDS).example, text


def _words(line: str) -> str:
    return _VALUES.sub("…", line)


VOCABULARIES: Final = (
    Vocabulary("Given", GIVEN),
    Vocabulary("When", WHEN),
    Vocabulary("Then", THEN),
)


def hint(keyword: str, step_text: str) -> str:
    """Return what an unknown line may have meant, or an empty text."""
    ours = next(
        vocabulary for vocabulary in VOCABULARIES if vocabulary.keyword.lower() == keyword.lower()
    )
    for other in VOCABULARIES:
        if other is not ours and other.line(step_text) is not None:
            return f"`{step_text}` is said after `{other.keyword}`, not after `{ours.keyword}`"
    text, example = ours.nearest(step_text)
    example_text = "" if example == text else f", as in `{example}`"
    return f"did you mean `{text}`{example_text}?" if text else ""


def condition_phrases() -> list[tuple[Words, Phrase]]:
    """Return all wordings of conditions."""
    return [(words, Phrase(words.text, CLAIM_KINDS)) for words in CONDITIONS]


# The list of phrases: as text for the command line, and as tables for the documentation


def listed_steps(word: str = "") -> Iterator[str]:
    """Yield the steps and conditions, each with an example; only those with a word, if given."""
    for title, rows in sections():
        chosen = [row for row in rows if any(word.lower() in text.lower() for text in row)]
        if not chosen:
            continue
        yield title
        for text, example in chosen:
            yield f"  {text}"
            yield from (f"      {line}" for line in example.splitlines())


def tables() -> Iterator[tuple[str, list[str]]]:
    """Yield the titles and the lines of Markdown tables: steps, conditions, holes."""
    for title, rows in sections():
        lines = [f"| {_code(text)} | {_code(_on_one_line(example))} |" for text, example in rows]
        yield title, ["| phrase | for example |", "|---|---|", *lines]
    kinds = [
        f"| `{{{name}}}` | {_escaped(kind.says)} | {_code(kind.example)} |"
        for name, kind in sorted(CLAIM_KINDS.items())
    ]
    yield "Holes", ["| hole | what stands there | for example |", "|---|---|---|", *kinds]


def sections() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield every title with its phrases, each with an example and the part below it."""
    given_steps, when, then = VOCABULARIES
    answers = {phrase.text for _, phrase in given_steps.phrases} & {
        phrase.text for _, phrase in when.phrases
    }
    yield "Given", _rows(given_steps, answers, False)
    yield "When", _rows(when, answers, False)
    yield "Given or When", _rows(when, answers, True)
    yield "Then", _rows(then, set(), False)
    yield "Conditions", [_row(*row) for row in condition_phrases()]


def _rows(vocabulary: Vocabulary, texts: set[str], is_other: bool) -> list[tuple[str, str]]:
    return [_row(*row) for row in vocabulary.phrases if (row[0].text in texts) == is_other]


def _row(step: Step | Words, phrase: Phrase) -> tuple[str, str]:
    return step.text, step.example or phrase.example


def _on_one_line(example: str) -> str:
    first, *below = example.splitlines()
    return f"{first} …" if below else first


def _code(text: str) -> str:
    return f"`{_escaped(text)}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
