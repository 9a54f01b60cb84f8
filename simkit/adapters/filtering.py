"""Filters in user code: find what was dropped, from input and output."""

from __future__ import annotations

import inspect
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from simkit.adapters.streams import print_of
from simkit.core.messages import Message
from simkit.trace.events import Cut


def cuts_between(before: Sequence[Message], after: Sequence[Message], by: str) -> list[Cut]:
    """Return what the filter ``by`` did to numbered messages.

    A message that is missing in the output was dropped; or it was changed, if the output has as
    many new messages of its role as are missing. Linear in both.
    """
    left = Counter(print_of(message) for message in after)
    dropped_messages: list[Message] = []
    for message in reversed(before):  # Filters mostly keep the latest messages.
        mark = print_of(message)
        if left[mark]:
            left[mark] -= 1
        else:
            dropped_messages.append(message)
    dropped_messages.reverse()
    new: dict[str, deque[Message]] = {}
    for message in reversed(after):
        mark = print_of(message)
        if left[mark]:
            left[mark] -= 1
            new.setdefault(message.role, deque()).appendleft(message)
    missing = Counter(message.role for message in dropped_messages)
    cuts = []
    for message in dropped_messages:
        fresh = new.get(message.role, deque())
        is_changed = fresh and len(fresh) == missing[message.role]
        cuts.append(_changed(message, fresh, by) if is_changed else Cut(message.number, by))
        if is_changed:
            missing[message.role] -= 1
    return cuts


def _changed(message: Message, fresh: deque[Message], by: str) -> Cut:
    becomes = fresh.popleft()
    if becomes.content == message.content and message.calls:
        return Cut(message.number, by, "tool_calls", becomes=becomes)
    return Cut(message.number, by, "content", becomes=replace(becomes, id=message.id))


def function_name(function: Any) -> str:
    """Return a function's name; for a callable object, its class's."""
    name: str = getattr(function, "__name__", type(function).__name__)
    return name


def observe_result(returned: Any, tell: Callable[[Any], None]) -> Any:
    """Return a function's result, and pass it to ``tell`` as soon as it is available."""
    if inspect.isawaitable(returned):
        return _awaited(returned, tell)
    tell(returned)
    return returned


async def _awaited(returned: Any, tell: Callable[[Any], None]) -> Any:
    result = await returned
    tell(result)
    return result
