"""The first place at which two runs part: what the lints that compare runs say of them.

Ids are counters over a whole run and differ where other turns ran before, so they are left out of
what is compared, also inside texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from simkit.core.messages import Message
from simkit.core.text import short_both
from simkit.language.paths import as_text
from simkit.trace.reducers import Appended
from simkit.trace.views import CallView, MadePart, RunView, ShownPart, TurnView

SHOWN_MAX: Final = 120
"""Characters of a value that a difference shows."""
_ID: Final = re.compile(r"\b(call|[mrhcgk])\d+\b")


class Parting(msgspec.Struct, frozen=True):
    """The first place where two turns are not equal."""

    turn: int
    """The first run's turn, counted from 1."""
    agent: str
    at: str
    """What differs: ``reply``, ``context of coach: messages[2]``, ``state.count``, …"""
    one: str
    other: str


def first_parting(pairs: Iterable[tuple[TurnView, TurnView]]) -> Parting | None:
    """Returns the first difference of turns held side by side; None if they are equal."""
    sides = _Sides()
    for one, other in pairs:
        for agent, at, left, right in _differences(one, other, sides):
            shown = short_both(as_text(left), as_text(right), SHOWN_MAX)
            return Parting(one.number, agent, at, *shown)
    return None


class _Sides:
    """What of the lists that grow from turn to turn is known to be equal in both runs.

    Each item is compared once, however many contexts and states hold it.
    """

    def __init__(self) -> None:
        self._equal: dict[tuple[int, ...], int] = {}

    def same(self, key: tuple[int, ...], one: Sequence[Any], other: Sequence[Any], to: int) -> bool:
        """Whether the first items of two lists are equal; a key stands for lists that only grow."""
        known = self._equal.get(key, 0)
        for place in range(known, to):
            if plain(one[place]) != plain(other[place]):
                return False
        self._equal[key] = max(known, to)
        return True

    def same_value(self, one: Any, other: Any) -> bool:
        """Whether two values of a channel are equal."""
        if not isinstance(one, Appended) or not isinstance(other, Appended):
            return bool(plain(one) == plain(other))
        key = (one.family, one.start, other.family, other.start)
        return len(one) == len(other) and self.same(key, one, other, len(one))

    def same_context(self, one: CallView, other: CallView) -> bool:
        """Whether two contexts show the same; False where that takes a look at the whole."""
        left, right = one.context, other.context
        return (
            len(left.parts) == len(right.parts)
            and plain(left.said) == plain(right.said)
            and all(self._same_part(*parts) for parts in zip(left.parts, right.parts, strict=True))
        )

    def _same_part(self, one: MadePart | ShownPart, other: MadePart | ShownPart) -> bool:
        if isinstance(one, MadePart) or isinstance(other, MadePart):
            both_made = isinstance(one, MadePart) and isinstance(other, MadePart)
            return both_made and bool(plain(one.message) == plain(other.message))
        places = (one.lo, one.hi), (other.lo, other.hi)
        extras = (one.summary, one.rendered, one.tail), (other.summary, other.rendered, other.tail)
        return (
            places[0] == places[1]
            and plain(extras[0]) == plain(extras[1])
            and self.same(
                (id(one.stream), id(other.stream)), one.stream.entries, other.stream.entries, one.hi
            )
        )


def _differences(
    one: TurnView, other: TurnView, sides: _Sides
) -> Iterator[tuple[str, str, Any, Any]]:
    agents = [run.agent for run in one.runs], [run.agent for run in other.runs]
    if agents[0] != agents[1]:
        yield "", "agents", agents[0], agents[1]
    for left, right in zip(one.runs, other.runs, strict=False):
        for at, mine, its in _run_differences(left, right, sides):
            yield left.agent, at, mine, its
    for name in ("reply", "interrupt"):
        mine, its = getattr(one, name), getattr(other, name)
        if mine != its:
            yield "", name, mine, its
    errors = [turn.error and (turn.error.type, turn.error.message) for turn in (one, other)]
    if errors[0] != errors[1]:
        yield "", "error", errors[0], errors[1]
    for name in dict.fromkeys((*one.state, *other.state)):
        mine, its = one.state.get(name), other.state.get(name)
        if not sides.same_value(mine, its):
            for place in _parted(plain(mine), plain(its), f"state.{name}"):
                yield "", *place


def _run_differences(one: RunView, other: RunView, sides: _Sides) -> Iterator[tuple[str, Any, Any]]:
    yield from _parted(plain(one.input), plain(other.input), f"input of {one.agent}")
    for number, (left, right) in enumerate(zip(one.calls, other.calls, strict=False)):
        if sides.same_context(left, right):
            continue
        where = f"context of {one.agent}" + (f" [{number}]" if number else "")
        mine = [plain(message) for message in left.context.messages]
        its = [plain(message) for message in right.context.messages]
        yield from _parted(mine, its, f"{where}: messages")
    if len(one.calls) != len(other.calls):
        yield f"model calls of {one.agent}", len(one.calls), len(other.calls)
    yield from _parted(plain(one.output), plain(other.output), f"output of {one.agent}")
    yield from _parted(plain(one.update), plain(other.update), f"update of {one.agent}")


def _parted(one: Any, other: Any, at: str) -> Iterator[tuple[str, Any, Any]]:
    """Yields the first place below a value at which two are not equal."""
    if one == other:
        return
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            if key not in one or key not in other or one[key] != other[key]:
                yield from _parted(one.get(key), other.get(key), f"{at}.{key}")
                return
    if isinstance(one, list) and isinstance(other, list):
        for place, (left, right) in enumerate(zip(one, other, strict=False)):
            if left != right:
                yield from _parted(left, right, f"{at}[{place}]")
                return
        yield f"{at}: length", len(one), len(other)
        return
    yield at, one, other


def plain(value: Any) -> Any:
    """Returns a value without ids: messages are what they say."""
    if isinstance(value, Message):
        said: dict[str, Any] = {"role": value.role, "content": plain(value.content)}
        if value.agent:
            said["agent"] = value.agent
        if value.calls:
            said["calls"] = [{call.name: plain(call.args)} for call in value.calls]
        return said
    if isinstance(value, str):
        return _ID.sub(r"\1#", value)
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [plain(inner) for inner in value]
    return value
