"""Channels during a run: scopes, reducers, and one event for all writes of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from simkit.core.errors import MessageInvalid, WriteInvalid
from simkit.core.messages import JsonValue, Message
from simkit.language.json_schema import place_text, schema_errors
from simkit.runtime.context.rendering import plain
from simkit.runtime.conversation import Branch
from simkit.runtime.functions import UserFunctions, schema_of
from simkit.spec.pipeline.agents import spoken_channels
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.pipeline.root_names import (
    is_written_message,
    message_from,
    message_of,
    without_own,
)
from simkit.trace.reducers import (
    BUILT_IN,
    DECLARED_RESET,
    Appended,
    Reducer,
    channel_reducer,
    initial,
    is_reset,
)
from simkit.trace.store import canonical, copied


class Channel:
    """One compiled channel."""

    def __init__(
        self,
        name: str,
        reducer: str,
        scope: str,
        last: int,
        default: Any,
        function: Callable[..., Any] | None,
        schema: JsonValue = None,
        holds_messages: bool = False,
    ) -> None:
        """``function`` is the user's own reducer; ``schema`` is the schema of values."""
        self.name, self.reducer, self.scope, self.last = name, reducer, scope, last
        self.holds_messages = holds_messages
        self.default, self.function, self.schema = default, function, schema
        self.is_shared = scope in ("project", "global")
        self.may_grow = scope != "turn" and (function is not None or reducer == "replace")
        """Whether its whole value is written again and again, and may be longer each time."""
        self.empty = initial(reducer, default)
        """Returns the channel's initial value."""
        built_in = reducer if function is None else "replace"
        self.reduce: Reducer = channel_reducer(name, built_in, last)


def channels_of(pipeline: Pipeline, functions: UserFunctions) -> dict[str, Channel]:
    """Return the pipeline's channels; the conversation is one of them, declared or not."""
    message_channels = spoken_channels(pipeline)
    channels = {
        name: Channel(
            name,
            spec.reducer_name,
            spec.scope,
            spec.last,
            spec.default,
            None if spec.reducer_name in BUILT_IN else functions.named(spec.reducer_name),
            canonical(schema_of(spec.schema_, pipeline.schemas)),
            name in message_channels,
        )
        for name, spec in pipeline.channels.items()
    }
    if pipeline.conversation not in channels:
        channels[pipeline.conversation] = Channel(
            pipeline.conversation, "append", "session", 0, None, None, holds_messages=True
        )
    return channels


class State:
    """All channels of all sessions."""

    def __init__(
        self, channels: Mapping[str, Channel], conversation: str, schemas: Mapping[str, JsonValue]
    ) -> None:
        self.channels, self.conversation, self._schemas = channels, conversation, schemas
        self.has_shared = any(channel.is_shared for channel in channels.values())
        self._of_turn = [channel for channel in channels.values() if channel.scope == "turn"]
        self.message_channels = [
            name for name, channel in channels.items() if channel.holds_messages
        ]
        """The channels that hold messages: the conversation, and those that histories read."""
        self.has_default_messages = any(channels[name].default for name in self.message_channels)
        """Whether one of them has a default, which is no message until it is logged."""
        self.partial_channels = frozenset(
            name for name, channel in channels.items() if not channel.may_grow
        )
        """The channels of which an update is only what joins their value."""
        self._sessions: dict[str, dict[str, Any]] = {}
        self._projects: dict[str, str] = {}
        self.committed: set[str] = set()
        """Ids of the messages in conversations."""

    def begin(self, session: str, project: str) -> dict[str, Any]:
        """Return a new session's values: its own are initial, longer-lived ones as they are now."""
        values = {}
        for name, channel in self.channels.items():
            if channel.scope == "agent_run":
                continue
            values[name] = self._shared_value(channel, project)
        self._sessions[session], self._projects[session] = values, project
        return values

    def restore(
        self, session: str, project: str, values: dict[str, Any], committed: set[str]
    ) -> None:
        """Add a session from its store."""
        self._sessions[session], self._projects[session] = values, project
        self.committed |= committed

    def values(self, session: str) -> dict[str, Any]:
        """Return a session's channels; the mapping follows later changes."""
        return self._sessions[session]

    def shared(self, session: str) -> Iterator[Channel]:
        """Yield the non-empty channels that a session shares with others."""
        values = self._sessions[session]
        for name, channel in self.channels.items():
            if channel.is_shared and values[name] != channel.empty():
                yield channel

    def scope_if_shared(self, name: str, delta: Any) -> str:
        """Return the scope of a written channel that sessions share; else empty."""
        channel = self.channels[name]
        if delta is None and channel.function is None and channel.reducer != "replace":
            # Such reducers skip null: nothing was written.
            return ""
        return channel.scope if channel.is_shared else ""

    def _shared_value(self, channel: Channel, project: str) -> Any:
        for session, other in self._sessions.items():
            if channel.scope == "global" or (
                channel.scope == "project" and self._projects[session] == project
            ):
                return other[channel.name]
        return channel.empty()

    def join(self, channel: Channel, current: Any, delta: Any) -> tuple[Any, str]:
        """Return a channel's new value, and its reducer's error."""
        if channel.function is None:
            return channel.reduce(current, delta), ""
        new, fault = _reduced_by_user(channel.function, current, delta)
        if channel.holds_messages and not _are_messages(new):
            raise WriteInvalid(
                f"channel `{channel.name}` is read as history, so its reducer must return a "
                "list of the messages that it is given"
            )
        return new, fault

    def check_value(self, channel: Channel, value: Any, delta: Any) -> None:
        """Check a value with the channel's schema; of a growing list, only the new items."""
        schema = channel.schema
        before = 0
        is_of_items = isinstance(schema, dict) and set(schema) <= {"type", "items"}
        if channel.reducer == "append" and not is_reset(delta) and is_of_items:
            new = channel.reduce(None, delta)
            before, value = len(value) - len(new), new
        for path, text in schema_errors(schema, plain(value), self._schemas):
            if before and path:
                path = (int(path[0]) + before, *path[1:])
            raise WriteInvalid(f"channel `{channel.name}`{place_text(path)}: {text}")

    def joined(self, values: Mapping[str, Any], deltas: Mapping[str, Any]) -> dict[str, Any]:
        """Return other values, those of a branch, with a written update applied."""
        return {
            name: self.join(self.channels[name], values[name], delta)[0]
            for name, delta in deltas.items()
        }

    def no_channel(self, name: str) -> WriteInvalid:
        """Return the error for an unknown channel: its name may be made from references."""
        known = ", ".join(sorted(self.channels))
        return WriteInvalid(f"there is no channel {name!r} to write; channels: {known}")

    def share(self, session: str, changed: Mapping[str, Any]) -> None:
        """Pass a session's new values on to the sessions that share their channels."""
        for name, value in changed.items():
            channel = self.channels[name]
            if channel.is_shared:
                self._share(session, channel, value)

    def _share(self, session: str, channel: Channel, value: Any) -> None:
        project = self._projects[session]
        for other, values in self._sessions.items():
            if channel.scope == "global" or self._projects[other] == project:
                values[channel.name] = value

    def end_turn(self, session: str) -> None:
        """Clear the channels of scope turn."""
        values = self._sessions[session]
        for channel in self._of_turn:
            values[channel.name] = channel.empty()


