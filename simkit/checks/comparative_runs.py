"""Lints that compare two runs of a scenario, and the first difference of the two.

One run is without restarts, or with one session only.

STA-06 (langgraph#6792, agent-framework#3226) and STA-08 (agno#3937). The session makes the other
run; these functions only compare.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Any, Final

import msgspec

from simkit.checks.findings import Hit, Path
from simkit.core.messages import Message
from simkit.core.text import short_both
from simkit.language.paths import as_text
from simkit.spec.scenario.model import CUTS
from simkit.trace import events as e
from simkit.trace.diff.values import in_own_ids
from simkit.trace.reducers import Appended
from simkit.trace.views import CallView, HistoryView, InlinePart, RunView, TurnView, View

SHOWN_MAX: Final = 120
"""The number of characters of a value that a difference shows."""
_ID: Final = re.compile(r"\b(call|[mrhcgk])\d+\b")


class Parting(msgspec.Struct, frozen=True):
    """The first difference of two turns."""

    turn: int
    """The first run's turn, counted from 1."""
    agent: str
    at: str
    """The part that differs: ``reply``, ``context of coach: messages[2]``, ``state.count``, …"""
    left: str
    right: str


def first_parting(pairs: Iterable[tuple[TurnView, TurnView]]) -> Parting | None:
    """Return the first difference of paired turns; None if they are equal."""
    sides = _Sides()
    for before, after in pairs:
        for agent, at, left, right in _differences(before, after, sides):
            excerpts = short_both(as_text(left), as_text(right), SHOWN_MAX)
            return Parting(before.number, agent, at, *excerpts)
    return None


class _Sides:
    """Prefixes of growing lists that are known to be equal in both runs.

    Each item is compared once, however many contexts and states contain it.
    """

    def __init__(self) -> None:
        self._equal: dict[tuple[int, ...], int] = {}

    def same(
        self, key: tuple[int, ...], left: Sequence[Any], right: Sequence[Any], to: int
    ) -> bool:
        """Return whether the first items of two lists are equal.

        A key identifies a pair of growing lists.
        """
        compared = self._equal.get(key, 0)
        for index in range(compared, to):
            if no_ids(left[index]) != no_ids(right[index]):
                return False
        self._equal[key] = max(compared, to)
        return True

    def same_value(self, left: Any, right: Any) -> bool:
        """Return whether two values of a channel are equal."""
        if not isinstance(left, Appended) or not isinstance(right, Appended):
            return bool(no_ids(left) == no_ids(right))
        key = (left.family, left.start, right.family, right.start)
        return len(left) == len(right) and self.same(key, left, right, len(left))

    def same_context(self, before: CallView, after: CallView) -> bool:
        """Return whether two contexts are equal; False if only a full comparison can say."""
        left, right = before.context, after.context
        return (
            len(left.parts) == len(right.parts)
            and no_ids(left.own_messages) == no_ids(right.own_messages)
            and all(self._same_part(*parts) for parts in zip(left.parts, right.parts, strict=True))
        )

    def _same_part(self, left: InlinePart | HistoryView, right: InlinePart | HistoryView) -> bool:
        if isinstance(left, InlinePart) or isinstance(right, InlinePart):
            both_made = isinstance(left, InlinePart) and isinstance(right, InlinePart)
            return both_made and bool(no_ids(left.message) == no_ids(right.message))
        places = (left.lo, left.hi), (right.lo, right.hi)
        extras = (
            (left.summary, left.rendered, left.tail),
            (right.summary, right.rendered, right.tail),
        )
        return (
            places[0] == places[1]
            and no_ids(extras[0]) == no_ids(extras[1])
            and self.same(
                (id(left.stream), id(right.stream)),
                left.stream.entries,
                right.stream.entries,
                left.hi,
            )
        )


def _differences(
    before: TurnView, after: TurnView, sides: _Sides
) -> Iterator[tuple[str, str, Any, Any]]:
    agents = [run.agent for run in before.runs], [run.agent for run in after.runs]
    if agents[0] != agents[1]:
        yield "", "agents", agents[0], agents[1]
    for left, right in zip(before.runs, after.runs, strict=False):
        for at, mine, its in _run_differences(left, right, sides):
            yield left.agent, at, mine, its
    for name in ("reply", "interrupt"):
        mine, its = getattr(before, name), getattr(after, name)
        if mine != its:
            yield "", name, mine, its
    errors = [turn.error and (turn.error.type, turn.error.message) for turn in (before, after)]
    if errors[0] != errors[1]:
        yield "", "error", errors[0], errors[1]
    for name in dict.fromkeys((*before.state, *after.state)):
        mine, its = before.state.get(name), after.state.get(name)
        if not sides.same_value(mine, its):
            for difference in _parted(no_ids(mine), no_ids(its), f"state.{name}"):
                yield "", *difference


