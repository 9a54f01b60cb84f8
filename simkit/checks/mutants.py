"""Trace mutants: one fact of a trace changed, which a claim or a lint should notice.

No mutant is run: the changed trace is judged again, whatever framework it came from. The events
of a mutant stay consistent (a changed argument is changed in the message that asks for the call,
too), so that lints do not notice it for the wrong reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from simkit.core.messages import ABSENT, JsonValue, Message
from simkit.trace import events as e
from simkit.trace.views import CallView, View

Changes: TypeAlias = Mapping[int, e.AnyEvent]
"""Index of an event in its trace to the event that stands there instead."""
Events: TypeAlias = Sequence[e.AnyEvent]


def fixed(changes: Changes) -> Callable[[], Changes]:
    """Return a function that returns changes which are made already."""
    return lambda: changes


def without_part(index: int, event: e.ContextBuilt, part: int, after: Changes) -> Changes:
    """Return a context without one part."""
    left_out = event.parts[part]
    tokens = left_out.tokens if isinstance(left_out, e.Made) else left_out.rendered_tokens
    parts = _but(event.parts, part)
    return {**after, index: replace(event, parts=parts, tokens=event.tokens - tokens)}


def without_piece(index: int, event: e.ContextBuilt, part: int, inner: int) -> Changes:
    """Return a context in which one section is missing from a message that several share."""
    message_part = event.parts[part]
    assert isinstance(message_part, e.Made)
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
    cuts: Sequence[e.Cut],
    sizes: tuple[int, int],
    tokens: int,
    after: Changes,
) -> Changes:
    """Return a context that shows a history of its own, which lacks a message.

    ``settled`` are the settled messages of the stream, to which later contexts add; ``sizes`` the
    numbers of settled messages and of cuts so far.
    """
    history_part = event.parts[part]
    assert isinstance(history_part, e.Shown)
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
    if not isinstance(part, e.Made) or not isinstance(old, Mapping):
        return part
    sections = {part.section, *(piece.section for piece in part.pieces)}
    if "handoff" not in sections:
        return part
    message, pieces = part.message, part.pieces
    for key, value in old.items():
        left = new.get(key, "") if isinstance(new, Mapping) else ""
        if left == value:
            continue
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        other = left if isinstance(left, str) else msgspec.json.encode(left).decode()
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
            known = args if is_whole else {**old, **{k: v for k, v in args.items() if k in old}}
            call = replace(call, args=known)
        calls.append(call)
    return replace(event, message=replace(event.message, calls=tuple(calls)))


def _but(values: Sequence[Any], place: int) -> tuple[Any, ...]:
    """Return all values but the one at an index, which may be outside."""
    return tuple(value for at, value in enumerate(values) if at != place)


def put_at(values: Sequence[Any], place: int, value: Any) -> tuple[Any, ...]:
    """Return the values with another one at an index."""
    return (*values[:place], value, *values[place + 1 :])


KINDS: Final[Mapping[str, str]] = {
    "contexts": "context", "payloads": "handoffs", "state": "state", "targets": "agents",
    "arguments": "tool_calls", "results": "tool_calls", "replies": "reply",
}  # fmt: skip
"""The kinds of trace mutants, in the order of reports, each with the claim that speaks of it."""
CHANGED: Final = "changed"
"""The text that stands in the place of another."""
KEYS_MAX: Final = 12
"""The number of keys of one value that are changed one by one."""
HISTORY_MAX: Final = 20
"""The number of messages of one history, the newest ones, that are left out one by one."""


class TraceMutant(msgspec.Struct, frozen=True, kw_only=True):
    """One changed fact, and what to claim so that the change is noticed."""

    kind: str
    turn: int
    """The turn's number, from 1."""
    text: str
    """The change, as reports print it; the same wherever the same fact is changed."""
    changes: Callable[[], Changes]
    fact: Fact
    """The fact as it was, from which a claim on it is made."""


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One observed fact: the claims under `expect` that speak of it, with its value."""

    claim: str
    """``context``, ``handoffs``, ``state``, ``agents``, ``tool_calls`` or ``reply``."""
    value: Any
    """The value, or the message."""
    name: str = ""
    """The channel, the tool, or the agent of a context as claims name it (``desk[1]``)."""
    section: str = ""
    size: int = 0
    """The number of messages in the section of the context, with this one."""
    key: str = ""
    """The key of the value in a payload or in arguments; empty for the whole value."""
    source: str = ""
    target: str = ""


def _mutant(
    kind: str, event: e.Event, text: str, changes: Callable[[], Changes], value: Any, **more: Any
) -> TraceMutant:
    """Return a mutant of a fact of the turn; ``value`` and ``more`` are the fact as it was."""
    fact = Fact(claim=KINDS[kind], value=value, **more)
    return TraceMutant(kind=kind, turn=event.turn, text=text, changes=changes, fact=fact)


# Changing values


def other_value(value: JsonValue) -> JsonValue:
    """Return another value of the same kind."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str() | None:
            return CHANGED if value != CHANGED else f"{CHANGED} again"
        case list() | tuple():
            return [] if value else [CHANGED]
        case {"$message": _}:
            return CHANGED
        case _:
            return {} if value else {CHANGED: CHANGED}


