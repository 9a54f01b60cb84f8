"""Conditions, the operands of operators, and mismatches.

A mismatch is made in two steps: found first, and worded only when its text is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from simkit.core.errors import MatcherError
from simkit.core.text import late_pattern
from simkit.language.matching.rendering import (
    LINE_MAX,
    Phrase,
    common_block,
    differing,
    end_of,
    line,
    near,
)
from simkit.language.matching.values import (
    TEXT_KINDS,
    number_of,
    searched_text,
    source_text,
    text_of,
    texts_in,
)

_SEARCHED: Final = ("$contains", "$regex", "$not", "$either", "$in")
"""Operators for which a long text is cut around the place nearest to the operand."""
Part: TypeAlias = str | int
Path: TypeAlias = tuple[Part, ...]


class Mismatch(msgspec.Struct, frozen=True, gc=False):
    """One worded mismatch between a value and a matcher."""

    path: Path
    """The path in the value; a key is written as in the matcher: ``state["messages[-1]"]``."""
    expected: str
    actual: str
    note: str = ""
    """A hint at the cause; may be empty."""
    at: Path = ()
    """The path in the matcher, operators included; a scenario file has a line for it."""


class Miss(msgspec.Struct, frozen=True, gc=False):
    """A mismatch without its words."""

    path: Path
    at: Path
    operator: str
    """The operator that does not hold; empty for plain equality."""
    operand: Any
    actual: Any
    note: str | Callable[[], str] = ""

    def rendered(self) -> Mismatch:
        """Return the worded mismatch."""
        expected, actual = self._words()
        note = self.note if isinstance(self.note, str) else self.note()
        return Mismatch(self.path, expected, actual, note, self.at)

    def _words(self) -> tuple[str, str]:
        if self.operator:
            return line(Phrase(f"{self.operator}: {line(self.operand)}")), self._place()
        operand, value = self.operand, self.actual
        if isinstance(value, TEXT_KINDS) and not isinstance(operand, (dict, list)):
            operand = operand if isinstance(operand, Phrase) else source_text(operand)
            value = value if isinstance(operand, Phrase) else text_of(value)
        plain = not isinstance(operand, Phrase) and not isinstance(value, Phrase)
        if plain and isinstance(operand, str) and isinstance(value, str):
            return differing(operand, value)
        return line(operand), line(value)

    def _place(self) -> str:
        """Return the actual value; of a long text the part nearest to the operand."""
        value = self.actual
        excerpt = line(value)
        is_cut = len(excerpt) == LINE_MAX and excerpt.endswith("…")
        text = None if isinstance(value, Phrase) or not is_cut else searched_text(value)
        if text is None:
            return excerpt
        if self.operator == "$ends":
            return end_of(text_of(value) or text)
        if self.operator not in _SEARCHED:
            return excerpt
        is_json = text_of(value) is None
        return near(text, texts_in({self.operator: self.operand}), is_json=is_json) or excerpt


Test: TypeAlias = Callable[[Any], bool]
Misses: TypeAlias = Callable[[Any], Iterable[Miss]]


class Condition(NamedTuple):
    """A compiled matcher: a test of a value, and the reasons why it fails."""

    holds: Test
    misses: Misses
    """Yields the misses of a value lazily; none exactly if it holds."""


Build: TypeAlias = Callable[[Any, Path], Condition]
"""Compiles the matcher at a path."""


def prefixed(key: Part, miss: Miss) -> Miss:
    """Return an inner value's miss with the outer key in front of its path."""
    return Miss((key, *miss.path), miss.at, miss.operator, miss.operand, miss.actual, miss.note)


def leaf(operator: str, operand: Any, at: Path, test: Test) -> Condition:
    """Return the condition that holds if a test does."""

    def misses(value: Any) -> Iterable[Miss]:
        return () if test(value) else (Miss((), at, operator, operand, value),)

    return Condition(test, misses)


def unless(misses: Misses) -> Condition:
    """Return the condition that holds if there is no miss."""

    def holds(value: Any) -> bool:
        for _ in misses(value):
            return False
        return True

    return Condition(holds, misses)


