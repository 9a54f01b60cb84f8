"""Channels at work: scopes, reducers, and one event for all writes of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from simkit.errors import WriteInvalid
from simkit.messages import Message
from simkit.pipeline.model import Pipeline
from simkit.reducers import (
    BUILT_IN,
    DECLARED_RESET,
    Appended,
    Reducer,
    empty_value,
    is_reset,
    problem_of,
    reducer_of,
)
from simkit.runtime.functions import UserFunctions
from simkit.trace import canonical, copied


class Channel:
    """One compiled channel."""

    __slots__ = (
        "default", "function", "is_shared", "last", "name", "reduce", "reducer", "scope",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        reducer: str,
        scope: str,
        last: int,
        default: Any,
        function: Callable[..., Any] | None,
    ) -> None:
        """``function`` is the user's own reducer."""
        self.name, self.reducer, self.scope, self.last = name, reducer, scope, last
        self.default, self.function = default, function
        self.is_shared = scope in ("project", "global")
        self.reduce: Reducer = reducer_of(reducer if function is None else "replace", last)

    def empty(self) -> Any:
        """What the channel begins as."""
        return empty_value(self.reducer, self.default)


def channels_of(pipeline: Pipeline, functions: UserFunctions) -> dict[str, Channel]:
    """Returns the pipeline's channels; the conversation is one of them, declared or not."""
    channels = {
        name: Channel(
            name,
            spec.reducer_name,
            spec.scope,
            spec.last,
            spec.default,
            None if spec.reducer_name in BUILT_IN else functions.named(spec.reducer_name),
        )
        for name, spec in pipeline.channels.items()
    }
    if pipeline.conversation not in channels:
        channels[pipeline.conversation] = Channel(
            pipeline.conversation, "append", "session", 0, None, None
        )
    return channels


class Written(msgspec.Struct, frozen=True, gc=False):
    """What a write left, as the event tells it."""

    update: dict[str, Any]
    values: dict[str, Any] | None
    impure: dict[str, str] | None


class State:
    """All channels of all sessions."""

    def __init__(
        self, channels: Mapping[str, Channel], conversation: str, spoken: frozenset[str]
    ) -> None:
        """``spoken`` are the channels that hold messages, the conversation among them."""
        self._channels, self._conversation, self._spoken = channels, conversation, spoken
        self._sessions: dict[str, dict[str, Any]] = {}
        self._projects: dict[str, str] = {}
        self.committed: set[str] = set()
        """Ids of the messages that are in a conversation."""

    def begin(self, session: str, project: str) -> dict[str, Any]:
        """Returns a new session's values: its own empty, longer-lived ones as they are now."""
        values = {}
        for name, channel in self._channels.items():
            if channel.scope == "agent_run":
                continue
            values[name] = self._shared_value(channel, project)
        self._sessions[session], self._projects[session] = values, project
        return values

    def _shared_value(self, channel: Channel, project: str) -> Any:
        for session, other in self._sessions.items():
            if channel.scope == "global" or (
                channel.scope == "project" and self._projects[session] == project
            ):
                return other[channel.name]
        return channel.empty()

    def write(
        self,
        session: str,
        update: Mapping[str, Any],
        logged: Callable[[Any], Message],
    ) -> Written:
        """Applies an update; ``logged`` turns what is no message yet into one of the log."""
        values = self._sessions[session]
        recorded: dict[str, Any] = {}
        computed: dict[str, Any] | None = None
        impure: dict[str, str] | None = None
        # Nothing is written before everything can be.
        reduced: dict[str, Any] = {}
        said: Any = None
        for name, delta in update.items():
            channel = self._channel(name)
            if name in self._spoken:
                delta = self._messages(delta, logged)
                if name == self._conversation:
                    said = delta
            recorded[name] = canonical(delta)
            if channel.scope == "agent_run":
                continue
            if channel.function is not None:
                new, fault = _reduced_by_user(channel.function, values[name], delta)
                if name in self._spoken and not _are_messages(new):
                    raise WriteInvalid(
                        f"channel `{name}` is read as history, so its reducer must return a list "
                        "of the messages that it is given"
                    )
                computed = {**(computed or {}), name: canonical(new)}
                if fault:
                    impure = {**(impure or {}), name: fault}
            else:
                problem = problem_of(channel.reducer, delta, values[name])
                if problem:
                    raise WriteInvalid(f"channel `{name}`: {problem}")
                new = channel.reduce(values[name], delta)
            reduced[name] = new
        values.update(reduced)
        for name, new in reduced.items():
            if self._channels[name].is_shared:
                self._share(session, self._channels[name], new)
        self._commit(said)
        return Written(recorded, computed, impure)

    def _channel(self, name: str) -> Channel:
        """Returns a channel; one whose name was made from references may not be there."""
        found = self._channels.get(name)
        if found is None:
            known = ", ".join(sorted(self._channels))
            raise WriteInvalid(f"there is no channel {name!r} to write; channels: {known}")
        return found

    def _share(self, session: str, channel: Channel, value: Any) -> None:
        project = self._projects[session]
        for other, values in self._sessions.items():
            if channel.scope == "global" or self._projects[other] == project:
                values[channel.name] = value

    def _messages(self, delta: Any, logged: Callable[[Any], Message]) -> Any:
        if is_reset(delta):
            return {DECLARED_RESET: self._messages(delta[DECLARED_RESET], logged)}
        if delta is None:
            return None
        items = delta if isinstance(delta, (list, tuple, Appended)) else [delta]
        found = [
            item if isinstance(item, Message) and item.id else logged(item)
            for item in items
            if item is not None
        ]
        return found

    def _commit(self, delta: Any) -> None:
        said = delta[DECLARED_RESET] if is_reset(delta) else delta
        self.committed.update(message.id for message in said or ())

    def end_turn(self, session: str) -> None:
        """Clears the channels of scope turn."""
        values = self._sessions[session]
        for name, channel in self._channels.items():
            if channel.scope == "turn":
                values[name] = channel.empty()


def _reduced_by_user(function: Callable[..., Any], current: Any, delta: Any) -> tuple[Any, str]:
    """Calls the user's reducer twice on copies: it must change nothing and answer the same."""
    if is_reset(delta):
        return delta[DECLARED_RESET], ""
    before = _encoded(current), _encoded(delta)
    first, second = copied(current), copied(delta)
    value = copied(function(first, second))
    after = _encoded(first), _encoded(second)
    again = function(copied(current), copied(delta))
    if after != before:
        return value, "it changes its argument"
    if _encoded(again) != _encoded(value):
        return value, "it gives another value when called again"
    return value, ""


def _are_messages(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, Message) for item in value)


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(canonical(value))


def as_message(item: Any, agent: str | None) -> Message:
    """Returns what a conversation was given as a message: ``{user: text}``, fields, or a text."""
    if isinstance(item, Message):
        return item
    if isinstance(item, Mapping):
        for role in ("user", "assistant", "system", "human", "ai"):
            if role in item and len(item) <= 2:
                said_by = item.get("agent", agent if role in ("assistant", "ai") else None)
                return _spoken(
                    {"human": "user", "ai": "assistant"}.get(role, role), item[role], said_by
                )
        if "role" in item:
            return _spoken(str(item["role"]), item.get("content", ""), item.get("agent", agent))
    return _spoken("assistant", item, agent)


def _spoken(role: str, content: Any, agent: str | None) -> Message:
    if isinstance(content, str):
        return Message(role, content, agent=agent)
    text = msgspec.json.encode(canonical(content)).decode()
    return Message(role, text, agent=agent, data=canonical(content))