class ChannelWrites:
    """One write of several channels: prepared channel by channel, then applied at once."""

    def __init__(self, state: State, values: dict[str, Any]) -> None:
        """``values`` are the session's channels."""
        self._state, self._values = state, values
        self._deltas: dict[str, Any] = {}
        self._new: dict[str, Any] = {}
        self._replaced: set[str] = set()
        """Channels of messages to which it does more than append."""
        self.recorded: dict[str, JsonValue] = {}
        """The update as plain data."""
        self.computed: dict[str, JsonValue] = {}
        """The new values that only users' reducers know."""
        self.impure: dict[str, str] = {}
        """Channel to what is wrong with its user's reducer."""
        self.may_grow = False
        """Whether it replaces the value of a channel, which may be longer each time."""

    def add(self, name: str, delta: Any) -> None:
        """Prepare the write of one channel, with its messages logged; raise WriteInvalid."""
        state = self._state
        if name not in state.channels:
            raise state.no_channel(name)
        channel = state.channels[name]
        self.recorded[name] = canonical(delta)
        self.may_grow = self.may_grow or channel.may_grow
        is_appended = channel.reducer == "append" and not channel.last and not is_reset(delta)
        if channel.holds_messages and not is_appended:
            self._replaced.add(name)
        if channel.scope == "agent_run":
            if channel.schema is not None:
                alone, _ = state.join(channel, channel.empty(), delta)
                state.check_value(channel, alone, delta)
            return
        new, fault = state.join(channel, self._values[name], delta)
        if channel.function is not None:
            self.computed[name] = canonical(new)
            if fault:
                self.impure[name] = fault
        if channel.schema is not None:
            state.check_value(channel, new, delta)
        self._deltas[name], self._new[name] = delta, new

    def apply(self, session: str, branch: Branch | None) -> None:
        """Write all channels, in the session and in the branch of the run."""
        state = self._state
        self._values.update(self._new)
        delta: Any = self._deltas.get(state.conversation)
        messages = delta[DECLARED_RESET] if is_reset(delta) else delta
        state.committed.update(message.id for message in messages or ())
        if state.has_shared:
            state.share(session, self._new)
        if branch is not None:
            branch.note(self._deltas, self._replaced)

    def values_in(self, branch: Branch | None) -> dict[str, dict[str, JsonValue]] | None:
        """Return the computed values in a branch and in those around it, by branch, if any."""
        if branch is None or not self.computed:
            return None
        return {
            inner.run: {name: canonical(inner.values()[name]) for name in self.computed}
            for inner in branch.lineage()
        }


def messages_in(delta: Any, logged: Callable[[Any], Message]) -> Any:
    """Return an update of a channel of messages; ``logged`` makes messages of other values."""
    if type(delta) is dict and is_reset(delta):
        return {DECLARED_RESET: messages_in(delta[DECLARED_RESET], logged)}
    if delta is None:
        return None
    if type(delta) is not list:
        delta = delta if isinstance(delta, (tuple, Appended)) else [delta]
    messages: list[Message] = []
    for item in delta:
        if type(item) is Message and item.id:
            messages.append(item)
        elif item is not None:
            messages.append(logged(item))
    return messages


def _reduced_by_user(function: Callable[..., Any], current: Any, delta: Any) -> tuple[Any, str]:
    """Call the user's reducer twice on copies: it must change nothing and return the same."""
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
    """Return a value written into a conversation as a message; a value becomes JSON text.

    Raise WriteInvalid for a message that would lose a part.
    """
    if not isinstance(item, Message) and not is_written_message(without_own(item)):
        return message_from("assistant", item, agent)
    try:
        return message_of(without_own(item), agent)
    except MessageInvalid as problem:
        keys = f"; known: {', '.join(problem.known)}" if problem.known else ""
        raise WriteInvalid(f"a message is written: {problem.what}{keys}") from None
