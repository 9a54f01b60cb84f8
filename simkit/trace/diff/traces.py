"""Diffs of two runs: the first event that differs, then contexts, handoffs and state.

Declared differences can be taken out of a diff.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from simkit.core.messages import ABSENT
from simkit.trace import events as e
from simkit.trace.asides import without_asides
from simkit.trace.diff.calls import CallDiff, Calls, Changed, MessageEdit, Same
from simkit.trace.diff.values import Edit, ItemEdit, aligned, edits, item_edits, key_of, plain
from simkit.trace.views import TurnView, View

NATIVE: Final = "native"
"""The driver of declared pipelines, which pass control without a tool."""
BEFORE: Final = 3
"""The number of events shown before the first difference."""


class FirstDifference(msgspec.Struct, frozen=True, gc=False):
    """The first event that differs, after the declarations of the runs."""

    number: int
    """The event's number, from 1."""
    before: tuple[e.AnyEvent, ...]
    """The events before it, which are equal in both runs."""
    left: e.AnyEvent | None
    """The first run's event; None if that run has ended."""
    right: e.AnyEvent | None
    edits: tuple[Edit, ...] = ()
    """The differences of two events of the same kind; empty for other pairs."""


class TurnDiff(msgspec.Struct, frozen=True, gc=False):
    """The diff of a turn, or a turn of one run only."""

    turn: int | None
    """Its number in the first run; None if that run has no such turn. 0 is the time before the
    first turn."""
    other_turn: int | None
    user: str
    """The user's message."""
    edits: tuple[Edit, ...] = ()
    """Differences of agents, reply, error, question."""
    handoffs: tuple[ItemEdit, ...] = ()
    state: tuple[Edit, ...] = ()
    """Differences of writes: items that channels received, else their values after the turn."""


class TraceDiff(msgspec.Struct, frozen=True, gc=False):
    """All differences of two runs."""

    declared: tuple[Edit, ...]
    """Differences in the declarations of pipelines and scenarios; they alone make no two runs
    different."""
    first: FirstDifference | None
    """None if there is none, or if different drivers made the runs: their events cannot be
    compared one by one."""
    calls: tuple[CallDiff, ...] = ()
    more_calls: int = 0
    """The number of further different calls that were not compared message by message."""
    turns: tuple[TurnDiff, ...] = ()
    at_end: tuple[Edit, ...] = ()
    """Channels with equal writes but different values at the end."""

    @property
    def is_equal(self) -> bool:
        """Return whether both runs did the same."""
        return not (self.first or self.calls or self.more_calls or self.turns or self.at_end)


def trace_diff(left: View, right: View) -> TraceDiff:
    """Return the diff of two runs; near-linear in their sizes."""
    declared = tuple(edits(_declared(left), _declared(right)))
    first = None
    if _driver(left) == _driver(right):
        first = _first_difference(*(without_asides(view.events) for view in (left, right)))
        if first is None:
            return TraceDiff(declared, None)
    are_native = [_driver(view) == NATIVE for view in (left, right)]
    calls = Calls(not any(are_native), are_native[0] is are_native[1])
    turns = [TurnDiff(0, 0, "", state=tuple(edits(_initial_state(left), _initial_state(right))))]
    for mine, its in _paired(left, right):
        if mine is not None and its is not None:
            calls.compare(mine, its)
        turns.append(_turn_diff(left, mine, right, its))
    edited = {edit.at.partition(".")[0].partition("[")[0] for turn in turns for edit in turn.state}
    return TraceDiff(
        declared,
        first,
        calls.call_diffs(),
        calls.more,
        tuple(turn for turn in turns if _differs(turn)),
        tuple(edit for edit in _at_end(left, right) if edit.at not in edited),
    )


def _driver(view: View) -> str:
    return view.started.driver if view.started is not None else ""


def _declared(view: View) -> dict[str, Any]:
    started = view.started
    fields: dict[str, Any] = msgspec.to_builtins(started) if started is not None else {}
    return {name: plain(value) for name, value in fields.items() if name not in ("at", "kind")}


def _first_difference(
    left: Sequence[e.AnyEvent], right: Sequence[e.AnyEvent]
) -> FirstDifference | None:
    for index, (mine, its) in enumerate(zip_longest(left, right)):
        if mine == its or (isinstance(mine, e.RunStarted) and isinstance(its, e.RunStarted)):
            continue
        differing: tuple[Edit, ...] = ()
        if type(mine) is type(its):
            differing = tuple(edits(*(plain(msgspec.to_builtins(event)) for event in (mine, its))))
        before = tuple(left[max(index - BEFORE, 0) : index])
        return FirstDifference(index + 1, before, mine, its, differing)
    return None


def _paired(left: View, right: View) -> Iterator[tuple[TurnView | None, TurnView | None]]:
    """Yield the turns in pairs: first those with equal user messages, then those between."""
    for span in aligned(*([_question(turn) for turn in view.turns] for view in (left, right))):
        mine, its = left.turns[span.lo : span.hi], right.turns[span.other_lo : span.other_hi]
        yield from zip_longest(mine, its)


