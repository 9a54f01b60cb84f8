"""Late handoffs: handoffs that are known only when the target starts; earlier events are adapted.

An agent that is only known by its run (``simkit.agent("billing")``) makes a tool ``to_billing`` a
handoff when it starts. By then the call is in the log, and the tool in a context.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from simkit.adapters.handoff_tools import PREFIXES
from simkit.core.messages import Message, call_of
from simkit.trace import events as e

_replaced = msgspec.structs.replace


def may_turn_out(event: e.ContextBuilt) -> bool:
    """Return whether a tool in a context may become a handoff, by its name."""
    if not event.tools:
        return False
    known = {tool for tool, _ in event.handoff_tools}
    return any(tool.startswith(PREFIXES) and tool not in known for tool in event.tools)


def with_handoffs(events: Iterable[e.AnyEvent]) -> list[e.AnyEvent]:
    """Return a turn's events, with the handoffs marked in calls and tools."""
    result = [*events]
    targets = {
        event.call_id: event.to_agent
        for event in result
        if isinstance(event, e.HandoffRequested) and event.call_id
    }
    tools = {
        call.name: targets[call.id]
        for event in result
        if isinstance(event, e.MessageAdded)
        for call in event.message.calls
        if not call.is_handoff and call.id in targets
    }
    return [_agreeing(event, targets, tools) for event in result] if tools else result


def _agreeing(
    event: e.AnyEvent, targets: Mapping[str, str], tools: Mapping[str, str]
) -> e.AnyEvent:
    if isinstance(event, e.MessageAdded) and event.message.calls:
        return _replaced(event, message=with_targets(event.message, targets))
    if isinstance(event, e.ContextBuilt):
        pairs = tuple(_pairs(event, tools))
        if len(pairs) > len(event.handoff_tools):
            agents = event.handoffs
            if agents is not None:
                agents = tuple(dict.fromkeys((*agents, *(to for _, to in pairs if to))))
            return _replaced(event, handoffs=agents, handoff_tools=pairs)
    return event


def _pairs(event: e.ContextBuilt, tools: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the handoff tools in the order in which they were offered."""
    known = dict(event.handoff_tools)
    for tool in event.tools:
        target = known.get(tool, tools.get(tool))
        if target is not None:
            yield tool, target


def with_targets(message: Message, targets: Mapping[str, str]) -> Message:
    """Return a message with its calls to the agents in ``targets`` marked as handoffs."""
    calls = tuple(
        call_of(call.id, call.name, call.args, targets[call.id])
        if not call.is_handoff and call.id in targets
        else call
        for call in message.calls
    )
    return _replaced(message, calls=calls)
