"""The state of a session turn by turn, each turn as changes of the one before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simkit.core.messages import JsonValue
from simkit.trace.reducers import Appended, Keyed
from simkit.trace.store import canonical
from simkit.trace.views import TurnView

SET, MORE, WITH = "=", "+", "~"
_NOTHING: Final[Mapping[str, Any]] = {}


class StateChanges:
    """Says how the state of each session goes on."""

    def __init__(self) -> None:
        self._last: dict[str, Mapping[str, Any]] = {}

    def of(self, turn: TurnView) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
        """Return the changes before a turn, since the session's last one, and those of the turn."""
        last = self._last.get(turn.session, _NOTHING)
        before, after = turn.state_before, turn.state
        if not turn.finished:
            after = before
        self._last[turn.session] = after
        return changes(last, before), changes(before, after)


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return each channel that differs, with its change."""
    out: dict[str, JsonValue] = {}
    for name in new:
        before, after = old.get(name), new[name]
        if name in old and (before is after or _is_equal(before, after)):
            continue
        out[name] = change_of(before, after)
    return out


def change_of(old: Any, new: Any) -> JsonValue:
    """Return how a value comes from another one: ``=`` a new one, ``+`` items, ``~`` keys."""
    if type(new) is Appended and type(old) is Appended and new.family == old.family:
        cut, more = new.start - old.start, len(new) + new.start - (len(old) + old.start)
        if cut >= 0 and 0 <= more <= len(new):
            return [MORE, [canonical(item) for item in new[len(new) - more :]], cut]
    if isinstance(old, (dict, Keyed)) and isinstance(new, (dict, Keyed)) and _keeps_keys(old, new):
        return [WITH, changes(old, new)]
    return [SET, canonical(new)]


def _keeps_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return 0 < len(old) <= len(new) and all(key in new for key in old)


def _is_equal(old: Any, new: Any) -> bool:
    if type(old) is Appended and type(new) is Appended and old.family == new.family:
        return old.start == new.start and len(old) == len(new)
    return type(old) is type(new) and bool(old == new)