def _question(turn: TurnView) -> tuple[str, str]:
    return turn.session, "" if turn.message is None else turn.message.content


def _turn_diff(left: View, mine: TurnView | None, right: View, its: TurnView | None) -> TurnDiff:
    if mine is None or its is None:
        number, its_number = (None if turn is None else turn.number for turn in (mine, its))
        either_turn = its if mine is None else mine
        return TurnDiff(
            number, its_number, "" if either_turn is None else _question(either_turn)[1]
        )
    return TurnDiff(
        mine.number,
        its.number,
        _question(its)[1],
        tuple(edits(_outcome_fields(mine), _outcome_fields(its))),
        tuple(item_edits(_handoffs(mine), _handoffs(its), ("from", "to"))),
        tuple(_state_edits(left, mine, right, its)),
    )


def _differs(turn: TurnDiff) -> bool:
    is_in_one = turn.turn is None or turn.other_turn is None
    return is_in_one or bool(turn.edits or turn.handoffs or turn.state)


def _outcome_fields(turn: TurnView) -> dict[str, Any]:
    """Return the fields of a turn that its user sees, and the agents that ran."""
    fields: dict[str, Any] = {
        "user": _question(turn)[1],
        "agents": [run.agent for run in turn.runs],
        "reply": plain(turn.reply),
    }
    if turn.error is not None:
        fields["error"] = f"{turn.error.type}: {turn.error.message}"
    if turn.interrupt is not None:
        fields["question"] = plain(turn.interrupt)
    return fields


def _handoffs(turn: TurnView) -> list[dict[str, Any]]:
    return [plain(handoff.fields()) for handoff in turn.handoffs]


def _initial_state(view: View) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for event in view.events:
        if isinstance(event, e.StateUpdated) and not event.turn:
            for name, whole in view.update_of(event).items():
                value = plain(whole)
                is_set = isinstance(value, dict) and value.keys() == {"$set"}
                state[name] = value["$set"] if is_set else value
    return state


def _state_edits(left: View, mine: TurnView, right: View, its: TurnView) -> Iterator[Edit]:
    """Yield the differences of the values that channels received."""
    deltas, its_deltas = _deltas(left, mine.updates), _deltas(right, its.updates)
    inner, its_inner = _inner_deltas(left, mine.updates), _inner_deltas(right, its.updates)
    for name in dict.fromkeys([*inner, *its_inner]):
        yield from edits(inner.get(name, []), its_inner.get(name, []), name)
    for name in dict.fromkeys([*deltas, *its_deltas]):
        wrote, its_wrote = deltas.get(name, []), its_deltas.get(name, [])
        if key_of(wrote) == key_of(its_wrote):
            continue
        if _grows(left, name) and _grows(right, name):
            yield from edits(wrote, its_wrote, name)
        else:
            updates = wrote + its_wrote
            old, new = (_after(turn, name, updates) for turn in (mine, its))
            yield from edits(old, new, name)


def _grows(view: View, channel: str) -> bool:
    facts = view.pipeline.channels.get(channel)
    return facts is not None and facts.reducer == "append"


def _deltas(view: View, updates: Sequence[e.StateUpdated]) -> dict[str, list[Any]]:
    """Return the updates of each channel in order; appended lists are joined."""
    deltas: dict[str, list[Any]] = {}
    for event in updates:
        if not event.state:
            for name, whole in view.update_of(event).items():
                delta = plain(whole)
                grows = _grows(view, name)
                if delta is None and grows:
                    continue  # The reducer skips null.
                is_many = isinstance(delta, list) and grows
                deltas.setdefault(name, []).extend(delta if is_many else [delta])
    return deltas


def _inner_deltas(view: View, updates: Sequence[e.StateUpdated]) -> dict[str, list[Any]]:
    """Return the updates of each channel of inner graphs in order."""
    deltas: dict[str, list[Any]] = {}
    for event in updates:
        if event.state:
            for name, whole in view.update_of(event).items():
                deltas.setdefault(f"{event.state}.{name}", []).append(plain(whole))
    return deltas


def _after(turn: TurnView, channel: str, updates: Sequence[Any]) -> Any:
    """Return a channel's value after a turn; of a mapping, only the keys that the turn wrote."""
    value = plain(turn.state.get(channel, ABSENT))
    if isinstance(value, dict) and all(isinstance(delta, Mapping) for delta in updates):
        touched = {key for delta in updates for key in delta}
        return {key: inner for key, inner in value.items() if key in touched}
    return value


