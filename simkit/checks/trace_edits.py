"""Edits of a trace: other events in the place of those that hold a changed fact.

The events of an edited trace stay consistent (a changed argument is changed in the message that
asks for the call, too), so that lints do not notice it for the wrong reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from simkit.core.messages import JsonValue
from simkit.trace import events as e

Changes: TypeAlias = Mapping[int, e.AnyEvent]
"""Index of an event in its trace to the event that stands there instead."""
Events: TypeAlias = Sequence[e.AnyEvent]


def fixed(changes: Changes) -> Callable[[], Changes]:
    """Return a function that returns changes which are made already."""
    return lambda: changes


def without_part(index: int, event: e.ContextBuilt, part: int, after: Changes) -> Changes:
    """Return a context without one part."""
    left_out = event.parts[part]
    tokens = left_out.tokens if isinstance(left_out, e.InlinePart) else left_out.rendered_tokens
    parts = _but(event.parts, part)
    return {**after, index: replace(event, parts=parts, tokens=event.tokens - tokens)}


def without_piece(index: int, event: e.ContextBuilt, part: int, inner: int) -> Changes:
    """Return a context in which one section is missing from a message that several share."""
    message_part = event.parts[part]
    assert isinstance(message_part, e.InlinePart)
    piece, pieces = message_part.pieces[inner], _but(message_part.pieces, inner)
    parts = _but(event.parts, part)
    if pieces:
        content = message_part.message.content.replace(piece.content, "", 1)
        message = replace(message_part.message, content=content)
        tokens = message_part.tokens - piece.tokens
        changed = replace(message_part, pieces=pieces, message=message, tokens=tokens)
        parts = put_at(event.parts, part, changed)
    return {index: replace(event, parts=parts, tokens=event.tokens - piece.tokens)}


def without_message(
    *,
    index: int,
    event: e.ContextBuilt,
    part: int,
    at: int,
    settled: Sequence[int],
    cuts: Sequence[e.Omission],
    sizes: tuple[int, int],
    tokens: int,
    after: Changes,
) -> Changes:
    """Return a context that shows a history of its own, which lacks a message.

    ``settled`` are the settled messages of the stream, to which later contexts add; ``sizes`` the
    numbers of settled messages and of cuts so far.
    """
    history_part = event.parts[part]
    assert isinstance(history_part, e.HistoryPart)
    history = replace(
        history_part,
        stream=f"{history_part.stream}~{index}",
        kept=_but(settled[: sizes[0]], at),
        cuts=tuple(cuts[: sizes[1]]),
        tail=_but(history_part.tail, at - sizes[0]),
        restarts=False,
    )
    parts = put_at(event.parts, part, history)
    return {**after, index: replace(event, parts=parts, tokens=event.tokens - tokens)}


def with_payload(
    events: Events, index: int, event: e.HandoffRequested, payload: JsonValue, asks: int
) -> Changes:
    """Return a handoff with another payload, from the model's request to the target's context."""
    changes: dict[int, e.AnyEvent] = {}
    if asks >= 0:
        changes[asks] = _asking(events[asks], event.call_id, {"payload": payload})
    target = ""
    for later, other in enumerate(events[index:], index):
        if isinstance(other, e.HandoffEvent) and other.handoff == event.handoff:
            changes[later] = replace(other, payload=payload)
        elif isinstance(other, e.AgentStarted) and other.handoff == event.handoff:
            target = other.run
        elif target and isinstance(other, e.ContextBuilt) and other.run == target:
            parts = tuple(_payload_shown(part, event.payload, payload) for part in other.parts)
            changes[later] = replace(other, parts=parts)
    return changes


def _payload_shown(part: e.Part, old: Any, new: Any) -> e.Part:
    """Return the part of a context without the values that a payload no longer has."""
    if not isinstance(part, e.InlinePart) or not isinstance(old, Mapping):
        return part
    sections = {part.section, *(piece.section for piece in part.pieces)}
    if "handoff" not in sections:
        return part
    message, pieces = part.message, part.pieces
    for key, value in old.items():
        now = new.get(key, "") if isinstance(new, Mapping) else ""
        if now == value:
            continue
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        other = now if isinstance(now, str) else msgspec.json.encode(now).decode()
        if text:
            message = replace(message, content=message.content.replace(text, other), data=None)
            pieces = tuple(
                replace(piece, content=piece.content.replace(text, other)) for piece in pieces
            )
    return replace(part, message=message, pieces=pieces)


def with_target(events: Events, event: e.HandoffRequested, target: str) -> Changes:
    """Return a handoff to another agent, which then runs in the target's place."""
    changes: dict[int, e.AnyEvent] = {}
    runs: set[str] = set()
    for index, other in enumerate(events):
        if isinstance(other, e.HandoffEvent) and other.handoff == event.handoff:
            changes[index] = replace(other, to_agent=target)
        elif isinstance(other, e.AgentStarted) and other.handoff == event.handoff:
            runs.add(other.run)
            changes[index] = replace(other, agent=target)
        elif other.run in runs and other.agent == event.to_agent:
            changes[index] = replace(other, agent=target)
    return changes


def with_arguments(
    events: Events, index: int, event: e.ToolCalled, args: JsonValue, asks: int
) -> Changes:
    """Return a tool call with other arguments, in the message that asks for it, too."""
    changes: dict[int, e.AnyEvent] = {index: replace(event, args=args)}
    if asks >= 0:
        changes[asks] = _asking(events[asks], event.call_id, args, is_whole=True)
    return changes


def _asking(
    event: e.AnyEvent, call_id: str, args: JsonValue, *, is_whole: bool = False
) -> e.AnyEvent:
    """Return the event of a message whose call has other arguments."""
    assert isinstance(event, e.MessageAdded)
    calls = []
    for call in event.message.calls:
        if call.id == call_id:
            old = call.args if isinstance(call.args, Mapping) else {}
            edited = args if is_whole else {**old, **{k: v for k, v in args.items() if k in old}}
            call = replace(call, args=edited)
        calls.append(call)
    return replace(event, message=replace(event.message, calls=tuple(calls)))


def _but(values: Sequence[Any], index: int) -> tuple[Any, ...]:
    """Return all values but the one at an index, which may be outside."""
    return tuple(value for at, value in enumerate(values) if at != index)


def put_at(values: Sequence[Any], index: int, value: Any) -> tuple[Any, ...]:
    """Return the values with another one at an index."""
    return (*values[:index], value, *values[index + 1 :])
