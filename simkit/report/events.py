"""Events of a trace, one a line, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from simkit.core.messages import JsonValue, Message, ToolCall
from simkit.core.text import counted, short
from simkit.report.wording import Paint, call_text, moment, plain, value_text
from simkit.trace import events as e
from simkit.trace.changes import is_change
from simkit.trace.store import MORE

LINE_MAX: Final = 160
"""The columns of one event; its line in the trace file has everything."""
_PLACE: Final = ("at", "session", "turn", "agent", "run")


def event_lines(
    events: Sequence[e.AnyEvent], turn: int | None = None, agent: str = "", paint: Paint = plain
) -> Iterator[str]:
    """Yield the selected events: number, time, turn, kind, agent, and fields.

    Events count from 1; in the trace file each is one line further down, because of the header.
    """
    for number, event in enumerate(events, 1):
        if (turn is None or event.turn == turn) and (not agent or event.agent == agent):
            yield event_line(number, event, paint)


def event_line(number: int, event: e.AnyEvent, paint: Paint = plain) -> str:
    """Return one event on one line."""
    turn = f"turn {event.turn}" if event.turn else ""
    actor = " ".join(part for part in (event.agent, event.run) if part)
    start = f"{number:>5}  {moment(event.at):>8}  {turn:<7}  "
    kind = e.kind_of(event)
    text = f"{actor + ': ' if actor else ''}{_event_text(event)}".removesuffix(": ")
    room = max(LINE_MAX - len(start) - 20, 20)
    return f"{start}{paint(f'{kind:<18}', 'strong')}  {short(text, room)}".rstrip()


def _event_text(event: e.AnyEvent) -> str:
    if isinstance(event, e.RunStarted):
        return f"{event.scenario!r}, pipeline {event.pipeline.name}, seed {event.seed}"
    if isinstance(event, e.SessionStarted):
        return f"{event.session} in project {event.project}"
    if isinstance(event, e.MessageAdded):
        return f"{event.message.id} {value_text(event.message)}"
    if isinstance(event, e.ContextBuilt):
        return f"{event.call} {_context(event)}"
    if isinstance(event, e.StateUpdated):
        return f"{event.cause}: {_update(event.update)}"
    if isinstance(event, e.HandoffRequested | e.HandoffRejected | e.HandoffMade):
        return _handoff(event)
    return ", ".join(f"{name} {text}" for name, text in _fields(event))


def _update(update: Mapping[str, JsonValue]) -> str:
    """Return an update, with the number of items or letters that continue a value."""
    if not any(map(is_change, update.values())):
        return value_text(update)
    parts = []
    for name, raw in update.items():
        more = raw.get(MORE) if isinstance(raw, dict) else None
        size = f"+{counted(len(more), 'item')} " if isinstance(more, list) else ""
        parts.append(f"{name}: {size}{value_text(more if size else raw)}")
    return ", ".join(parts)


def _handoff(event: e.HandoffRequested | e.HandoffRejected | e.HandoffMade) -> str:
    kind = f"{event.mode} of type {event.type}" if event.type else event.mode
    detail = event.reason if isinstance(event, e.HandoffRejected) else value_text(event.payload)
    return f"{event.handoff} {event.from_agent} → {event.to_agent}, {kind}: {detail}"


def _context(event: e.ContextBuilt) -> str:
    sections = list(dict.fromkeys(part.section for part in event.parts))
    built = f"on {event.base}" if event.base else f"from {', '.join(sections) or 'nothing'}"
    own = f", said {', '.join(f'm{number}' for number in event.said)}" if event.said else ""
    return f"{built}{own}, {event.tokens} tokens"


def _fields(event: e.AnyEvent) -> Iterator[tuple[str, str]]:
    """Yield the event's non-empty fields as text."""
    for field in msgspec.structs.fields(event):
        value: Any = getattr(event, field.name)
        if field.name in _PLACE or value in (None, "", (), 0, False):
            continue
        if field.name == "message" and isinstance(value, int):
            yield "message", f"m{value}"
        elif isinstance(value, str):
            yield field.name, value
        elif isinstance(value, msgspec.Struct) and not isinstance(value, Message):
            yield field.name, value_text(msgspec.to_builtins(value))
        else:
            yield field.name, value_text(value)


def error_text(error: e.ErrorFacts | None) -> str:
    """Return ``ValueError: no such order``; empty without an error."""
    return "" if error is None else f"{error.type}: {error.message}"


def _judge_text(event: e.JudgeAnswered) -> str:
    answer = f"no answer: {event.error}" if event.error else value_text(event.answer)
    return f"{event.question} → {answer}"


def _edit_text(event: e.CallEdited) -> str:
    calls = (ToolCall("", call.tool, call.args) for call in (event.before, event.after))
    return f"edits {' → '.join(map(call_text, calls))}"


TEXTS: Final[Mapping[type, Callable[[Any], str]]] = {
    e.ModelRetried: lambda event: f"attempt {event.attempt}",
    e.CheckpointRestored: lambda event: f"from {event.checkpoint}",
    e.LimitReached: lambda event: f"limit `{event.limit}` reached: {event.allowed} allowed",
    e.GuardrailTripped: lambda event: f"{event.guardrail}: {event.reason}",
    e.FaultInjected: lambda event: event.fault,
    e.HistorySummarised: lambda event: event.text,
    e.CallEdited: _edit_text,
    e.ToolDefined: lambda event: f"{event.number} {event.tool}: {event.description}",
    e.ErrorLost: lambda event: f"a {event.ended} ended: {error_text(event.error)}",
    e.TextCarriedOver: lambda event: f"{event.text!r} of {event.scenario!r}",
    e.UncontrolledEffect: lambda event: f"{event.effect} {event.where}",
    e.RequestUnread: lambda event: f"{event.method} {event.url}",
    e.JudgeAnswered: _judge_text,
}
"""The text of an event in a timeline, for events with fields that suffice for it."""
