"""LangChain's messages and a graph's state as plain data, and LangChain's callbacks."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from inspect import iscoroutinefunction
from itertools import dropwhile
from operator import attrgetter, itemgetter
from typing import Any, Final

from langchain_core.messages import BaseMessage, RemoveMessage

from simkit.adapters import api
from simkit.adapters.langgraph import compat
from simkit.adapters.langgraph.graphs import told_write

REMOVED: Final = "a message is removed"
"""Placeholder for LangGraph's order to remove a message; the state shows the result."""


def as_message(message: BaseMessage) -> api.Message:
    """Return a simkit message; its text is what a provider would get."""
    if message.type == "tool":
        return api.Message(
            "tool", text_of(message), call_id=message.tool_call_id or "", tool=message.name or ""
        )
    # Access to a missing attribute of LangChain's messages is slow.
    fields = message.__dict__
    role = api.ROLE_ALIASES.get(message.type) or api.ROLE_ALIASES.get(
        fields.get("role", ""), "user"
    )
    calls = tuple(map(_as_call, fields.get("tool_calls") or ()))
    name = message.name or ""
    agent = (name or None) if role == "assistant" else None
    return api.Message(role, text_of(message), calls=calls, agent=agent, name=name)


def _as_call(call: Mapping[str, Any]) -> api.ToolCall:
    return api.ToolCall(call["id"] or "", call["name"], api.copy_plain(call["args"]))


def _calls_in(fields: Mapping[str, Any]) -> Any:
    """Return the calls in a message's fields, or what else only some messages have."""
    if "tool_calls" in fields:
        return fields["tool_calls"]
    return fields.get("tool_call_id") or fields.get("role")


_FIELDS: Final = attrgetter("__dict__")
_READS: Final[tuple[Callable[[Any], Any], ...]] = (
    *map(itemgetter, ("type", "content", "name")),
    _calls_in,
)
"""The functions that read what `as_message` uses, one part each: lists of parts compare in C."""


class Conversions:
    """Converted messages; of a list that has grown, only new ones are converted.

    Nodes may change a message in place, and a checkpointer makes all messages of a session again in
    each turn, so what each message says is compared with what it said before.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], tuple[list[list[Any]], list[api.Message]]] = {}
        """Copies of the parts of the messages in a list, and the converted messages."""

    def of(self, owner: tuple[str, str], messages: Sequence[BaseMessage]) -> list[api.Message]:
        """Return converted messages; ``owner`` identifies a list that grows."""
        # Instructions are mostly made again for each call.
        rest = [*dropwhile(lambda message: message.type == "system", messages)]
        front = messages[: len(messages) - len(rest)]
        fields = [*map(_FIELDS, rest)]
        words = [[*map(read, fields)] for read in _READS]
        if owner not in self._last:  # Lists of a graph mostly begin alike.
            before, numbers = next(reversed(self._last.values()), ([[] for _ in words], []))
            self._last[owner] = [*map(list, before)], [*numbers]
        last, ours = self._last[owner]
        size = min(map(api.leading_equal, last, words))
        if not size == len(rest) == len(ours):
            for copies, now in zip(last, words, strict=True):
                copies[size:] = map(api.copy_plain, now[size:])
            ours[size:] = map(as_message, rest[size:])
        return [*map(as_message, front), *ours]


def text_of(message: BaseMessage) -> str:
    """Return a message's text; of several parts, those that are text."""
    content = message.content
    if isinstance(content, str):
        return content
    parts = (part if isinstance(part, str) else part.get("text", "") for part in content)
    return "".join(part for part in parts if isinstance(part, str))


def has_messages(value: Any) -> bool:
    """Return whether a channel holds messages."""
    if not isinstance(value, list):
        return False
    return any(issubclass(kind, BaseMessage) for kind in set(map(type, value)))


def plain(
    value: Any,
    known: Callable[[Sequence[BaseMessage]], list[Any]],
    listed: Callable[[Sequence[BaseMessage]], list[Any]] | None = None,
) -> Any:
    """Return a value with messages converted by ``known``, and lists of messages by ``listed``."""
    kind: Any = type(value)
    if value is None or kind is str:
        return value
    if isinstance(value, (list, tuple)):
        if value and all(map(are_messages, set(map(type, value)))):
            return (listed or known)(value)
        return [plain(inner, known, listed) for inner in value]
    if are_messages(kind):
        return known([value])[0]
    if isinstance(value, RemoveMessage):
        return REMOVED
    value = told_write(value)
    if isinstance(value, Mapping):
        return {key: plain(inner, known, listed) for key, inner in value.items()}
    names = None if isinstance(value, str) else api.names_of(value)
    if names is not None:
        return {name: plain(getattr(value, name, None), known, listed) for name in names}
    return value


@lru_cache(maxsize=256)
def are_messages(kind: type) -> bool:
    """Return whether values of a type are messages, and no orders to remove one."""
    return issubclass(kind, BaseMessage) and not issubclass(kind, RemoveMessage)


_JOINS: Final = {"add": operator.add, "merge": operator.or_, "union": operator.or_}


UNKNOWN: Final = object()


def as_held(update: Any, current: Any) -> Any:
    """Return a given value as the channel holds it, with the graph's messages."""
    return current[: len(update)] if isinstance(update, list) and has_messages(current) else update


