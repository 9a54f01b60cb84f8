"""The position of what is recorded: session, turn and agent run, with the counters of ids."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from simkit.adapters.activations import Run
from simkit.adapters.handoff_tools import HandoffTools
from simkit.adapters.sessions import Session
from simkit.core.errors import LimitExceeded
from simkit.core.messages import JsonValue
from simkit.runtime.clock import VirtualClock
from simkit.runtime.context.tokens import Counter
from simkit.runtime.conversation import Numbers
from simkit.spec.pipeline.model import Limits
from simkit.trace.recorder import EventRecorder, Position, Sink
from simkit.trace.store import canonical


class RecorderBase:
    """The part of a recorder that all others need."""

    def __init__(self, sink: Sink, clock: VirtualClock, count: Counter, limits: Limits) -> None:
        self.events, self.clock, self.count = EventRecorder(sink, clock), clock, count
        self.limits, self.numbers = limits, Numbers()
        self.lock = threading.RLock()
        """Held while an event is emitted: pipelines may use any thread."""
        self.session = ""
        """The session of the current turn."""
        self.turn = 0
        self.runs: list[Run] = []
        """The runs of the current turn."""
        self.handoff_tools = HandoffTools()
        self._session, self._sessions = Session(), dict[str, Session]()

    @property
    def initial_state(self) -> Mapping[str, JsonValue]:
        """Return the session's initial state."""
        return self._session.initial_state

    @property
    def project(self) -> str:
        """The session's project."""
        return self._session.project

    def at(self, run: Run | None = None, agent: str | None = None) -> Position:
        """Return the current position. The agent is the run's, unless one is named."""
        if agent is None:
            agent = run.agent if run is not None else ""
        return Position(self.session, self.turn, agent, run.id if run is not None else "")

    def limit(self, name: str, used: int) -> None:
        """Raise LimitExceeded, after its event, when a limit is passed."""
        allowed = getattr(self.limits, name)
        if allowed is not None and used > allowed:
            self.events.record_limit(self.at(), limit=name, allowed=allowed)
            raise LimitExceeded(name, allowed)

    def _plain(self, value: Any) -> JsonValue:
        """Return a value with foreign call ids replaced by simkit's."""
        names = self._session.as_served
        if not names and (type(value) is str or value is None):
            return value
        return _renamed(canonical(value), names) if names else canonical(value)


def _renamed(value: JsonValue, names: Mapping[str, str]) -> JsonValue:
    """Return a value with texts that equal one of the names replaced."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, dict):
        return {key: _renamed(item, names) for key, item in value.items()}
    return [_renamed(item, names) for item in value] if isinstance(value, list) else value
