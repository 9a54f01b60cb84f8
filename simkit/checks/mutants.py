"""Trace mutants: one fact of a trace changed, which a claim or a lint should notice.

No mutant is run: the changed trace is judged again, whatever framework it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from simkit.checks.trace_edits import (
    Changes,
    Events,
    fixed,
    put_at,
    with_arguments,
    with_payload,
    with_target,
    without_message,
    without_part,
    without_piece,
)
from simkit.core.messages import ABSENT, JsonValue, Message
from simkit.trace import events as e
from simkit.trace.views import CallView, View

KINDS: Final[Mapping[str, str]] = {
    "contexts": "context", "definitions": "tools", "payloads": "handoffs", "state": "state",
    "targets": "agents", "arguments": "tool_calls", "results": "tool_calls", "replies": "reply",
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
    """``context``, ``tools``, ``handoffs``, ``state``, ``agents``, ``tool_calls`` or ``reply``."""
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
            call.id: index
            for index, event in enumerate(self._events)
            if isinstance(event, e.MessageAdded)
            for call in event.message.calls
        }
        """Tool call to the event that adds the message that asks for it."""
        self._streams: dict[str, tuple[list[int], list[e.Omission]]] = {}
        self._defined = {
            event.number: (index, event)
            for index, event in enumerate(self._events)
            if isinstance(event, e.ToolDefined)
        }
        """The definitions that no context before has offered, each with its place."""

    def all(self) -> Iterator[TraceMutant]:
        last_writes = self._last_writes()
        for index, event in enumerate(self._events):
            match event:
                case e.ContextBuilt():
                    yield from self._contexts(index, event)
                    yield from self._definitions(event)
                case e.HandoffRequested():
                    yield from self._payloads(index, event)
                    yield from self._targets(index, event)
                case e.StateUpdated():
                    yield from self._updates(index, event, last_writes)
                case e.ToolCalled():
                    yield from self._arguments(index, event)
                case e.ToolReturned():
                    yield from self._results(index, event)
                case e.TurnFinished():
                    yield from self._replies(index, event)

    # Contexts

    def _contexts(self, position: int, event: e.ContextBuilt) -> Iterator[TraceMutant]:
        """Yield a mutant for each message that a context shows, and for each piece of one."""
        call = self._view.calls[event.call]
        for index, part in enumerate(event.parts):
            if isinstance(part, e.HistoryPart):
                yield from self._histories(position, event, call, index, part)
            elif part.pieces:
                for inner, piece in enumerate(part.pieces):
                    message = replace(part.message, content=piece.content, data=None)
                    changes = partial(without_piece, position, event, index, inner)
                    yield self._left_out(event, call, message, piece.section, changes)
            else:
                whole = partial(without_part, position, event, index, {})
                yield self._left_out(event, call, part.message, part.section, whole)
        for index, number in enumerate(event.said):
            message = self._view.messages[number]
            later = (*event.said[:index], *event.said[index + 1 :])
            tokens = event.tokens - self._view.tokens[number]
            changed = replace(event, said=later, tokens=tokens)
            yield self._left_out(event, call, message, "run", fixed({position: changed}))

    def _histories(
        self, position: int, event: e.ContextBuilt, call: CallView, index: int, part: e.HistoryPart
    ) -> Iterator[TraceMutant]:
        settled, cuts = self._streams.setdefault(part.stream, ([], []))
        if part.restarts:
            settled, cuts = self._streams[part.stream] = ([], [])
        settled += part.kept
        cuts += part.cuts
        after = self._after(position, part)
        if part.rendered is not None:
            changes = partial(without_part, position, event, index, after)
            yield self._left_out(event, call, part.rendered, part.section, changes)
            return
        size = len(settled) + len(part.tail)
        for at in range(max(part.lo, size - HISTORY_MAX), size):
            number = settled[at] if at < len(settled) else part.tail[at - len(settled)]
            message = self._view.messages[number]
            changes = partial(
                without_message,
                index=position,
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

    def _after(self, position: int, part: e.HistoryPart) -> Changes:
        """Return the next context of a stream, with what this one would have added to it."""
        for later in range(position + 1, len(self._events)):
            event = self._events[later]
            if not isinstance(event, e.ContextBuilt):
                continue
            for index, other in enumerate(event.parts):
                if isinstance(other, e.HistoryPart) and other.stream == part.stream:
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
        where = f" in section `{section}`" if section else ""
        text = f"{event.agent} is not sent a message of role {message.role}{where}"
        fact = {"name": name, "section": section, "size": size}
        return _mutant("contexts", event, text, changes, message, **fact)

    def _definitions(self, event: e.ContextBuilt) -> Iterator[TraceMutant]:
        """Yield mutants of what a model is sent of its tools, where each is offered first."""
        for number in event.definitions:
            if number not in self._defined:
                continue
            at, tool = self._defined.pop(number)
            if tool.description:
                text = f"the description of {tool.tool} was changed"
                fact = {"name": tool.tool, "description": tool.description}
                changes = fixed({at: replace(tool, description=other_value(tool.description))})
                yield _mutant("definitions", event, text, changes, fact, name=event.agent)
            for name, parameters, fact in _parameters(tool.parameters):
                text = f"parameter `{name}` of {tool.tool} was lost"
                changes = fixed({at: replace(tool, parameters=parameters)})
                fact = {"name": tool.tool, "parameters": fact}
                yield _mutant("definitions", event, text, changes, fact, name=event.agent)

    # Handoffs

    def _payloads(self, index: int, event: e.HandoffRequested) -> Iterator[TraceMutant]:
        payload = self._view.handoffs[event.handoff].payload
        if not isinstance(event.payload, Mapping) or not event.payload:
            return
        asks = self._calls_asked.get(event.call_id, -1)
        for key, changed, how in _variants(event.payload):
            pair = f"{event.from_agent} → {event.to_agent}"
            text = f"`{key}` of the payload {pair} {how}" if key else f"the payload {pair} {how}"
            changes = partial(with_payload, self._events, index, event, changed, asks)
            fact = {"key": key, "source": event.from_agent, "target": event.to_agent}
            value = payload.get(key) if key else payload
            yield _mutant("payloads", event, text, changes, value, **fact)

    def _targets(self, index: int, event: e.HandoffRequested) -> Iterator[TraceMutant]:
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
            (event.turn, name): index
            for index, event in enumerate(self._events)
            if isinstance(event, e.StateUpdated)
            for name in event.update
        }

    def _updates(
        self, index: int, event: e.StateUpdated, last: Mapping[tuple[int, str], int]
    ) -> Iterator[TraceMutant]:
        """Yield mutants of what runs and handoffs wrote, where no later write hides it."""
        if event.cause in ("given", "user") or not event.turn or event.state:
            return
        turn = self._view.turns[event.turn - 1]
        for name, raw in event.update.items():
            if last[event.turn, name] != index or name not in turn.state:
                continue
            reset = raw["$set"] if isinstance(raw, Mapping) and [*raw] == ["$set"] else ABSENT
            for key, changed, how in _variants(raw if reset is ABSENT else reset):
                raw_changed = changed if reset is ABSENT else {"$set": changed}
                place_text = f"`{key}` of channel `{name}`" if key else f"channel `{name}`"
                text = f"what {event.agent or 'the handoff'} wrote to {place_text} {how}"
                changes = fixed({index: _with_written(event, name, raw_changed)})
                value = _at(turn.state[name], key)
                yield _mutant("state", event, text, changes, value, name=name, key=key)

    # Tools

    def _arguments(self, index: int, event: e.ToolCalled) -> Iterator[TraceMutant]:
        if not isinstance(event.args, Mapping) or not event.args:
            return
        asks = self._calls_asked.get(event.call_id, -1)
        for key, changed, how in _variants(event.args):
            text = f"`{key}` of the arguments of {event.tool} {how}"
            changes = partial(with_arguments, self._events, index, event, changed, asks)
            value = event.args.get(key)
            yield _mutant("arguments", event, text, changes, value, name=event.tool, key=key)

    def _results(self, index: int, event: e.ToolReturned) -> Iterator[TraceMutant]:
        changed = replace(event, result=other_value(event.result))
        changes: dict[int, e.AnyEvent] = {index: changed}
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

    def _replies(self, index: int, event: e.TurnFinished) -> Iterator[TraceMutant]:
        if event.reply is None or event.error is not None:
            return
        turn = self._view.turns[event.turn - 1]
        agent = turn.runs[-1].agent if turn.runs else "the pipeline"
        text = f"the reply of a turn that ends with {agent} was changed"
        changes = fixed({index: replace(event, reply=CHANGED)})
        yield _mutant("replies", event, text, changes, turn.reply)


def _parameters(schema: JsonValue) -> Iterator[tuple[str, JsonValue, JsonValue]]:
    """Yield each parameter of a tool's schema, with the schema without it, and what said it."""
    if not isinstance(schema, Mapping):
        return
    properties, required = schema.get("properties"), schema.get("required")
    own = properties if isinstance(properties, Mapping) else {}
    needed = required if isinstance(required, (list, tuple)) else ()
    for name in [*dict.fromkeys((*own, *needed))][:KEYS_MAX]:
        less = dict(schema)
        if name in own:
            less["properties"] = {key: value for key, value in own.items() if key != name}
        if name in needed:
            less["required"] = [key for key in needed if key != name]
        fact = {"properties": {name: own[name]}} if name in own else {"required": {"$has": [name]}}
        yield name, less, fact


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
