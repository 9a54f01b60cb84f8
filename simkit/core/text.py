"""Texts of messages: counts, shortening, and values that differ between runs; late patterns."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

# Regular expressions that are compiled when they are first used: a command uses few of all


class _Later:
    """An expression that becomes a compiled one, method by method."""

    def __init__(self, text: str, flags: int) -> None:
        self.pattern = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self.pattern, self._flags), name)
        # From now on it is found without this call.
        setattr(self, name, value)
        return value


def late_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return the expression; an invalid one is an error where it is first used."""
    return cast("re.Pattern[str]", _Later(text, flags))


# Texts of messages


PASSING: Final = late_pattern(
    r"\d{4}-\d\d-\d\d|\b\d\d?:\d\d\b|\b\d\d?[./]\d\d?[./]\d{2,4}\b"  # dates and times
    r"|\b(?:january|february|march|april|may|june|july|august|september|october|november|december)"
    r"\s+\d|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-|\b0x[0-9a-f]{6,}|\b(?=[a-z]*\d)[0-9a-f]{16,}\b|\b\d{10,}\b"  # ids
    r"|(?<![\w/.])/(?:tmp|var|home|root|Users|private)/|\b[A-Z]:\\",  # places of this machine
    re.IGNORECASE,
)
"""Values that differ in a later run, on another machine or on another day."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return ``1 scenario``, ``2 scenarios``; ``plural`` is for nouns that do not take an s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


_KEY_LENGTH_MAX: Final = 4_000


def without_secrets_in(text: str) -> str:
    """Return a text that may be cut: a part of a secret would not be known as one."""
    # Most texts are not cut, and then nothing of redaction is needed.
    from simkit.core.output import current_redactor

    return current_redactor().text(text)


def short_end(text: str, most: int) -> str:
    """Return a text cut at its end to ``most`` characters; its spaces stay."""
    if len(text) <= most:
        return text
    text = without_secrets_in(text[: most + _KEY_LENGTH_MAX])
    return text if len(text) <= most else text[: max(most - 1, 0)] + "…"


def short_from(text: str, start: int, most: int) -> str:
    """Return a text from a place on, cut to ``most`` characters, between words."""
    text = f"…{text[word_start(text, start) :]}" if start else text
    if len(text) > most:
        text = without_secrets_in(text[: most + _KEY_LENGTH_MAX])
    return text if len(text) <= most else text[: word_end(text, max(most - 1, 0))] + "…"


_WORD_MAX: Final = 20
"""The length of a word that is not cut."""


def word_start(text: str, at: int) -> int:
    """Return the place, or that of the next word after it, if the place is inside a word."""
    if at <= 0 or text[at - 1].isspace():
        return at
    space = text.find(" ", at, at + _WORD_MAX)
    return space + 1 if space >= 0 else at


def word_end(text: str, at: int) -> int:
    """Return the place, or the end of the word before it, if the place is inside a word."""
    if at >= len(text) or text[at].isspace():
        return at
    space = text.rfind(" ", at - min(_WORD_MAX, at // 4), at)
    return space + 1 if space >= 0 else at


def short(text: str, most: int) -> str:
    """Return a text on one line, with white space folded, cut to ``most`` characters."""
    return short_end(" ".join(text.split()), most)


def short_both(first: str, second: str, most: int) -> tuple[str, str]:
    """Return two texts as `short` does, cut so that their first difference is visible."""
    lines = " ".join(first.split()), " ".join(second.split())
    if lines[0] == lines[1] and first != second:
        lines = repr(first), repr(second)  # They differ in white space only.
    return cut_both(*lines, most)


def cut_both(first: str, second: str, most: int) -> tuple[str, str]:
    """Return two texts cut to ``most`` characters so that their first difference is visible."""
    longer = max(len(first), len(second))
    if longer > most:
        first, second = without_secrets_in(first), without_secrets_in(second)
        longer = max(len(first), len(second))
    # Show as much after the difference as before it.
    start = min(parted_at(first, second) - most // 2, longer - most + 1) if longer > most else 0
    start = max(0, start)
    return short_from(first, start, most), short_from(second, start, most)


def parted_at(first: str, second: str) -> int:
    """Return the index of the first character that differs, or the shorter length if none does."""
    return next(
        (at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
        min(len(first), len(second)),
    )


def exception_text(problem: BaseException) -> str:
    """Return an exception as ``Type: message``, or its type alone if its message raises."""
    problem = single_failure(problem)
    kind = type(problem).__name__
    try:
        # anyio's cancellations name their scope by an address of this process.
        is_of_a_scope = kind == "CancelledError" and " cancel scope " in str(problem)
        return kind if is_of_a_scope else f"{kind}: {problem}"
    except Exception:  # Other people's code makes the message.
        return kind


def single_failure(problem: BaseException) -> BaseException:
    """Return a task group's single failure: anyio wraps all that fails beside a client of MCP."""
    while isinstance(problem, BaseExceptionGroup) and len(problem.exceptions) == 1:
        problem = problem.exceptions[0]
    return problem