def begins_with(value: Any, before: Any) -> bool:
    """Return whether a value equals another, or is a list that continues it."""
    if value is before:
        return True
    if isinstance(value, list) and isinstance(before, Sequence) and len(value) >= len(before):
        return api.leading_same(before, value) == len(before) > 0
    return False


def is_held(value: Any, current: Any) -> bool:
    """Return whether a node's input equals the recorded value."""
    if value is current:
        return True
    if isinstance(value, list) and isinstance(current, Sequence) and not isinstance(current, str):
        return api.is_equal([*current], value)
    return type(value) is type(current) and api.is_equal(value, current)


def is_several(update: Any) -> bool:
    """Return whether a node wrote a channel several times in one step."""
    return isinstance(update, dict) and [*update] == ["$writes"]


def together(reducer: str, writes: Sequence[Any], after: Any) -> Any:
    """Return a node's writes to a channel in one step as one; ``after`` may be unknown."""
    if reducer in _JOINS:
        return reduce(_JOINS[reducer], writes)
    return {api.DECLARED_RESET: writes[-1] if after is UNKNOWN else after}


def is_override(update: Any, after: Any) -> bool:
    """Return whether a write tells a user's reducer to take its ``value``."""
    is_said = isinstance(update, Mapping) and "value" in update and isinstance(after, list)
    return is_said and api.is_equal(update["value"], after)


def is_unchanged(value: Any, before: Any) -> bool:
    """Return whether a channel has its old value, though it was saved and read again."""
    if isinstance(value, list) and isinstance(before, list):
        return api.is_equal(_identities(value), _identities(before))
    return is_same(value, before)


def is_same(value: Any, before: Any) -> bool:
    """Return whether a value equals the channel's."""
    if before is None:
        return value is None or (isinstance(value, (list, dict, set)) and not value)
    return value is before or (not has_messages(value) and api.is_equal(value, before))


def appended(before: Any, update: Any, after: Any) -> tuple[Any, Any]:
    """Return the update to record for a write to a list, and the resulting list.

    If the old items have changed too (a message replaced by its id, or removed), the whole list is
    recorded as a reset. ``after`` is unknown if another node writes the list later in the step.
    """
    items = [*before] if isinstance(before, Sequence) else []
    if after is UNKNOWN:
        writes = update["$writes"] if is_several(update) else [update]
        added = [item for write in writes for item in _items_of(write)]
        return added, [*items, *added]
    if not isinstance(after, Sequence):
        return {api.DECLARED_RESET: after}, after
    size, start = len(items), api.leading_same(items, after)
    same = start == size or (
        len(after) >= size
        and api.is_equal(_identities(items[start:]), _identities(after[start:size]))
    )
    return (list(after[size:]) if same else {api.DECLARED_RESET: list(after)}), after


def _items_of(update: Any) -> list[Any]:
    if update is None:
        return []
    return list(update) if isinstance(update, (list, tuple)) else [update]


def _identities(items: Sequence[Any]) -> list[Any]:
    """Return the identities of items: of messages, their ids and contents."""
    if all(map(are_messages, set(map(type, items)))):
        return [(item.id, item.content, getattr(item, "tool_calls", None)) for item in items]
    return [
        item
        if getattr(item, "content", None) is None
        else (getattr(item, "id", None), item.content)
        for item in items
    ]


# LangChain's callbacks: start and end of a node's code, tools, and models without HTTP


listeners: Final = api.ContextListeners[Any]("simkit_graphs")
"""The listeners of runs: each is a `GraphListener`."""


def callback_rows() -> list[api.Row]:
    """Return the replacements that call a listener after the handlers of a run."""
    starts = [(*slot, _called(slot[1], is_start=True)) for slot in compat.RUN_STARTS]
    ends = [(*slot, _called(slot[1], is_start=False)) for slot in compat.RUN_ENDS]
    return [*starts, *ends, *((*slot, _split) for slot in compat.splits_of_runs())]


def _called(name: str, *, is_start: bool) -> Callable[[api.Replacement], api.Replacement]:
    """Return the wrapper of a method. That of a start returns the runs, an end is one of a run."""

    def tell(listener: Any, manager: Any, result: Any, args: Any, options: Any) -> None:
        if _OF_TRACERS not in manager.__dict__:
            getattr(listener, name)(result if is_start else manager, *args, **options)

    @listeners.around
    def method(
        listener: Any, before: api.Replacement, self: Any, *args: Any, **options: Any
    ) -> Any:
        result = before(self, *args, **options)
        tell(listener, self, result, args, options)
        return result

    @listeners.around
    async def awaited(
        listener: Any, before: api.Replacement, self: Any, *args: Any, **options: Any
    ) -> Any:
        result = await before(self, *args, **options)
        tell(listener, self, result, args, options)
        return result

    return lambda before: (awaited if iscoroutinefunction(before) else method)(before)


_OF_TRACERS: Final = "simkit_of_tracers"
"""The attribute of managers whose events others report too."""


def _split(before: api.Replacement) -> api.Replacement:
    """Wrap what gives tracers another payload: they get the event from a manager of their own."""

    def split_handlers(manager: Any) -> Any:
        real, tracers = before(manager)
        setattr(tracers, _OF_TRACERS, True)
        return real, tracers

    return split_handlers
