"""Conditions, the operands of operators, and mismatches in words.

A mismatch is made in two steps: found first, and worded only when its text is needed: values and
matchers on one short line, and two texts cut around their first difference.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from simkit.core.errors import MatcherError
from simkit.core.messages import ABSENT, Dropped, Message, Null, ToolCall
from simkit.core.text import (
    late_pattern,
    parted_at,
    short_from,
    without_secrets_in,
    word_end,
    word_start,
)
from simkit.language.matching import values

LINE_MAX: Final = 120
"""The length of one rendering in characters."""
_BEFORE: Final = 30
"""Characters shown before the first difference of two long texts."""
_ITEMS_MAX: Final = 12
_SEARCHED_MAX: Final = 100_000
"""Characters of a text that are searched for the place nearest to another text."""
_BLOCK_LEAST: Final = 4
"""The least length of a common part, within words, that makes a place near."""
_NEAR_LEAST: Final = 0.25
"""The least share of the wanted letters at a place that is near."""


class Phrase(str):
    """Words of simkit in the place of a value; they are printed without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


NOTHING: Final = Phrase("nothing")


def line(value: Any) -> str:
    """Return a value as one line of YAML's flow style, at most LINE_MAX characters."""
    return _cut(_flow(value))


def differing(left: str, right: str) -> tuple[str, str]:
    """Return two texts, quoted; long ones are cut around the first character that differs."""
    if len(left) <= LINE_MAX and len(right) <= LINE_MAX:
        return _quoted(left), _quoted(right)
    left, right = without_secrets_in(left), without_secrets_in(right)
    start = max(0, parted_at(left, right) - _BEFORE)
    return _window(left, start), _window(right, start)


def near(text: str, texts: Sequence[str], *, is_json: bool = False) -> str:
    """Return a long text cut around the place nearest to one of ``texts``; else empty.

    The JSON of a value is shown as it is searched, without quotes around it.
    """
    text = without_secrets_in(text)
    share, start = max(
        (nearest_place(text, wanted_text) for wanted_text in texts), default=(0.0, 0)
    )
    if not share:
        return ""
    end = min(len(text), max(0, start - _BEFORE) + LINE_MAX - _BEFORE)
    return _window(text, max(0, end - LINE_MAX + _BEFORE), str if is_json else _quoted)


def end_of(text: str) -> str:
    """Return the end of a text, quoted."""
    text = without_secrets_in(text)
    return _window(text, max(0, len(text) - LINE_MAX + _BEFORE))


def nearest_place(text: str, wanted_text: str) -> tuple[float, int]:
    """Return the share of a wanted text at the place where most of it is, and that place.

    The share is 0 if nothing is near: words count whole, and parts of words only if they are half
    of what is wanted.
    """
    text = text[:_SEARCHED_MAX]
    words = {word.lower() for word in _WORD.findall(wanted_text)}
    hits = [
        (hit.start(), word) for hit in _WORD.finditer(text) if (word := hit[0].lower()) in words
    ]
    rarity = {word: len(word) / count for word, count in Counter(word for _, word in hits).items()}
    best, best_start = set[str](), 0
    weight = 0.0
    for index, (start, _) in enumerate(hits):
        together = set[str]()
        for at, word in islice(hits, index, None):
            if at >= start + LINE_MAX - 2 * _BEFORE:
                break
            together.add(word)
        if (heavier := sum(map(rarity.__getitem__, together))) > weight:
            best, best_start, weight = together, start, heavier
    share = sum(map(len, best)) / max(1, sum(map(len, words)))
    if share < 1:
        at, size = _common_block(text, wanted_text)
        part = size / len(wanted_text) if size >= max(_BLOCK_LEAST, len(wanted_text) / 2) else 0.0
        share, best_start = max((share, best_start), (part, at))
    return (share, best_start) if share >= _NEAR_LEAST else (0.0, 0)


def _common_block(text: str, expected: str) -> tuple[int, int]:
    """Return the place of the longest common part with another text, and its length."""
    # Only what failed is compared with what was expected.
    from difflib import SequenceMatcher

    block = SequenceMatcher(None, text, expected, autojunk=False).find_longest_match()
    return block.a, block.size


