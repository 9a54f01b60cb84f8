"""Wording of values, times and events in reports: on one line, always the same."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, Literal, TypeAlias

import msgspec

from simkit.core.messages import Dropped, JsonValue, Message, ToolCall
from simkit.core.text import counted, late_pattern, short
from simkit.language.paths import as_text
from simkit.trace import events as e
from simkit.trace.changes import is_change
from simkit.trace.store import MORE

WIDTH: Final = 100
"""The columns of a line; a user's own text is never wrapped."""

_columns: ContextVar[int] = ContextVar("columns", default=WIDTH)
"""The columns of lines that are made now: a narrow terminal has fewer than WIDTH."""

Tone = Literal["good", "bad", "warning", "quiet", "strong"]
Paint: TypeAlias = Callable[[str, Tone], str]
"""Applies a tone to a text, for example as the terminal's colours."""


def columns() -> int:
    """Return the number of columns of a line here."""
    return _columns.get()


def set_columns(count: int) -> None:
    """Limit later lines to the columns of a terminal, at most WIDTH."""
    _columns.set(min(WIDTH, count))


def plain(text: str, _tone: Tone) -> str:
    """Return the text as it is: for files, pipes and tests."""
    return text


_ELEMENT: Final = late_pattern(r"(?:messages)?\[(\d+)\]\.?(.*)", re.DOTALL)
_ELEMENTS: Final = {
    "tool_calls": "call",
    "handoffs": "handoff",
    "agents": "agent",
    "events": "event",
    "logs": "record",
    "tools": "tool",
    "sections": "section",
    "context": "message",
}
"""Claim to the word for an element of its list; the first in a claim's path from its end."""


def place_words(at: str, claim: Sequence[str | int]) -> str:
    """Return the place of a difference as people count: ``message 3, content``.

    Words count from 1, as the timeline and the page do; a path in brackets, which can be written
    into a file, counts from 0. ``claim`` is the claim's path.
    """
    element = _ELEMENT.fullmatch(at)
    if element is None:
        return at
    noun = next((_ELEMENTS[key] for key in reversed(claim) if key in _ELEMENTS), "number")
    rest = f", {element[2]}" if element[2] else ""
    return f"{noun} {int(element[1]) + 1}{rest}"


def moment(at_ms: int) -> str:
    """Return a virtual time since the start, with at most three digits if it is long."""
    if at_ms < 10_000:
        return f"{at_ms} ms"
    seconds = at_ms / 1000
    if seconds < 600:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def value_text(value: Any) -> str:
    """Return a value on one line: a message as speaker and text, any other value as JSON."""
    if isinstance(value, Dropped):
        return f"{message_text(value.message)} ({value.what} by {value.by})"
    if isinstance(value, Message):
        return message_text(value)
    if isinstance(value, str):
        return as_text([value])[1:-1]
    if isinstance(value, Mapping):
        body = ", ".join(f"{value_text(str(k))}: {value_text(v)}" for k, v in value.items())
        return f"{{{body}}}"
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return f"[{', '.join(value_text(item) for item in value)}]"
    return as_text(value)


def message_text(message: Message) -> str:
    """Return a message on one line: its speaker, and its content."""
    by = f" {message.agent}" if message.agent else ""
    calls = [call_text(call) for call in message.calls]
    text = " ".join(part for part in (" ".join(message.content.split()), *calls) if part)
    return f"{message.role}{by}: {text or 'nothing'}"


def call_text(call: ToolCall) -> str:
    """Return a tool call as code: ``log_meal(food: "pizza")``."""
    if not isinstance(call.args, Mapping):
        return f"{call.name}({value_text(call.args)}){_passes_to(call)}"
    args = ", ".join(f"{name}: {value_text(value)}" for name, value in call.args.items())
    return f"{call.name}({args}){_passes_to(call)}"


def _passes_to(call: ToolCall) -> str:
    """Return `` → billing`` for a handoff call whose name does not show the target."""
    return f" → {call.to}" if call.to else ""


def wrapped(
    text: str, first: str = "", rest: str | None = None, width: int | None = None
) -> list[str]:
    """Return a text in lines of at most ``width`` columns, its own line ends kept.

    ``first`` is the prefix of the first line, ``rest`` of the others (default: as many spaces).
    """
    rest = " " * len(first) if rest is None else rest
    width = columns() if width is None else width
    lines: list[str] = []
    for paragraph in text.split("\n"):
        lead = rest if lines else first
        lines += textwrap.wrap(
            paragraph,
            width,
            initial_indent=lead,
            subsequent_indent=rest,
            tabsize=4,
            replace_whitespace=False,
            drop_whitespace=True,
            break_on_hyphens=False,
        ) or [lead.rstrip()]
    return lines


def block(lines: Iterable[str]) -> str:
    """Return lines as one text, indented as what belongs to a scenario is."""
    return "\n".join(f"    {line}".rstrip() for line in lines).rstrip()


# Events of a trace, one a line, for people


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
