"""The state of sessions: what is written by whom, and what was there already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from simkit.adapters.activations import Run
from simkit.adapters.google_adk import compat
from simkit.adapters.plain_values import NotPlain, plain
from simkit.adapters.trace_recorder import TraceRecorder
from simkit.core.messages import JsonValue
from simkit.trace.store import canonical

SCOPES: Final = {"app:": "global", "user:": "project", "temp:": "turn"}
"""Prefixes of keys, and how long what they name lives."""
SHARED: Final = ("global", "project")
"""Scopes that several conversations have a part in."""
_encode: Final = msgspec.json.Encoder(order="sorted").encode


def scope_of(key: str) -> str:
    """Return how long what a key names lives."""
    prefix = key.partition(":")[0] + ":"
    return SCOPES.get(prefix, "session") if ":" in key else "session"


class States:
    """What the trace knows of each conversation's state."""

    def __init__(self, recorder: TraceRecorder) -> None:
        self._recorder = recorder
        self._reported_values: dict[str, dict[str, bytes]] = {}
        self._written_names: set[str] = set()
        """Events whose writes were told, by their ids."""

    def observe_state(self, state: Mapping[str, Any]) -> None:
        """A turn finds a state: tells what is not known of it, and what is there no more."""
        reported = self._reported_values.setdefault(self._recorder.session, {})
        state_values = _plain(state)
        changed = {
            key: value for key, value in state_values.items() if reported.get(key) != _encode(value)
        }
        changed |= dict.fromkeys(key for key in reported if key not in state_values)
        if not changed:
            return
        for key, value in changed.items():
            if key in state_values:
                reported[key] = _encode(value)
            else:
                del reported[key]
        self._recorder.wrote(changed, cause="given")
        for key in changed:
            if key in state_values and scope_of(key) in SHARED:
                self._recorder.read(key, scope_of(key))

    def wrote(
        self,
        event: str,
        delta: Mapping[str, Any],
        agent: str,
        run: Run | None,
        group: str = "",
        branch: str = "",
    ) -> None:
        """An event brings changes; whoever hears of it twice tells them once."""
        if event in self._written_names:
            return
        update = _plain(delta)
        if not update:
            return
        self._written_names.add(event)
        reported = self._reported_values.setdefault(self._recorder.session, {})
        reported.update({key: _encode(value) for key, value in update.items()})
        cause = "user" if run is None and not agent else "writes"
        self._recorder.wrote(update, agent, run, cause=cause, group=group, branch=branch)
        for key in update:
            if scope_of(key) in SHARED:
                self._recorder.stored(key, scope_of(key), agent, run)


def _plain(values: Mapping[str, Any]) -> dict[str, JsonValue]:
    return {
        key: _data(value) for key, value in values.items() if not key.startswith(compat.OWN_STATE)
    }


def _data(value: Any) -> JsonValue:
    try:
        return plain(value)
    except NotPlain:
        return canonical(value)