def _variants(value: Any) -> Iterator[tuple[str, JsonValue, str]]:
    """Yield for each key of a mapping its value's change and its loss; else the value's change."""
    if not isinstance(value, Mapping) or not value or any(key.startswith("$") for key in value):
        yield "", other_value(value), "was changed"
        return
    for key in [*value][:KEYS_MAX]:
        yield key, {**value, key: other_value(value[key])}, "was changed"
        yield key, {name: inner for name, inner in value.items() if name != key}, "was lost"


# The mutants of one trace


def trace_mutants(view: View) -> Iterator[TraceMutant]:
    """Yield every mutant of a trace, in the order of its events."""
    yield from _Mutants(view).all()


class _Mutants:
    def __init__(self, view: View) -> None:
        self._view, self._events = view, view.events
        self._calls_asked = {
            call.id: place
            for place, event in enumerate(self._events)
            if isinstance(event, e.MessageAdded)
            for call in event.message.calls
        }
        """Tool call to the event that adds the message that asks for it."""
        self._streams: dict[str, tuple[list[int], list[e.Cut]]] = {}

    def all(self) -> Iterator[TraceMutant]:
        last_writes = self._last_writes()
        for place, event in enumerate(self._events):
            match event:
                case e.ContextBuilt():
                    yield from self._contexts(place, event)
                case e.HandoffRequested():
                    yield from self._payloads(place, event)
                    yield from self._targets(place, event)
                case e.StateUpdated():
                    yield from self._updates(place, event, last_writes)
                case e.ToolCalled():
                    yield from self._arguments(place, event)
                case e.ToolReturned():
                    yield from self._results(place, event)
                case e.TurnFinished():
                    yield from self._replies(place, event)

    # Contexts

    def _contexts(self, place: int, event: e.ContextBuilt) -> Iterator[TraceMutant]:
        """Yield a mutant for each message that a context shows, and for each piece of one."""
        call = self._view.calls[event.call]
        for index, part in enumerate(event.parts):
            if isinstance(part, e.Shown):
                yield from self._histories(place, event, call, index, part)
            elif part.pieces:
                for inner, piece in enumerate(part.pieces):
                    message = replace(part.message, content=piece.content, data=None)
                    changes = partial(without_piece, place, event, index, inner)
                    yield self._left_out(event, call, message, piece.section, changes)
            else:
                whole = partial(without_part, place, event, index, {})
                yield self._left_out(event, call, part.message, part.section, whole)
        for index, number in enumerate(event.said):
            message = self._view.messages[number]
            later = (*event.said[:index], *event.said[index + 1 :])
            tokens = event.tokens - self._view.tokens[number]
            changed = replace(event, said=later, tokens=tokens)
            yield self._left_out(event, call, message, "run", fixed({place: changed}))

    def _histories(
        self, place: int, event: e.ContextBuilt, call: CallView, index: int, part: e.Shown
    ) -> Iterator[TraceMutant]:
        settled, cuts = self._streams.setdefault(part.stream, ([], []))
        if part.restarts:
            settled, cuts = self._streams[part.stream] = ([], [])
        settled += part.kept
        cuts += part.cuts
        after = self._after(place, part)
        if part.rendered is not None:
            changes = partial(without_part, place, event, index, after)
            yield self._left_out(event, call, part.rendered, part.section, changes)
            return
        size = len(settled) + len(part.tail)
        for at in range(max(part.lo, size - HISTORY_MAX), size):
            number = settled[at] if at < len(settled) else part.tail[at - len(settled)]
            message = self._view.messages[number]
            changes = partial(
                without_message,
                index=place,
                event=event,
                part=index,
                at=at,
                settled=settled,
                cuts=cuts,
                sizes=(len(settled), len(cuts)),
                tokens=self._view.tokens[number],
                after=after,
            )
            yield self._left_out(event, call, message, part.section, changes)

    def _after(self, place: int, part: e.Shown) -> Changes:
        """Return the next context of a stream, with what this one would have added to it."""
        for later in range(place + 1, len(self._events)):
            event = self._events[later]
            if not isinstance(event, e.ContextBuilt):
                continue
            for index, other in enumerate(event.parts):
                if isinstance(other, e.Shown) and other.stream == part.stream:
                    if other.restarts or not (part.kept or part.cuts or part.restarts):
                        return {}
                    joined = replace(
                        other,
                        kept=(*part.kept, *other.kept),
                        cuts=(*part.cuts, *other.cuts),
                        restarts=part.restarts,
                    )
                    return {later: replace(event, parts=put_at(event.parts, index, joined))}
        return {}

    def _left_out(
        self, event: e.ContextBuilt, call: CallView, message: Message, section: str, changes: Any
    ) -> TraceMutant:
        name = f"{event.agent}[{call.index}]" if call.index else event.agent
        size = len(call.context.section(section))
        text = f"{event.agent} is not sent a message of role {message.role} in section `{section}`"
        fact = {"name": name, "section": section, "size": size}
        return _mutant("contexts", event, text, changes, message, **fact)

    # Handoffs

    def _payloads(self, place: int, event: e.HandoffRequested) -> Iterator[TraceMutant]:
        payload = self._view.handoffs[event.handoff].payload
        if not isinstance(event.payload, Mapping) or not event.payload:
            return
        asks = self._calls_asked.get(event.call_id, -1)
        for key, changed, how in _variants(event.payload):
            pair = f"{event.from_agent} → {event.to_agent}"
            text = f"`{key}` of the payload {pair} {how}" if key else f"the payload {pair} {how}"
            changes = partial(with_payload, self._events, place, event, changed, asks)
            fact = {"key": key, "source": event.from_agent, "target": event.to_agent}
            value = payload.get(key) if key else payload
            yield _mutant("payloads", event, text, changes, value, **fact)

    def _targets(self, place: int, event: e.HandoffRequested) -> Iterator[TraceMutant]:
        ran = (run.agent for run in self._view.runs.values())
        agents = dict.fromkeys((*self._view.pipeline.agents, *ran))
        others = [name for name in agents if name not in (event.from_agent, event.to_agent)]
        if others:
            text = f"{event.from_agent} handed off to {others[0]}, not to {event.to_agent}"
            changes = partial(with_target, self._events, event, others[0])
            fact = {"source": event.from_agent, "target": event.to_agent}
            yield _mutant("targets", event, text, changes, None, **fact)

    # State

    def _last_writes(self) -> Mapping[tuple[int, str], int]:
        """Return turn and channel to the place of the last write."""
        return {
            (event.turn, name): place
            for place, event in enumerate(self._events)
            if isinstance(event, e.StateUpdated)
            for name in event.update
        }

    def _updates(
        self, place: int, event: e.StateUpdated, last: Mapping[tuple[int, str], int]
    ) -> Iterator[TraceMutant]:
        """Yield mutants of what runs and handoffs wrote, where no later write hides it."""
        if event.cause in ("given", "user") or not event.turn or event.state:
            return
        turn = self._view.turns[event.turn - 1]
        for name, raw in event.update.items():
            if last[event.turn, name] != place or name not in turn.state:
                continue
            reset = raw["$set"] if isinstance(raw, Mapping) and [*raw] == ["$set"] else ABSENT
            for key, changed, how in _variants(raw if reset is ABSENT else reset):
                raw_changed = changed if reset is ABSENT else {"$set": changed}
                place_text = f"`{key}` of channel `{name}`" if key else f"channel `{name}`"
                text = f"what {event.agent or 'the handoff'} wrote to {place_text} {how}"
                changes = fixed({place: _with_written(event, name, raw_changed)})
                value = _at(turn.state[name], key)
                yield _mutant("state", event, text, changes, value, name=name, key=key)

    # Tools

    def _arguments(self, place: int, event: e.ToolCalled) -> Iterator[TraceMutant]:
        if not isinstance(event.args, Mapping) or not event.args:
            return
        asks = self._calls_asked.get(event.call_id, -1)
        for key, changed, how in _variants(event.args):
            text = f"`{key}` of the arguments of {event.tool} {how}"
            changes = partial(with_arguments, self._events, place, event, changed, asks)
            value = event.args.get(key)
            yield _mutant("arguments", event, text, changes, value, name=event.tool, key=key)

    def _results(self, place: int, event: e.ToolReturned) -> Iterator[TraceMutant]:
        changed = replace(event, result=other_value(event.result))
        changes: dict[int, e.AnyEvent] = {place: changed}
        for later, message in enumerate(self._events):
            if not isinstance(message, e.MessageAdded) or not event.call_id:
                continue
            if message.message.call_id == event.call_id:
                answer = replace(message.message, content=CHANGED, data=None)
                changes[later] = replace(message, message=answer)
        tool = self._view.turns[event.turn - 1].tools if event.turn else ()
        result = next((view.result for view in tool if view.call_id == event.call_id), None)
        text = f"the result of {event.tool} was changed"
        yield _mutant("results", event, text, fixed(changes), result, name=event.tool)

    def _replies(self, place: int, event: e.TurnFinished) -> Iterator[TraceMutant]:
        if event.reply is None or event.error is not None:
            return
        turn = self._view.turns[event.turn - 1]
        agent = turn.runs[-1].agent if turn.runs else "the pipeline"
        text = f"the reply of a turn that ends with {agent} was changed"
        changes = fixed({place: replace(event, reply=CHANGED)})
        yield _mutant("replies", event, text, changes, turn.reply)


def _with_written(event: e.StateUpdated, name: str, value: JsonValue) -> e.StateUpdated:
    """Return a write of another value to one channel, which then has another value too."""
    changed = replace(event, update={**event.update, name: value})
    values = event.values or {}
    if name not in values:
        return changed
    return replace(changed, values={**values, name: other_value(values[name])})


def _at(value: Any, key: str) -> Any:
    """Return the value of a key, if it is one; else the whole value."""
    return value[key] if key and isinstance(value, Mapping) and key in value else value


IMPOSSIBLE: Final = (LookupError, TypeError, ValueError, AttributeError, AssertionError)
"""Raised where views or checks read a mutant that no run could have left."""


def mutated(events: Events, changes: Changes) -> list[e.AnyEvent]:
    """Return the events of a mutant."""
    mutated_events = list(events)
    for index, event in changes.items():
        mutated_events[index] = event
    return mutated_events
