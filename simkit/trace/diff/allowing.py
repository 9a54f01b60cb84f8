"""Declared differences: the rest of a diff without them. Pure.

A difference has a path: ``context.coach.messages.system`` (the role of a message that came, went or
changed), ``context.coach.settings.temperature``, ``calls.coach`` (a call of one run only),
``handoffs.router.coach.payload``, ``state.plan.days[1]``, ``turn.reply``, ``turn.agents``. A
declaration is the beginning of a path; ``*`` stands for any one step, and indexes are ignored.
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