def conjunction(parts: Sequence[Condition]) -> Condition:
    """Return the condition that holds if all parts do."""

    def misses(value: Any) -> Iterator[Miss]:
        for part in parts:
            yield from part.misses(value)

    return Condition(lambda value: all(part.holds(value) for part in parts), misses)


# Nearness of a value to a matcher: 0 is equal, 1 has nothing in common


FAR: Final = 0.75
"""The distance from which a value is not shown as near."""
_SHORT: Final = 40
"""The length up to which texts are compared by letters; longer ones are compared by words."""
_WORD: Final = late_pattern(r"\w+")
_PART: Final = ("$contains", "$starts", "$ends")


def distance(misses: Iterable[Miss]) -> float:
    """Return the distance of a value from a matcher, as the sum over its misses."""
    return sum(map(_distance, misses))


def _distance(miss: Miss) -> float:
    expected = _text(miss.operand)
    if expected is None or (miss.operator and miss.operator not in _PART):
        return 1.0
    if miss.path[-1:] == ("role",):
        return 1.0  # Roles with similar letters are not nearer to each other.
    if miss.operator:
        searched = searched_text(miss.actual)
        if searched is None:
            return 1.0
        return 1.0 - common_block(searched, expected)[1] / len(expected)
    actual = text_of(miss.actual) if isinstance(miss.actual, TEXT_KINDS) else _text(miss.actual)
    return 1.0 if actual is None else 1.0 - _likeness(expected, actual)


def _text(value: Any) -> str | None:
    """Return a scalar's text; None for other values."""
    if value is None or isinstance(value, bool):
        return None
    return source_text(value) if isinstance(value, (str, int, float)) else None


def _likeness(left: str, right: str) -> float:
    if max(len(left), len(right)) <= _SHORT:
        # Only what failed is compared with what was expected.
        from difflib import SequenceMatcher

        return SequenceMatcher(None, left, right, autojunk=False).ratio()
    words, others = Counter(_WORD.findall(left)), Counter(_WORD.findall(right))
    size = words.total() + others.total()
    return 2 * (words & others).total() / size if size else 0.0


Compile: TypeAlias = Callable[[Any, Path, Build], Condition]
"""Compiles an operator, from the operand, its path, and the function that compiles inner
matchers."""


def refused(at: Path, takes: str, operand: Any, advice: str = "") -> MatcherError:
    """Return the error about an operand of the wrong kind."""
    operator = next(part for part in reversed(at) if isinstance(part, str))
    return MatcherError(at, f"`{operator}` takes {takes}, not {line(operand)}", "", (), advice)


def only_true(operand: Any, at: Path) -> None:
    """Raise MatcherError for any operand but ``true``."""
    if operand is not True:
        other = "$any" if at[-1] == "$absent" else "$absent"
        advice = f"the opposite is `{{{other}: true}}`" if operand is False else ""
        raise refused(at, "only `true`", operand, advice)


def number_operand(operand: Any, at: Path) -> int | float:
    """Return a number."""
    number = number_of(operand)
    if number is None:
        raise refused(at, "a number", operand)
    return number


class WantedElement(NamedTuple):
    """One of the matchers in an operand or a list."""

    inner: Condition
    source: Any
    at: Path


def matchers(operand: Any, at: Path, build: Build, least: int = 1) -> list[WantedElement]:
    """Return a list of at least ``least`` compiled matchers."""
    if not isinstance(operand, (list, tuple)):
        raise refused(at, "a list", operand)
    if len(operand) < least:
        raise refused(at, "a list that is not empty", operand)
    return [
        WantedElement(build(matcher, (*at, index)), matcher, (*at, index))
        for index, matcher in enumerate(operand)
    ]


def text_operand(operand: Any, at: Path) -> str:
    """Return a non-empty scalar as the text in the file."""
    if operand is None or not isinstance(operand, (str, int, float)):
        raise refused(at, "a text", operand)
    text = source_text(operand)
    if not text:
        raise refused(at, "a text that is not empty", operand, "every text contains the empty one")
    return text
