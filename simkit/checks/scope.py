"""The scope of claims: one turn, or the whole run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from simkit.core.messages import Message
from simkit.spec.scenario.claims import Expect
from simkit.trace import events as e
from simkit.trace.views import CallView, HandoffView, RunView, ToolView, TurnView, View

Path = tuple[str | int, ...]


class Scope(msgspec.Struct, frozen=True):
    """The part of a trace that claims concern, and the path of the claims."""

    path: Path
    """The claims' place in the scenario's document."""
    expect: Expect
    turn: int
    """The turn's number from 1; 0 for the whole run."""
    runs: Sequence[RunView]
    calls: Mapping[str, Sequence[CallView]]
    """Agent to its model calls."""
    all_calls: Sequence[CallView]
    handoffs: Sequence[HandoffView]
    tools: Sequence[ToolView]
    events: Sequence[e.AnyEvent]
    updates: Sequence[e.StateUpdated]
    state: Mapping[str, Any]
    reply: Any
    error: e.ErrorFacts | None
    interrupt: Any
    pipeline: e.PipelineFacts
    driver: str

    @property
    def words(self) -> str:
        """Return ``in turn 2``, or ``in the whole run``."""
        return f"in turn {self.turn}" if self.turn else "in the whole run"

    def can_observe(self, aspect: str) -> bool:
        """Return whether the driver observes ``sections``, ``state``, ``runs`` or ``handoffs``."""
        if aspect in self.pipeline.unseen:
            return False
        if aspect == "state" and self.state and not self.pipeline.channels:
            return True  # The code itself has reported some.
        return aspect in self.pipeline.observes


def scope_of_turn(turn: TurnView, place: int, expect: Expect, view: View) -> Scope:
    """Return the scope of one turn's claims."""
    return Scope(
        ("turns", place, "expect"), expect, turn.number, turn.runs, turn.calls_by_agent,
        turn.calls, turn.handoffs, turn.tools, _Span(view.events, turn.lo, turn.hi), turn.updates,
        turn.state, turn.reply, turn.error, turn.interrupt, view.pipeline, _driver(view),
    )  # fmt: skip


def scope_of_run(expect: Expect, view: View) -> Scope:
    """Return the scope of the claims at the top level."""
    calls: dict[str, list[CallView]] = {}
    everything = [call for turn in view.turns for call in turn.calls]
    for call in everything:
        calls.setdefault(call.agent, []).append(call)
    last = view.turns[-1] if view.turns else None
    return Scope(
        ("expect",), expect, 0, [run for turn in view.turns for run in turn.runs], calls,
        everything, [h for turn in view.turns for h in turn.handoffs],
        [tool for turn in view.turns for tool in turn.tools], view.events,
        [update for turn in view.turns for update in turn.updates], view.state_at_end(),
        last.reply if last else None, view.error, last.interrupt if last else None,
        view.pipeline, _driver(view),
    )  # fmt: skip


def _driver(view: View) -> str:
    return view.started.driver if view.started is not None else ""


class _Span(Sequence[e.AnyEvent]):
    """A range of the events, without copying them."""

    def __init__(self, events: Sequence[e.AnyEvent], lo: int, hi: int) -> None:
        self._events, self._lo, self._hi = events, lo, hi

    def __len__(self) -> int:
        return self._hi - self._lo

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._events[self._lo + index]


def log_fields(event: e.LogRecorded) -> dict[str, Any]:
    """Return a log record's fields for claims; a missing agent or error is absent."""
    fields: dict[str, Any] = {
        "level": event.level,
        "logger": event.logger,
        "message": event.message,
        "error": event.error,
        "agent": event.agent,
    }
    return {name: fields[name] for name in fields if fields[name] or name == "message"}


def event_fields(event: e.AnyEvent) -> dict[str, Any]:
    """Return an event's fields for claims by name; empty ids and names are absent."""
    fields: dict[str, Any] = {"kind": e.kind_of(event)}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if isinstance(value, str) and not value:
            continue
        if not isinstance(value, Message):
            value = msgspec.to_builtins(value)
        fields[name] = value
    return fields
