"""LangChain's messages as ours, and what stands in a graph's state as plain data."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

from langchain_core.messages import BaseMessage, RemoveMessage

from simkit.adapters.history_reader import is_worth_it
from simkit.adapters.langgraph.overwriting import told_write
from simkit.adapters.plain_values import names_of
from simkit.adapters.streams import leading_equal, leading_same
from simkit.core.messages import ROLE_ALIASES, Message, ToolCall
from simkit.trace.store import copied

REMOVED: Final = "a message is removed"
"""Stands for LangGraph's order to remove a message; what is left is told with the state."""

_CONTENT, _NAME, _CALLS = map(itemgetter, ("content", "name", "tool_calls"))
_NOTHING: Final[list[Any]] = []
"""What messages are said to have held that held no parts, or called nothing."""


def as_message(said: BaseMessage) -> Message:
    """Returns a message in our words; its text is what a provider would be sent."""
    if said.type == "tool":
        return Message("tool", text_of(said), call_id=said.tool_call_id or "", tool=said.name or "")
    # Asked for what it has not, a message of LangChain's takes long to say so.
    fields = said.__dict__
    role = ROLE_ALIASES.get(said.type) or ROLE_ALIASES.get(fields.get("role", ""), "user")
    asked = fields.get("tool_calls")
    calls = tuple(map(_as_call, asked)) if asked else ()
    agent = said.name if role == "assistant" else None
    return Message(role, text_of(said), calls=calls, agent=agent)


def _as_call(call: Mapping[str, Any]) -> ToolCall:
    return ToolCall(call["id"] or "", call["name"], copied(call["args"]))


class _Live(dict[str, Any]):
    """What a message holds that holds something new whenever it is changed."""

    def __init__(self, said: BaseMessage) -> None:
        super().__init__(said.__dict__)
        self._said = said

    def __getitem__(self, name: str) -> Any:
        return self._said.__dict__[name]


def _held_by(said: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Returns what each message holds, now and later."""
    renewing = {kind for kind in set(map(type, said)) if _checks_what_it_is_given(kind)}
    if not renewing:
        return [one.__dict__ for one in said]
    return [_Live(one) if type(one) in renewing else one.__dict__ for one in said]


def _checks_what_it_is_given(kind: type[BaseMessage]) -> bool:
    return bool(kind.model_config.get("validate_assignment"))


class _Batch:
    """Messages that were converted, and what they said then."""

    __slots__ = ("_asking", "_calls", "_contents", "_held", "_names", "_places", "_said", "ours")

    def __init__(self) -> None:
        self._said: list[BaseMessage] = []
        self._held: list[dict[str, Any]] = []
        """What each holds, which lives as long as it: so a look at all runs at C's speed."""
        self._contents: list[Any] = []
        self._names: list[Any] = []
        self._places: list[int] = []
        """Where those stand that can call tools,"""
        self._asking: list[dict[str, Any]] = []
        """what these hold,"""
        self._calls: list[Any] = []
        """and their tool calls. These and the contents are copies."""
        self.ours: list[Message] = []

    def same(self, said: list[BaseMessage]) -> int:
        """Returns how many of the first messages are those that were converted."""
        return leading_same(self._said, said)

    def unchanged(self, size: int) -> int:
        """Returns how many of the first ``size`` messages say what they said."""
        held = self._held[:size]
        size = leading_equal(self._contents[:size], [*map(_CONTENT, held)])
        size = leading_equal(self._names[:size], [*map(_NAME, held[:size])])
        asking = bisect_left(self._places, size)
        found = leading_equal(self._calls[:asking], [*map(_CALLS, self._asking[:asking])])
        return size if found == asking else self._places[found]

    def go_on(self, said: list[BaseMessage], size: int) -> None:
        """Takes the list as it is now, of which the first ``size`` are the same."""
        new = said[size:]
        held = _held_by(new)
        asking = [place for place, one in enumerate(held) if "tool_calls" in one]
        self._said[size:], self._held[size:] = new, held
        self._contents[size:] = [_kept(one["content"]) for one in held]
        self._names[size:] = [one["name"] for one in held]
        known = bisect_left(self._places, size)
        self._places[known:] = [size + place for place in asking]
        self._asking[known:] = [held[place] for place in asking]
        self._calls[known:] = [_kept(held[place]["tool_calls"]) for place in asking]
        self.ours[size:] = map(as_message, new)

    def take(self, other: _Batch, size: int) -> None:
        """Holds what another does of its first messages."""
        asking = bisect_left(other._places, size)
        self._said, self._held = other._said[:size], other._held[:size]
        self._contents, self._names = other._contents[:size], other._names[:size]
        self._places, self._asking = other._places[:asking], other._asking[:asking]
        self._calls, self.ours = other._calls[:asking], other.ours[:size]


def _kept(value: Any) -> Any:
    return value if type(value) is str else copied(value) if value else _NOTHING


class Conversions:
    """Messages as ours; of a list that has grown, only what is new is converted.

    Nodes may change a message in place, so what each says is compared with what it said.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], _Batch] = {}
        self._newest = _Batch()
        """The one that went on last: agents mostly share what is at the front of their lists."""

    def of(self, whose: tuple[str, str], said: Sequence[BaseMessage]) -> list[Message]:
        """Returns messages in our words; ``whose`` tells lists apart of which each grows."""
        # Instructions are mostly made anew for each call.
        front = next((n for n, one in enumerate(said) if one.type != "system"), len(said))
        batch, rest = self._last.setdefault(whose, _Batch()), [*(said[front:] if front else said)]
        size = batch.same(rest)
        if is_worth_it(len(rest) - size, len(rest)):
            theirs = self._newest.same(rest)
            if is_worth_it(theirs - size, theirs):
                batch.take(self._newest, size := theirs)
        batch.go_on(rest, batch.unchanged(size))
        self._newest = batch
        return [*map(as_message, said[:front]), *batch.ours] if front else [*batch.ours]


def text_of(said: BaseMessage) -> str:
    """Returns a message's text, of several parts those that are text."""
    content = said.content
    if isinstance(content, str):
        return content
    parts = (part if isinstance(part, str) else part.get("text", "") for part in content)
    return "".join(part for part in parts if isinstance(part, str))


def messages_in(value: Any) -> list[BaseMessage]:
    """Returns the messages of a channel; empty for one that holds none."""
    if not isinstance(value, list):
        return []
    return [one for one in value if isinstance(one, BaseMessage)]


def plain(
    value: Any,
    known: Callable[[Sequence[BaseMessage]], list[Any]],
    listed: Callable[[Sequence[BaseMessage]], list[Any]] | None = None,
) -> Any:
    """Returns a value in which messages are what ``known`` makes of them, and lists of messages
    what ``listed`` does, if it is given."""
    kind: Any = type(value)
    if value is None or kind is str:
        return value
    if _is_said(kind):
        return known([value])[0]
    if isinstance(value, RemoveMessage):
        return REMOVED
    value = told_write(value)
    if isinstance(value, Mapping):
        return {key: plain(inner, known, listed) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        if value and all(map(_is_said, set(map(type, value)))):
            return (listed or known)(value)
        return [plain(inner, known, listed) for inner in value]
    names = None if isinstance(value, str) else names_of(value)
    if names is not None:
        return {name: plain(getattr(value, name, None), known, listed) for name in names}
    return value


@lru_cache(maxsize=256)
def _is_said(kind: type) -> bool:
    return issubclass(kind, BaseMessage) and not issubclass(kind, RemoveMessage)
