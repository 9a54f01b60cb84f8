"""Lists: complete and ordered, each element, some elements, a subsequence, any order.

To show what differs, lists are aligned: as many elements as possible are paired in order.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from simkit.core.errors import MatcherError
from simkit.core.messages import ABSENT, Dropped, Message
from simkit.language.matching.misses import (
    NOTHING,
    Build,
    Condition,
    Miss,
    Path,
    Phrase,
    WantedElement,
    distance,
    matchers,
    prefixed,
    refused,
    text_operand,
    unless,
)
from simkit.language.matching.values import is_list, structure_of
from simkit.language.paths import getter

W = TypeVar("W")


def aligned(
    expected: Sequence[W], actual: Sequence[Any], differs: Callable[[W, Any], bool]
) -> list[tuple[int, int]]:
    """Return the index pairs of an alignment: matching elements first, then those between."""
    low = 0
    while low < min(len(expected), len(actual)) and not differs(expected[low], actual[low]):
        low += 1
    left, right = len(expected), len(actual)
    while left > low and right > low and not differs(expected[left - 1], actual[right - 1]):
        left, right = left - 1, right - 1
    middle = list(_matching(expected[low:left], actual[low:right], differs))
    anchors = [*((low + a, low + b) for a, b in middle), (left, right)]
    pairs = [(index, index) for index in range(low)]
    a, b = low, low
    for next_a, next_b in anchors:
        pairs += zip(range(a, next_a), range(b, next_b), strict=False)
        if next_a < left:
            pairs.append((next_a, next_b))
        a, b = next_a + 1, next_b + 1
    return [*pairs, *zip(range(left, len(expected)), range(right, len(actual)), strict=True)]


def _matching(
    expected: Sequence[W], actual: Sequence[Any], differs: Callable[[W, Any], bool]
) -> Iterator[tuple[int, int]]:
    """Yield the longest sequence of pairs that match, both rising."""
    rows, columns = len(expected), len(actual)
    if rows * columns > _ALIGNED_MAX:
        return
    fits = [[not differs(left, right) for right in actual] for left in expected]
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    for a in reversed(range(rows)):
        for b in reversed(range(columns)):
            step = best[a + 1][b + 1] + 1 if fits[a][b] else 0
            best[a][b] = max(step, best[a + 1][b], best[a][b + 1])
    a = b = 0
    while a < rows and b < columns:
        if fits[a][b] and best[a][b] == best[a + 1][b + 1] + 1:
            yield a, b
            a, b = a + 1, b + 1
        elif best[a + 1][b] >= best[a][b + 1]:
            a += 1
        else:
            b += 1


_SURPLUS_MAX: Final = 3
"""The number of surplus elements that are shown one by one."""
_ALIGNED_MAX: Final = 2_500
"""The number of pairs up to which the best alignment is computed, so that matching stays cheap."""
_NEAREST_MAX: Final = 200
"""The number of elements that are searched for the nearest one."""


def whole(operand: list[Any], at: Path, build: Build) -> Condition:
    """Return the matcher of a complete list in order."""
    elements = matchers(operand, at, build, least=0)

    def misses(value: Sequence[Any]) -> Iterator[Miss]:
        if len(value) != len(elements):
            yield from _uneven(elements, value, at)
            return
        for index, (element, inner) in enumerate(zip(elements, value, strict=True)):
            for miss in element.inner.misses(inner):
                yield prefixed(index, miss)

    return _of_list("", operand, at, misses)


def _of_list(
    operator: str, operand: Any, at: Path, misses: Callable[[Sequence[Any]], Iterable[Miss]]
) -> Condition:
    """Return the condition on the elements of a list; no other value matches."""

    def misses_of_any(value: Any) -> Iterable[Miss]:
        value = structure_of(value)
        return misses(value) if is_list(value) else (Miss((), at, operator, operand, value),)

    return unless(misses_of_any)


def _uneven(elements: list[WantedElement], value: Sequence[Any], at: Path) -> Iterator[Miss]:
    """Yield the mismatches of the alignment with the most matching elements."""
    pairs = dict(aligned(elements, value, lambda element, inner: not element.inner.holds(inner)))
    if not pairs:
        pairs = {number: number for number in range(min(len(elements), len(value)))}
    answers = set(pairs.values())
    note = f"{len(elements)} wanted, {len(value)} found"
    surplus = [index for index in range(len(value)) if index not in answers]
    listed = set(surplus[:_SURPLUS_MAX])
    index = 0
    for number, element in enumerate(elements):
        end = pairs.get(number, index)
        yield from _surplus(value, range(index, end), listed, at, note)
        index = end
        if number in pairs:
            for miss in element.inner.misses(value[index]):
                yield prefixed(index, miss)
            index += 1
        else:
            yield Miss((index,), element.at, "", element.source, NOTHING, note)
    yield from _surplus(value, range(index, len(value)), listed, at, note)
    if len(surplus) > _SURPLUS_MAX:
        more = Phrase(f"{len(surplus) - _SURPLUS_MAX} more elements")
        yield Miss((surplus[_SURPLUS_MAX],), at, "", NOTHING, more, note)


def _surplus(
    value: Sequence[Any], places: range, listed: Container[int], at: Path, note: str
) -> Iterator[Miss]:
    for index in places:
        if index in listed:
            yield Miss((index,), at, "", NOTHING, value[index], note)


def each(operand: Any, at: Path, build: Build) -> Condition:
    """Return the matcher that every element must match."""
    inner = build(operand, at)

    def misses(value: Sequence[Any]) -> Iterator[Miss]:
        for index, element in enumerate(value):
            for miss in inner.misses(element):
                yield prefixed(index, miss)

    return _of_list("$each", operand, at, misses)


def has(operand: Any, at: Path, build: Build) -> Condition:
    """Return the matcher that finds each expected element in a distinct one, in any order."""
    if isinstance(operand, (list, tuple)):
        elements = matchers(operand, at, build)
    else:
        elements = [WantedElement(build(operand, at), operand, at)]

    def misses(value: Sequence[Any]) -> Iterator[Miss]:
        pairing = _paired(elements, value)
        for index, element in enumerate(elements):
            if index not in pairing.values():
                note = _why_not(element, value)
                yield Miss((), element.at, "$has", element.source, value, note)

    return _of_list("$has", operand, at, misses)


def unordered(operand: Any, at: Path, build: Build) -> Condition:
    """Return the matcher of a complete list in any order."""
    elements = matchers(operand, at, build, least=0)

    def misses(value: Sequence[Any]) -> Iterator[Miss]:
        pairing = _paired(elements, value)
        for index, element in enumerate(elements):
            if index not in pairing.values():
                note = _why_not(element, value)
                yield Miss((), element.at, "", element.source, NOTHING, note)
        for index, inner in enumerate(value):
            if index not in pairing:
                yield Miss((index,), at, "", NOTHING, inner)

    return _of_list("$unordered", operand, at, misses)


def in_order(operand: Any, at: Path, build: Build) -> Condition:
    """Return the matcher that finds the expected elements in order, with gaps."""
    elements = matchers(operand, at, build)

    def misses(value: Sequence[Any]) -> Iterator[Miss]:
        rest: Iterator[tuple[int, Any]] = iter(enumerate(value))
        before, last, is_behind = -1, 0, False
        for number, element in enumerate(elements, 1):
            holds = element.inner.holds
            match = next((index for index, inner in rest if holds(inner)), None)
            if match is not None:
                before, last = match, number
                continue
            rest = islice(enumerate(value), before + 1, None)
            is_early = any(map(holds, islice(value, before + 1)))
            # After one that is too early, others may only seem to be.
            if not (is_behind and is_early):
                yield _out_of_order(element, last, before, value)
            is_behind |= is_early

    return _of_list("$in_order", operand, at, misses)


def _out_of_order(element: WantedElement, number: int, before: int, value: Sequence[Any]) -> Miss:
    if before < 0:
        return Miss((), element.at, "$in_order", element.source, value, _why_not(element, value))

    def note() -> str:
        earlier = next((i for i in range(before) if element.inner.holds(value[i])), None)
        if earlier is not None:
            return f"number {earlier + 1} fits, but is too early"
        return _why_not(element, value)()

    phrase = Phrase(f"none after number {before + 1}, which is element {number} of those wanted")
    return Miss((), element.at, "$in_order", element.source, phrase, note)


UNIQUE_KEYS: Final = ("by", "of")
_UNIQUE: Final = "`true`, a key or a list of keys, or `{of: MATCHER, by: KEYS}`"


def unique(operand: Any, at: Path, build: Build) -> Condition:
    """Return the matcher of a list without two equal elements.

    ``by`` names the keys that are compared, of elements that have them; ``of`` matches the elements
    that are compared.
    """
    keys, matcher = unique_parts(operand, at)
    inner = None if matcher is ABSENT else build(matcher, (*at, "of"))
    reads = [getter(key) for key in keys]

    def misses(value: Sequence[Any]) -> Iterator[Miss]:
        first_indexes: dict[Hashable, int] = {}
        for index, element in enumerate(value):
            if inner is not None and not inner.holds(element):
                continue
            values = [read(structure_of(element)) for read in reads] or [element]
            if ABSENT in values:
                continue
            first = first_indexes.setdefault(_comparable(values), index)
            if first != index:
                actual = values[0] if len(values) == 1 else values
                yield Miss(
                    (index,), at, "$unique", operand, actual, f"number {first + 1} has the same"
                )

    return _of_list("$unique", operand, at, misses)


def unique_parts(operand: Any, at: Path = ()) -> tuple[list[str], Any]:
    """Return the keys that ``$unique`` compares, and the matcher of elements, or ABSENT.

    No keys mean whole elements. Raise MatcherError for another operand.
    """
    matcher: Any = ABSENT
    if isinstance(operand, Mapping):
        for key in operand:
            if key not in UNIQUE_KEYS:
                raise MatcherError((*at, key), f"`$unique` takes {_UNIQUE}", key, UNIQUE_KEYS)
        if not operand:
            raise refused(at, _UNIQUE, operand)
        matcher = operand.get("of", ABSENT)
        operand = operand.get("by", True)
    if operand is True:
        return [], matcher
    if operand is False or operand is None or operand == [] or isinstance(operand, Mapping):
        raise refused(at, _UNIQUE, operand)
    keys = operand if isinstance(operand, (list, tuple)) else [operand]
    return [text_operand(key, at) for key in keys], matcher


def _comparable(value: Any) -> Hashable:
    """Return what is equal for equal values: `1` is `1.0`, `true` is not `1`."""
    value = structure_of(value.message if isinstance(value, Dropped) else value)
    if isinstance(value, Message):
        calls = [(call.name, call.args) for call in value.calls]
        return ("message", value.role, value.content, _comparable(calls))
    if isinstance(value, Mapping):
        return frozenset((key, _comparable(inner)) for key, inner in value.items())
    if is_list(value):
        return tuple(_comparable(inner) for inner in value)
    return (value.__class__ is bool, value) if isinstance(value, Hashable) else repr(value)


def _paired(elements: list[WantedElement], value: Sequence[Any]) -> dict[int, int]:
    """Return the largest pairing, index of the actual → index of the expected element."""
    pairing: dict[int, int] = {}
    results: dict[tuple[int, int], bool] = {}

    def matches(number: int, index: int) -> bool:
        if (number, index) not in results:
            results[number, index] = elements[number].inner.holds(value[index])
        return results[number, index]

    def place(number: int, tried: set[int]) -> bool:
        for index in range(len(value)):
            if index in tried or not matches(number, index):
                continue
            tried.add(index)
            if index not in pairing or place(pairing[index], tried):
                pairing[index] = number
                return True
        return False

    for number in range(len(elements)):
        place(number, set())
    return pairing


def _why_not(element: WantedElement, value: Sequence[Any]) -> Callable[[], str]:
    """Return the message about the actual element that is nearest to the expected one."""

    def note() -> str:
        best: tuple[float, int, list[Miss]] | None = None
        for index, inner in enumerate(islice(value, _NEAREST_MAX)):
            misses = list(element.inner.misses(inner))
            if not misses:
                return f"number {index + 1} fits, but is the match of another element"
            far = distance(misses)
            if best is None or far < best[0]:
                best = far, index, misses
        if best is None:
            return "the list is empty"
        far, index, misses = best
        if far >= len(misses) and len(value) > 1 and not any(miss.path for miss in misses):
            return ""
        if len(misses) == 1 and not misses[0].path:
            return ""
        first = misses[0].rendered()
        where = ".".join(str(part) for part in first.path)
        at = f"at {where} " if where else ""
        return f"nearest is number {index + 1}: {at}wanted {first.expected}, found {first.actual}"

    return note
