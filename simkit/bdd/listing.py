"""What a feature may say, as text for the command line and as tables for the documentation."""

from __future__ import annotations

from collections.abc import Iterator

from simkit.bdd.conditions import CLAIM_KINDS
from simkit.bdd.examples import EXAMPLES
from simkit.bdd.phrases import Phrase
from simkit.bdd.vocabulary import VOCABULARIES, Vocabulary, condition_phrases


def listed_steps(word: str = "") -> Iterator[str]:
    """Yield the steps and conditions, each with an example; only those that have a word."""
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
    """Yield every title with its phrases, each with an example and what stands below it."""
    given_steps, when, then = VOCABULARIES
    answers = {phrase.text for _, phrase in given_steps.phrases} & {
        phrase.text for _, phrase in when.phrases
    }
    yield "Given", _rows(given_steps, answers, False)
    yield "When", _rows(when, answers, False)
    yield "Given or When", _rows(when, answers, True)
    yield "Then", _rows(then, set(), False)
    yield "Conditions", [_row(phrase) for _, phrase in condition_phrases()]


def _rows(vocabulary: Vocabulary, texts: set[str], is_other: bool) -> list[tuple[str, str]]:
    return [_row(phrase) for _, phrase in vocabulary.phrases if (phrase.text in texts) == is_other]


def _row(phrase: Phrase) -> tuple[str, str]:
    return phrase.text, EXAMPLES.get(phrase.text, phrase.example)


def _on_one_line(example: str) -> str:
    first, *below = example.splitlines()
    return f"{first} …" if below else first


def _code(text: str) -> str:
    return f"`{_escaped(text)}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