def _at_end(left: View, right: View) -> Iterator[Edit]:
    """Yield the channels that differ after the last turn of a session."""
    ends = [{turn.session: turn.state for turn in view.turns} for view in (left, right)]
    for session in ends[0].keys() & ends[1].keys():
        mine, its = (end[session] for end in ends)
        for name in dict.fromkeys([*mine, *its]):
            old, new = plain(mine.get(name, ABSENT)), plain(its.get(name, ABSENT))
            if any(True for _ in edits(old, new)):
                yield Edit(name, old, new)


# Declared differences: the rest of a diff without them
#
# A difference has a path: `context.coach.messages.system` (the role of a message that came, went
# or changed), `context.coach.settings.temperature`, `calls.coach` (a call of one run only),
# `handoffs.router.coach.payload`, `state.plan.days[1]`, `turn.reply`, `turn.agents`. A
# declaration is the beginning of a path; `*` stands for any one step, and indexes are ignored.


Steps = tuple[str, ...]
KINDS: Final = ("context", "calls", "handoffs", "state", "turn")
"""The first steps of paths."""
ANY: Final = "*"
_INDEX: Final = re.compile(r"\[[^\]]*\]")
T = TypeVar("T")


def without(diff: TraceDiff, declared: Iterable[str]) -> tuple[TraceDiff, frozenset[str]]:
    """Return a diff without the declared differences, and the declarations that matched.

    The first differing event is left out, because it is a consequence, and so are the declarations
    of the pipelines.
    """
    allowed = _Allowed(declared)
    calls = tuple(_remaining(diff.calls, allowed.call))
    turns = tuple(_remaining(diff.turns, allowed.turn))
    at_end = allowed.edits(diff.at_end, ("state",))
    rest = TraceDiff((), None, calls, diff.more_calls, turns, at_end)
    return rest, frozenset(allowed.used)


def _remaining(items: Iterable[T], rest: Callable[[T], T | None]) -> Iterable[T]:
    return (remainder for item in items if (remainder := rest(item)) is not None)


class _Allowed:
    """The declared differences, and those that matched."""

    def __init__(self, declared: Iterable[str]) -> None:
        self._steps = {path: tuple(path.split(".")) for path in declared}
        self.used: set[str] = set()

    def covers(self, path: Steps) -> bool:
        """Return whether a difference at a path is declared."""
        patterns = [
            pattern
            for pattern, steps in self._steps.items()
            if len(steps) <= len(path)
            and all(step in (ANY, at) for step, at in zip(steps, path, strict=False))
        ]
        self.used.update(patterns)
        return bool(patterns)

    def edits(self, edits: Sequence[Edit], at: Steps) -> tuple[Edit, ...]:
        """Return the edits that are not declared."""
        return tuple(edit for edit in edits if not self._all_of((*at, *_steps(edit.at)), edit))

    def _all_of(self, path: Steps, edit: Edit) -> bool:
        """Return whether a difference is declared, or all that one side alone holds there."""
        if self.covers(path):
            return True
        current = edit.right if edit.left is ABSENT else edit.left
        if ABSENT not in (edit.left, edit.right) or not isinstance(current, dict) or not current:
            return False
        inner = [Edit("", ABSENT, value) for value in current.values()]
        return all(
            [
                self._all_of((*path, key), inner_value)
                for key, inner_value in zip(current, inner, strict=True)
            ]
        )

    def call(self, call: CallDiff) -> CallDiff | None:
        """Return the undeclared part of a call's diff; None if nothing is left."""
        if None in call.sizes:
            return None if self.covers(("calls", call.agent)) else call
        at = ("context", call.agent)
        messages: list[MessageEdit] = []
        for edit in call.messages:
            if isinstance(edit, Same) or not self.covers((*at, "messages", _role(edit))):
                messages.append(edit)
        edits = self.edits(call.edits, at)
        changed = any(not isinstance(edit, Same) for edit in messages)
        return replace(call, messages=tuple(messages), edits=edits) if changed or edits else None

    def turn(self, turn: TurnDiff) -> TurnDiff | None:
        """Return the undeclared part of a turn's diff; None if nothing is left."""
        if turn.turn is None or turn.other_turn is None:
            return turn
        edits = self.edits(turn.edits, ("turn",))
        handoffs = tuple(_remaining(turn.handoffs, self._handoff))
        state = self.edits(turn.state, ("state",))
        if not (edits or handoffs or state):
            return None
        return replace(turn, edits=edits, handoffs=handoffs, state=state)

    def _handoff(self, item: ItemEdit) -> ItemEdit | None:
        handoff = item.right or item.left or {}
        at = ("handoffs", str(handoff.get("from")), str(handoff.get("to")))
        if item.left is None or item.right is None:
            return None if self.covers(at) else item
        edits = self.edits(item.edits, at)
        return replace(item, edits=edits) if edits else None


def _role(edit: MessageEdit) -> str:
    if isinstance(edit, Changed):
        return edit.right.role
    return "" if isinstance(edit, Same) else edit.message.role


def _steps(at: str) -> Steps:
    return tuple(step for step in _INDEX.sub("", at).split(".") if step)
