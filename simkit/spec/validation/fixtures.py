"""VAL-25: values that a scenario, or a file under ``use``, gives and nothing reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from simkit.core.messages import ABSENT
from simkit.language.paths import follow
from simkit.language.references import references_in
from simkit.language.yaml import Document
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.model import Scenario
from simkit.spec.validation.channels import channel_use
from simkit.spec.validation.problems import Flaw

WORDS_MIN: Final = 4
"""Shorter words occur in any text by chance."""
PUNCTUATION: Final = ".,;:!?()[]{}\"'"


class Claimed:
    """The words that the claims of a scenario mention."""

    def __init__(self, scenario: Scenario, document: Document) -> None:
        self.by_code = any(scope.has("satisfies") for scope in _scopes(scenario))
        """Whether a user's predicate may read anything."""
        words: set[str] = set()
        for turn in range(len(scenario.turns)):
            words.update(_words(follow(document.data, ("turns", turn, "expect"))))
        words.update(_words(document.data.get("expect", ABSENT)))
        self.words = words
        """Every key and text, and the first names of keys that are paths."""
        self._turns: Any = document.data.get("turns")
        self._texts_said: set[str] = set()

    def has_text_of(self, value: Any) -> bool:
        """Return whether the turns seem to repeat a text of a value, or a claim to deny it.

        A text is searched by its longest word, so that this is linear.
        """
        if not self._texts_said:
            self._texts_said = {part for text in _words(self._turns) for part in _parts(text)}
        texts = list(_words(value))
        if not self._texts_said.isdisjoint(_longest(texts)):
            return True
        parts = {part for text in texts for part in _parts(text)}
        return not parts.isdisjoint(_longest(self.words))


def unread_state(
    state: Mapping[str, Any], pipeline: Pipeline, document: Document, claimed: Claimed
) -> Iterator[str]:
    """Yield the channels with a given value that nothing reads.

    Also counted as read: channels that a claim mentions or that the pipeline keeps private, and
    values that the turns repeat or a claim denies, because lints compare contexts and queries with
    given values.
    """
    use = channel_use(pipeline, document)
    if use.sees_all or claimed.by_code:
        return
    private = {name for agent in pipeline.agents.values() for name in agent.private}
    conversation = pipeline.conversation
    for name, value in state.items():
        is_read = name in use.read or name in private or name == conversation
        if not is_read and name not in claimed.words and not claimed.has_text_of(value):
            yield name


def state_flaws(names: Iterable[str]) -> Iterator[Flaw]:
    """Yield the flaw that nothing reads a channel's given value."""
    for name in names:
        problem = f"nothing reads channel `{name}`, and no claim mentions it"
        yield Flaw("VAL-25", ("given", "state", name), problem, key=True)


def unread_names(scenario: Scenario, document: Document) -> Iterator[Flaw]:
    """Yield the columns of a table, variables under ``env``, and fakes that nothing refers to.

    The document is the one with unresolved references.
    """
    if not scenario.examples and not scenario.env and not scenario.given.fakes:
        return
    body = {key: value for key, value in document.data.items() if key not in ("examples", "env")}
    read = {text for _, text in references_in(body)}
    in_tables = {text for _, text in references_in(scenario.examples or ())}
    for name in scenario.given.fakes:
        if not _leads_to(name, read | in_tables):
            problem = f"nothing refers to `{name}`: write `${{{name}.name}}`"
            if scenario.given.fakes[name].count is not None:
                problem = f"nothing refers to `{name}`: write `${{{name}[0].name}}`"
            yield Flaw("VAL-25", ("given", "fakes", name), problem, key=True)
    columns = dict.fromkeys(key for row in scenario.examples or () for key in row)
    for name in columns:
        if not _leads_to(f"column.{name}", read):
            row = next(at for at, row_ in enumerate(scenario.examples or ()) if name in row_)
            problem = f"nothing refers to column `{name}`: write `${{column.{name}}}`"
            yield Flaw("VAL-25", ("examples", row, name), problem, key=True)
    for place, name in enumerate(scenario.env):
        if not _leads_to(f"env.{name}", read):
            yield Flaw("VAL-25", ("env", place), f"nothing refers to `${{env.{name}}}`")


def _leads_to(name: str, references: Iterable[str]) -> bool:
    return any(
        reference == name or reference.startswith((f"{name}.", f"{name}["))
        for reference in references
    )


def _parts(text: str) -> Iterator[str]:
    """Yield the words of a text that do not occur in others by chance."""
    for part in text.split():
        word = part.strip(PUNCTUATION)
        if len(word) >= WORDS_MIN:
            yield word


def _longest(texts: Iterable[str]) -> set[str]:
    """Return the longest word of each text."""
    return {max(parts, key=len) for text in texts if (parts := list(_parts(text)))}


def _scopes(scenario: Scenario) -> Iterator[Expect]:
    yield scenario.expect
    for turn in scenario.turns:
        yield turn.expect


def _words(value: Any) -> Iterator[str]:
    """Yield all keys and texts of a value, and the first names of keys that are paths."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            parts = key.replace("[", ".").split(".")
            for end in range(1, len(parts)):
                yield ".".join(parts[:end])
            yield from _words(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _words(inner)