def shell_word(text: str) -> str:
    """Return a text as one word of a command that a user copies into a shell.

    A text with an apostrophe is put in double quotes, where the shell leaves it as it is:
    ``"a.yaml::it's late"`` is easier to read than what `shlex.quote` makes of it.
    """
    is_plain = not set(text) & set('"$`\\!\n')
    return f'"{text}"' if "'" in text and is_plain else shlex.quote(text)


def near(word: str, known: Iterable[str]) -> str:
    """Return the element of ``known`` that ``word`` probably means, or an empty text.

    Case, hyphens and leading zeros do not matter: ``CTX-1`` is ``CTX-01``.
    """
    spelled = {name.lower(): name for name in known}
    if not word or not spelled:
        return ""
    squeezed = {_squeezed(name): name for name in spelled}
    if same := squeezed.get(_squeezed(word.lower())):
        return spelled[same]
    # Imported here because most files contain no misspelled word.
    import difflib

    matches = difflib.get_close_matches(word.lower(), spelled, n=1)
    return spelled[matches[0]] if matches else ""


def _squeezed(name: str) -> str:
    return re.sub(r"(?<!\d)0+(?=\d)|[-_ ]", "", name)


def guess(word: str, known: Iterable[str], question: str = " Did you mean `{}`?") -> str:
    """Return a question about the element that ``word`` probably means; empty if there is none."""
    nearest = near(word, known)
    return question.replace("{}", nearest) if nearest else ""


def hinted(problem: str, nearest: str, known: Iterable[str], advice: str = "") -> str:
    """Return a problem with what was near, and the known words or else advice, on one line."""
    question = f"did you mean `{nearest}`?" if nearest else ""
    known_text = ", ".join(known)
    listed = f"known: {known_text}" if known_text else advice
    ends = " " if question else "; "
    return "; ".join(filter(None, (problem, ends.join(filter(None, (question, listed))))))


@cache
def other_words(kind: str) -> Mapping[str, Sequence[str]]:
    """Return words of other tools, of a kind as ``keys`` or ``phrases``, with those here."""
    # Imported here because most files contain no foreign word.
    import msgspec

    words = msgspec.yaml.decode(Path(__file__).with_name("other_words.yaml").read_bytes())
    return cast("Mapping[str, Sequence[str]]", words[kind])


def likely_word(word: str, known: Collection[str], kind: str = "keys") -> str:
    """Return the known word for an unknown one: its synonym, or the nearest in spelling.

    >>> likely_word("stub", ["replies", "tool_results"])
    'tool_results'
    """
    return synonym_of(word, known, kind) or near(word, known)


def synonym_of(word: str, known: Collection[str], kind: str = "keys") -> str:
    """Return the known word that means the same as one of another tool; empty if there is none."""
    return next((name for name in other_words(kind).get(word.lower(), ()) if name in known), "")


class Open(tuple[str, ...]):
    """Names that are not a complete list: only a near miss of one of them is a mistake."""

    __slots__ = ()

    def __contains__(self, word: object) -> bool:
        return super().__contains__(word) or not (isinstance(word, str) and near(word, self))
