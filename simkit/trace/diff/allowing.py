"""Differences that somebody has declared: what of a diff is left when they are taken out. Pure.

A difference stands at a path: ``context.coach.messages.system`` (the role of a message that came,
went or changed), ``context.coach.settings.temperature``, ``calls.coach`` (a call of one run only),
``handoffs.router.coach.payload``, ``state.plan.days[1]``, ``turn.reply``, ``turn.agents``. What is
declared is the beginning of a path; ``*`` stands for any one step, indexes count for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from msgspec.structs import replace

from simkit.core.messages import ABSENT
from simkit.trace.diff.calls import CallDiff, Changed, MessageEdit, Same
from simkit.trace.diff.traces import TraceDiff, TurnDiff
from simkit.trace.diff.values import Edit, ItemEdit

Steps = tuple[str, ...]
KINDS: Final = ("context", "calls", "handoffs", "state", "turn")
"""With what a path begins."""
ANY: Final = "*"
_INDEX: Final = re.compile(r"\[[^\]]*\]")
T = TypeVar("T")


def without(diff: TraceDiff, declared: Iterable[str]) -> tuple[TraceDiff, frozenset[str]]:
    """Returns what of a diff is not declared, and which declarations something stood at.

    Left out are the first differing event, a consequence, and what the pipelines say of themselves.
    """
    allowed = _Allowed(declared)
    calls = tuple(_kept(diff.calls, allowed.call))
    turns = tuple(_kept(diff.turns, allowed.turn))
    at_end = allowed.edits(diff.at_end, ("state",))
    rest = TraceDiff((), None, calls, diff.more_calls, turns, at_end)
    return rest, frozenset(allowed.used)


def _kept(items: Iterable[T], rest: Callable[[T], T | None]) -> Iterable[T]:
    return (found for item in items if (found := rest(item)) is not None)


class _Allowed:
    """What is declared, and which of it was met."""

    def __init__(self, declared: Iterable[str]) -> None:
        self._steps = {one: tuple(one.split(".")) for one in declared}
        self.used: set[str] = set()

    def covers(self, path: Steps) -> bool:
        """Whether a difference at a path is declared."""
        found = [
            one
            for one, steps in self._steps.items()
            if len(steps) <= len(path)
            and all(step in (ANY, at) for step, at in zip(steps, path, strict=False))
        ]
        self.used.update(found)
        return bool(found)

    def edits(self, edits: Sequence[Edit], at: Steps) -> tuple[Edit, ...]:
        """Returns the edits that are not declared."""
        return tuple(edit for edit in edits if not self._all_of((*at, *_steps(edit.at)), edit))

    def _all_of(self, path: Steps, edit: Edit) -> bool:
        """Whether a difference is declared, or all that one side alone holds there."""
        if self.covers(path):
            return True
        held = edit.other if edit.one is ABSENT else edit.one
        if ABSENT not in (edit.one, edit.other) or not isinstance(held, dict) or not held:
            return False
        inner = [Edit("", ABSENT, value) for value in held.values()]
        return all([self._all_of((*path, key), one) for key, one in zip(held, inner, strict=True)])

    def call(self, call: CallDiff) -> CallDiff | None:
        """Returns what of a call is not declared; None if all of it is."""
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
        """Returns what of a turn is not declared; None if all of it is."""
        if turn.turn is None or turn.other_turn is None:
            return turn
        edits = self.edits(turn.edits, ("turn",))
        handoffs = tuple(_kept(turn.handoffs, self._handoff))
        state = self.edits(turn.state, ("state",))
        if not (edits or handoffs or state):
            return None
        return replace(turn, edits=edits, handoffs=handoffs, state=state)

    def _handoff(self, item: ItemEdit) -> ItemEdit | None:
        there = item.other or item.one or {}
        at = ("handoffs", str(there.get("from")), str(there.get("to")))
        if item.one is None or item.other is None:
            return None if self.covers(at) else item
        edits = self.edits(item.edits, at)
        return replace(item, edits=edits) if edits else None


def _role(edit: MessageEdit) -> str:
    if isinstance(edit, Changed):
        return edit.other.role
    return "" if isinstance(edit, Same) else edit.message.role


def _steps(at: str) -> Steps:
    return tuple(step for step in _INDEX.sub("", at).split(".") if step)