def _run_differences(
    before: RunView, after: RunView, sides: _Sides
) -> Iterator[tuple[str, Any, Any]]:
    yield from _parted(no_ids(before.input), no_ids(after.input), f"input of {before.agent}")
    for number, (left, right) in enumerate(zip(before.calls, after.calls, strict=False)):
        if sides.same_context(left, right):
            continue
        where = f"context of {before.agent}" + (f", call {number + 1}" if number else "")
        mine = [no_ids(message) for message in left.context.messages]
        its = [no_ids(message) for message in right.context.messages]
        yield from _parted(mine, its, f"{where}: messages")
    if len(before.calls) != len(after.calls):
        yield f"model calls of {before.agent}", len(before.calls), len(after.calls)
    yield from _parted(no_ids(before.output), no_ids(after.output), f"output of {before.agent}")
    yield from _parted(no_ids(before.update), no_ids(after.update), f"update of {before.agent}")


def _parted(before: Any, after: Any, at: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the first path below a value at which two values differ."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            if key not in before or key not in after or before[key] != after[key]:
                yield from _parted(before.get(key), after.get(key), f"{at}.{key}")
                return
    if isinstance(before, list) and isinstance(after, list):
        for index, (left, right) in enumerate(zip(before, after, strict=False)):
            if left != right:
                yield from _parted(left, right, f"{at}[{index}]")
                return
        yield f"{at}: length", len(before), len(after)
        return
    yield at, before, after


def no_ids(value: Any) -> Any:
    """Return a value without ids; messages become their content."""
    if isinstance(value, Message):
        fields: dict[str, Any] = {"role": value.role, "content": no_ids(value.content)}
        if value.agent:
            fields["agent"] = value.agent
        if value.calls:
            fields["calls"] = [{call.name: no_ids(call.args)} for call in value.calls]
        return fields
    if isinstance(value, str):
        return _ID.sub(r"\1#", in_own_ids(value))
    if isinstance(value, Mapping):
        names = _plain_keys(value)
        return {names.get(key, key): no_ids(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [no_ids(inner) for inner in value]
    return value


def _plain_keys(value: Mapping[Any, Any]) -> dict[str, str]:
    """Return the keys of a mapping that hold ids, each with its name without them.

    Ids grow in both runs, so keys that differ in ids alone get numbers in the order of the ids.
    """
    names: dict[str, str] = {}
    in_use = {key for key in value if isinstance(key, str)}
    keyed = [(no_ids(key), key) for key in in_use]
    own = [(name, key) for name, key in keyed if name != key]
    for name, key in sorted(own, key=lambda pair: (pair[0], len(pair[1]), pair[1])):
        candidates = chain((name,), (f"{name} [{number}]" for number in count(1)))
        names[key] = next(each for each in candidates if each not in in_use)
        in_use.add(names[key])
    return names


# The lints


def resumed_differs(view: View, unbroken: View, restarts: Mapping[int, Path]) -> list[Hit]:
    """STA-06: continuing from a checkpoint equals not having stopped.

    ``restarts`` are the turns before which a new process started, counted from 1, with the places
    in the scenario that say so. Turns of code that were cut off are not compared.
    """
    pairs: Iterable[tuple[TurnView, TurnView]] = zip(view.turns, unbroken.turns, strict=False)
    if view.pipeline.is_code:
        # How far its threads came when a turn was cut off is chance.
        pairs = (p for p in pairs if p[0].error is None or p[0].error.type not in CUTS)
    parting = first_parting(pairs)
    if parting is None:
        return []
    restart = max((turn for turn in restarts if turn <= parting.turn), default=0)
    if restart:
        problem = (
            f"after the restart before turn {restart}, turn {parting.turn} is not what it is "
            f"without: {_words(parting, 'restarted', 'without a restart')}"
        )
    else:
        restart = min(restarts)
        problem = (
            f"turn {parting.turn}, before any restart, is not the same in a second run: "
            f"{_words(parting, 'here', 'there')}"
        )
    path = restarts[restart]
    return [Hit("STA-06", problem, parting.turn, parting.agent, data={"at": parting.at}, path=path)]


def session_differs(view: View, alone: View, session: str) -> list[Hit]:
    """STA-08: a session among others has the same results as alone."""
    turns, its = (
        [turn for turn in turns_view.turns if turn.session == session]
        for turns_view in (view, alone)
    )
    parting = first_parting(zip(turns, its, strict=False))
    if parting is None:
        return []
    problem = (
        f"session {session!r} is not what it is alone, from turn {parting.turn} on: "
        f"{_words(parting, 'among others', 'alone')}"
    )
    return [Hit("STA-08", problem, parting.turn, parting.agent, data={"at": parting.at})]


def reached_by_others(view: View) -> set[str]:
    """Return the sessions that share channels with another one on purpose.

    Given values (before any turn) do not count, because a session alone gets them as well.
    """
    projects = view.projects
    wrote: dict[tuple[str, str], set[str]] = {}
    for event in view.events:
        if isinstance(event, e.StoreWritten) and event.turn:
            owner = "" if event.scope == "global" else projects[event.session]
            wrote.setdefault((event.scope, owner), set()).add(event.session)
    return {
        session
        for session, project in projects.items()
        if any(
            wrote.get(shared, set()) - {session}
            for shared in (("global", ""), ("project", project))
        )
    }


def _words(parting: Parting, left: str, right_name: str) -> str:
    return f"{parting.at} is {parting.left} {left}, {parting.right} {right_name}"
