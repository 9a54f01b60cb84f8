"""History processors and other capabilities that change the history for the model."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic_ai.capabilities import (
    AbstractCapability,
    CombinedCapability,
    Hooks,
    ProcessHistory,
    WrapperCapability,
)

from simkit.adapters.api import Message, Replacement, Row, function_name
from simkit.adapters.pydantic_ai import compat
from simkit.adapters.pydantic_ai.agent_runs import current_log, flight_now
from simkit.adapters.pydantic_ai.messages import as_messages


def rows_for(capabilities: Iterable[Any]) -> Iterator[Row]:
    """Yield replacements that observe their changes to a history."""
    for capability in capabilities:
        if isinstance(capability, (CombinedCapability, WrapperCapability)):
            continue
        for way in compat.FILTER_METHODS:
            owner = next((kind for kind in type(capability).__mro__ if way in vars(kind)), None)
            if owner in (None, AbstractCapability) or owner.__module__.startswith(
                compat.OWN_CAPABILITIES
            ):
                continue
            yield owner, way, _wrap(way)


def _wrap(way: str) -> Any:
    def wrapper(before: Replacement) -> Replacement:
        @functools.wraps(before)
        async def changed(self: Any, ctx: Any, request_context: Any) -> Any:
            log, agent_run = current_log(), flight_now()
            if log is None or agent_run is None:
                return await before(self, ctx, request_context)
            before_messages = list(ctx.messages)
            sent_messages = _sendable(request_context.messages)
            result = await before(self, ctx, request_context)
            # Messages removed from the run's own history stay away from its later calls.
            is_lasting = [*map(id, before_messages)] != [*map(id, ctx.messages)]
            after = _sendable(result.messages)
            if after != sent_messages:
                log.filtered(agent_run, sent_messages, after, _name_of(self, way), is_lasting)
            return result

        return changed

    return wrapper


def _sendable(history: Sequence[Any]) -> list[Message]:
    """Return a history without results of missing calls, which PydanticAI itself removes."""
    messages, called = list[Message](), set[str]()
    for message in as_messages(history):
        called.update(call.id for call in message.calls)
        if message.role != "tool" or message.call_id in called:
            messages.append(message)
    return messages


def _name_of(capability: Any, way: str) -> str:
    """Return the name of a capability's function, or of the capability."""
    functions: list[Any] = []
    if isinstance(capability, ProcessHistory):
        functions = [capability.processor]
    elif isinstance(capability, Hooks):
        functions = compat.hooks_of(capability, way)
    return ", ".join(map(function_name, functions)) or type(capability).__name__