def _window(text: str, start: int, show: Callable[[str], str] | None = None) -> str:
    start = word_start(text, start)
    end = word_end(text, start + LINE_MAX - _BEFORE)
    before, after = "…" if start else "", "…" if end < len(text) else ""
    return f"{before}{(show or _quoted)(text[start:end])}{after}"


def _cut(text: str) -> str:
    return short_from(text, 0, LINE_MAX)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _flow(value: Any) -> str:
    if isinstance(value, Phrase):
        return str(value)
    if isinstance(value, values.Content):
        value = value.text
    if isinstance(value, str):
        if len(value) > LINE_MAX:
            value = without_secrets_in(value[:_SEARCHED_MAX])[: LINE_MAX + 1]
        return _quoted(value)
    if value is ABSENT or isinstance(value, Null):
        return repr(value)
    if isinstance(value, (Message, Dropped)):
        return _flow(_fields_spoken(value))
    if isinstance(value, ToolCall):
        return _flow({value.name: value.args})
    if isinstance(value, Mapping):
        return "{" + _joined((f"{_key(k)}: {_flow(v)}" for k, v in value.items()), len(value)) + "}"
    if values.is_list(value):
        return "[" + _joined((_flow(item) for item in value), len(value)) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    """Return a number, true, false or null as JSON, and another object by its fields or type."""
    if value is None or isinstance(value, (bool, int, float)):
        return str(getattr(value, "source", None) or json.dumps(value))
    try:
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
    except TypeError:
        return f"<{type(value).__name__}>"


def _joined(items: Any, count: int) -> str:
    listed = list(islice(items, _ITEMS_MAX))
    if count > len(listed):
        listed.append(f"… {count} in all")
    return ", ".join(listed)


def _key(key: Any) -> str:
    text = str(key)
    return text if text and not set(text) & set(":{}[],\"'#\n") else _quoted(text)


def _fields_spoken(value: Message | Dropped) -> dict[str, Any]:
    """Return a message as a matcher that a scenario would write for it."""
    message = value.message if isinstance(value, Dropped) else value
    fields: dict[str, Any] = {message.role: message.content}
    if message.agent is not None:
        fields["agent"] = message.agent
    if message.calls:
        fields["calls"] = message.calls
    if isinstance(value, Dropped):
        fields |= {"what": value.what, "by": value.by}
    return fields


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
        if isinstance(value, values.TEXT_KINDS) and not isinstance(operand, (dict, list)):
            operand = operand if isinstance(operand, Phrase) else values.source_text(operand)
            value = value if isinstance(operand, Phrase) else values.text_of(value)
        are_literal = not isinstance(operand, Phrase) and not isinstance(value, Phrase)
        if are_literal and isinstance(operand, str) and isinstance(value, str):
            return differing(operand, value)
        return line(operand), line(value)

    def _place(self) -> str:
        """Return the actual value; of a long text the part nearest to the operand, if one is."""
        value = self.actual
        excerpt = _flow(value)
        is_cut, excerpt = len(excerpt) > LINE_MAX, _cut(excerpt)
        text = None if isinstance(value, Phrase) or not is_cut else values.searched_text(value)
        if text is None:
            return excerpt
        if self.operator == "$ends":
            return end_of(values.text_of(value) or text)
        if self.operator not in _SEARCHED:
            return excerpt
        is_json = values.text_of(value) is None
        passage = near(text, values.texts_in({self.operator: self.operand}), is_json=is_json)
        if not passage:
            passage = f"nothing near it in {len(text):,} characters: "
            passage += short_from(excerpt, 0, LINE_MAX - len(passage))
        return passage


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

    return unless(misses)


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
        searched = values.searched_text(miss.actual)
        return 1.0 if searched is None else 1.0 - nearest_place(searched, expected)[0]
    actual = (
        values.text_of(miss.actual)
        if isinstance(miss.actual, values.TEXT_KINDS)
        else _text(miss.actual)
    )
    return 1.0 if actual is None else 1.0 - _likeness(expected, actual)


def _text(value: Any) -> str | None:
    """Return a scalar's text; None for other values."""
    if value is None or isinstance(value, bool):
        return None
    return values.source_text(value) if isinstance(value, (str, int, float)) else None


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
    number = values.number_of(operand)
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
    text = values.source_text(operand)
    if not text:
        raise refused(at, "a text that is not empty", operand, "every text contains the empty one")
    return text
