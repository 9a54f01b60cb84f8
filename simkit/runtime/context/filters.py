"""History filters: pure functions of one message, named in the trace if they drop or edit it."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from simkit.core.messages import HANDOFF_PREFIX, Message
from simkit.language.matching import compile_matcher
from simkit.spec.pipeline.recipe import AgentFilter, Filter, OlderThan

Filtered: TypeAlias = Message | None
"""The message, an edited one, or None if it is dropped."""

FilterFunction: TypeAlias = Callable[[Message, Container[str]], Filtered]
"""Gets a message and the ids of the conversation's messages."""

TECHNICAL: Final[tuple[str, ...]] = ("tool_messages", "tool_calls", "intermediate_ai")


def tool_messages(message: Message, _committed: Container[str]) -> Filtered:
    """Drop tool results."""
    return None if message.role == "tool" else message


def tool_calls(message: Message, _committed: Container[str]) -> Filtered:
    """Remove the calls of assistant messages."""
    return replace(message, calls=()) if message.calls else message


def intermediate_ai(message: Message, committed: Container[str]) -> Filtered:
    """Drop assistant messages that are not in the conversation."""
    return None if message.role == "assistant" and message.id not in committed else message


def handoffs(message: Message, _committed: Container[str]) -> Filtered:
    """Remove transfer calls, and drop their results."""
    if message.role == "tool":
        return None if message.tool.startswith(HANDOFF_PREFIX) else message
    if any(call.is_handoff for call in message.calls):
        return replace(message, calls=tuple(c for c in message.calls if not c.is_handoff))
    return message


NAMED_FILTERS: Final[dict[str, FilterFunction]] = {
    "tool_messages": tool_messages,
    "tool_calls": tool_calls,
    "intermediate_ai": intermediate_ai,
    "handoffs": handoffs,
}


def filter_named(spec: Filter) -> tuple[str, FilterFunction]:
    """Return a filter's name and function.

    ``module:function`` and ``older_than`` read a whole history, and are not handled here.
    """
    if isinstance(spec, str):
        return spec, NAMED_FILTERS[spec]
    if spec.agents is not None:
        return "agents", _by_agent(spec.agents)
    return "drop", _by_matcher(spec.drop)


def of_older(options: OlderThan) -> list[tuple[str, FilterFunction]]:
    """Return the filters for older messages: without filters of its own, all are dropped."""
    if options.filters is None:
        return [("older_than", lambda _message, _committed: None)]
    return [filter_named(filter) for filter in options.filters]


def _by_matcher(source: Any) -> FilterFunction:
    matcher = compile_matcher(source)

    def drop(message: Message, _committed: Container[str]) -> Filtered:
        return None if matcher.holds(message) else message

    return drop


def _by_agent(options: AgentFilter) -> FilterFunction:
    only, unwanted = options.only, options.not_ or ()

    def agents(message: Message, _committed: Container[str]) -> Filtered:
        if message.agent is None and message.role != "assistant":
            return message
        if message.agent in unwanted or (only is not None and message.agent not in only):
            return None
        return message

    return agents
