"""The state of sessions: who wrote which value, and earlier values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from simkit.adapters.api import JsonValue, NotPlain, Run, TraceRecorder, canonical, plain
from simkit.adapters.google_adk import compat

SCOPES: Final = {"app:": "global", "user:": "project", "temp:": "turn"}
"""Prefixes of keys, and the scopes that they mean."""
SHARED: Final = ("global", "project")
"""Scopes that several sessions share."""
_encode: Final = msgspec.json.Encoder(order="sorted").encode


def scope_of(key: str) -> str:
    """Return the scope of a key."""
    prefix = key.partition(":")[0] + ":"
    return SCOPES.get(prefix, "session") if ":" in key else "session"


class States:
    """The recorded state of each session."""

    def __init__(self, recorder: TraceRecorder) -> None:
        self._recorder = recorder
        self._reported_values: dict[str, dict[str, bytes]] = {}
        self._written_names: set[str] = set()
        """Ids of events with recorded writes."""

    def observe_state(self, state: Mapping[str, Any]) -> None:
        """Record the changes of a state since the last turn, removed keys included."""
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
        """Record the writes of an event, once, even if it is seen twice."""
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
