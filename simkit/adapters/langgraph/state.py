"""State of a graph's channels, reported as each node's writes.

A graph applies the results of its nodes at the end of a step. So writes are kept until then, and
reported with the new values of channels whose reducers are not simkit's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import msgspec
from langchain_core.messages import BaseMessage

from simkit.adapters import api
from simkit.adapters.langgraph.graphs import channels_of, holds_messages, is_reset, told_write
from simkit.adapters.langgraph.messages import (
    UNKNOWN,
    Conversions,
    appended,
    as_held,
    as_message,
    begins_with,
    is_held,
    is_override,
    is_same,
    is_several,
    is_unchanged,
    plain,
    together,
)


class _Write(msgspec.Struct, frozen=True):
    """The writes of one node."""

    update: Mapping[str, Any]
    agent: str
    run: api.Run | None
    group: str
    branch: str


class _Shape(msgspec.Struct, frozen=True):
    """The facts of a graph's channels, which stay the same."""

    channels: Mapping[str, Any]
    """The channels themselves, so that nothing else gets their identity."""
    facts: Mapping[str, api.ChannelFacts]
    conversation: frozenset[str]
    """The channels that hold messages."""


class States:
    """The recorded state of each session, and of inner graphs."""

    def __init__(self, recorder: api.TraceRecorder) -> None:
        self._recorder = recorder
        self.declared: Mapping[str, api.ChannelFacts] = {}
        """The channels that checks know."""
        self.reported: dict[str, dict[str, Any]] = {}
        """Session to channel to its recorded value."""
        self.waiting: dict[str, dict[str, Any]] = {}
        """Session to its graph's channels before a step that waits for an answer."""
        self.conversions = Conversions()
        self.last: Any = None
        """The last seen state."""
        self._shapes: dict[tuple[int, bool], _Shape] = {}
        """The shapes of graphs' channels, by the identity of these, and whether they are kept."""
        self.busy: set[str] = set()
        """The sessions with a graph that uses the session's own state."""

    def forget(self) -> None:
        """Begin a turn: channels of scope turn are empty."""
        self.busy = set()
        expiring = [name for name in self.declared if self.declared[name].scope == "turn"]
        for values in self.reported.values():
            for name in expiring:
                values.pop(name, None)

    def of(self, channels: Mapping[str, Any], *, are_kept: bool) -> State:
        """Return the state for a call of an outermost graph.

        It is the session's; of parallel graphs, the first one gets it.
        """
        session = self._recorder.session
        is_sessions = session not in self.busy
        self.busy.add(session)
        return State(channels, self._recorder, self, are_kept=are_kept, is_sessions=is_sessions)

    def shape_of(self, channels: Mapping[str, Any], *, are_kept: bool) -> _Shape:
        """Return the shape of a graph's channels, which stays the same."""
        key = id(channels), are_kept
        shape = self._shapes.get(key)
        if shape is None:
            facts = channels_of(channels, are_kept=are_kept)
            messages = (name for name, channel in channels.items() if holds_messages(channel))
            shape = _Shape(channels, facts, frozenset(("messages", *messages)))
            self._shapes[key] = shape
        return shape


class State:
    """The state of one call of a graph, which begins with the graph's input.

    The state of an inner graph is recorded from the first run in it.
    """

    def __init__(
        self, channels: Mapping[str, Any], recorder: api.TraceRecorder, states: States, *,
        are_kept: bool = False, is_sessions: bool = False, around: State | None = None,
    ) -> None:  # fmt: skip
        self._recorder, self._states, self._session = recorder, states, recorder.session
        shape = states.shape_of(channels, are_kept=are_kept)
        self._facts, self.conversation = shape.facts, shape.conversation
        self._is_sessions, self._around = is_sessions, around
        self.id = ""
        """Its name in the trace; empty for the session's, and before it is recorded."""
        self._is_told = is_sessions
        self._reported: dict[str, Any] = {}
        """Channel to its recorded value."""
        if is_sessions:
            self._reported = states.reported.setdefault(self._session, dict(recorder.initial_state))
        self._values: Mapping[str, Any] = {}
        """The current channel values, before they are recorded."""
        self._writes: list[_Write] = []
        self.is_at_work = False
        """Whether a node of the graph has begun to run."""
        self.pauses = False
        """Whether a node asks the user, so that its step is not over."""
        self._before: dict[str, Any] = {}
        """The channel values before the step that waits for an answer."""
        self._resumed: frozenset[str] = frozenset()
        """The channels written by a step that waited and now continues."""

    @property
    def goes_on(self) -> bool:
        """Return whether a step continues that has some recorded writes."""
        return bool(self._resumed)

    def replacing(self, update: Any) -> Any:
        """Return an update without what reducers gather.

        Messages that are added to a list are a conversation of all the graph's nodes, whatever the
        list's name and reducer. A message that takes another one's place is for its reader alone.
        """
        if not isinstance(update, Mapping):
            return update
        facts = self._facts
        return {
            key: value
            for key, value in update.items()
            if key not in facts or facts[key].reducer == "replace"
        }

    def end(self) -> None:
        """End the call: the session's next one continues with its state."""
        if self._is_sessions:
            self._states.busy.discard(self._session)
            if self._before:
                self._states.waiting[self._session] = self._before

    def wrote(
        self, update: Mapping[str, Any], agent: str, run: api.Run | None, group: str, branch: str
    ) -> None:
        """Record a node's writes, which apply at the end of its step."""
        writes: dict[str, Any] = {}
        for name in update:
            if name in self._facts:
                writes[name] = told_write(update[name])
        if writes and self._is_told:
            self._writes.append(_Write(writes, agent, run, group, branch))

    def begin(self, values: Mapping[str, Any]) -> None:
        """Begin the call, with the channel values before it, and its input."""
        self._values = values
        if self._is_told:
            self._go_on(values)
            self._take(values)

    def became(self, values: Mapping[str, Any]) -> None:
        """End a step with these channel values; before the first node, they are the input."""
        if not self.is_at_work:
            self.begin(values)
            return
        self._values = values
        if self._is_told:
            self.settle(values)

    def open(self) -> None:
        """Record the state from now on, because a run uses it."""
        if self._is_told:
            return
        self._is_told = True
        around, shares = self._around, {}
        if around is not None:
            around.open()
            shares = {
                name: around._reported[name]
                for name, value in self._values.items()
                if name in around._reported
                and name in self._facts
                and begins_with(value, around._reported[name])
            }
        self.id = self._recorder.state_opened(
            self._facts, around.id if around is not None else "", tuple(shares)
        )
        self._reported = shares
        self._take(self._values)

    def received(self, input: Any, reads: Collection[str]) -> tuple[tuple[str, ...], Any]:
        """Return which channels hold a node's input, and the rest of it.

        LangGraph leaves out empty channels of those that the node ``reads``.
        """
        if not isinstance(input, Mapping):
            names = api.names_of(input)
            if names is None or isinstance(input, BaseMessage):
                return (), self._plain(input, None)
            input = {name: getattr(input, name, None) for name in names}
        facts = self._facts
        channels, more = list[str](), dict[str, Any]()
        for name in input:
            value = input[name]
            if name in facts and is_held(value, self._now(name)):
                channels.append(name)
            else:
                more[name] = value
        for name in reads:
            if name not in input and name in facts and self._now(name) is not UNKNOWN:
                channels.append(name)
        return tuple(channels), (self._plain(more, None) or None) if more else None

    def _now(self, name: str) -> Any:
        """Return the recorded value of a channel."""
        facts = self._facts[name]
        if name in self._reported:
            return self._reported[name]
        is_declared = bool(self.id) or name in self._states.declared
        return api.empty_value(facts.reducer, facts.default) if is_declared else UNKNOWN

    def _take(self, values: Mapping[str, Any]) -> None:
        """Record a graph's input, or the values it finds in its channels."""
        reported = self._reported
        given = self._recorder.initial_state if self._is_sessions else {}
        for name in given:
            if name in reported and reported[name] is given[name]:
                reported[name] = as_held(reported[name], values.get(name))
        update: dict[str, Any] = {}
        now: dict[str, Any] = {}
        for name in values:
            if name not in self._facts or name in self._resumed:
                continue
            value, facts = values[name], self._facts[name]
            if is_same(value, reported.get(name, facts.default)):
                continue
            update |= self._update_to(name, value)
            reported[name] = value
            if not self._is_ours(name, facts):
                now[name] = value
        update |= self._expired(values)
        if update:
            self._recorder.wrote(
                self._plain_whole(update),
                values=self._plain_whole(now) if now else None,
                cause="user",
                state=self.id,
            )

    def _update_to(self, name: str, value: Any) -> dict[str, Any]:
        """Return the update that makes a channel hold a value."""
        reducer = self._facts[name].reducer
        if reducer == "append":
            added, _ = appended(self._reported.get(name), None, value)
            return {name: added} if added else {}
        return {name: value if reducer == "replace" else {api.DECLARED_RESET: value}}

    def _expired(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return resets of the channels that are empty now."""
        resets = {}
        for name, value in [*self._reported.items()]:
            if name not in values and name in self._facts and value is not None:
                facts = self._facts[name]
                del self._reported[name]
                resets[name] = {api.DECLARED_RESET: api.empty_value(facts.reducer, facts.default)}
        return resets

    def _go_on(self, values: Mapping[str, Any]) -> None:
        """Continue a waiting step, if the channels have the values from before it."""
        before = self._states.waiting.get(self._session)
        if not self._is_sessions or before is None:
            return
        if all(is_unchanged(values.get(name), value) for name, value in before.items()):
            self._resumed = frozenset(self._states.waiting.pop(self._session))

    def settle(self, values: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Record each write, the last one of a channel with its new value."""
        writes, self._writes = self._writes, []
        resumed, self._resumed = self._resumed, self._resumed if not writes else frozenset()
        reported, last = self._reported, dict[str, int]()
        for index, write in enumerate(writes):
            for name in write.update:
                last[name] = index
        if self.pauses:
            self._before.update({name: reported.get(name) for name in last if name in self._facts})
        for index, write in enumerate(writes):
            ended = (name for name in write.update if last[name] == index and name in values)
            self._record_write(write, {name: values[name] for name in ended}, resumed)
        expired = self._expired(values) if values else {}
        if expired:
            self._recorder.wrote(self._plain_whole(expired), state=self.id)

    def _record_write(
        self, write: _Write, after: Mapping[str, Any], resumed: Collection[str]
    ) -> None:
        """Record a write; ``after`` has the new values of channels that it writes last."""
        update: dict[str, Any] = {}
        now: dict[str, Any] = {}
        for name, value in write.update.items():
            facts, result = self._facts[name], after.get(name, UNKNOWN)
            update[name] = self._update_of(name, value, result, is_resumed=name in resumed)
            if result is not UNKNOWN:
                is_else = facts.reducer == "replace" and update[name] is not result
                self._reported[name] = result
                if name in resumed or is_else or not self._is_ours(name, facts):
                    now[name] = result
        update = {name: self._plain(value, write.run) for name, value in update.items()}
        if update:
            self._recorder.wrote(
                update,
                write.agent,
                write.run,
                values=self._plain_whole(now, write.run) if now else None,
                group=write.group,
                branch=write.branch,
                state=self.id,
            )

    def _update_of(self, name: str, value: Any, after: Any, *, is_resumed: bool) -> Any:
        """Return how the write of a value to a channel is recorded; ``after`` is its result."""
        reducer, reported = self._facts[name].reducer, self._reported
        if is_reset(value):
            reported[name] = value[api.DECLARED_RESET]
            return value
        if reducer == "append":
            result = UNKNOWN if is_resumed else after
            update, reported[name] = appended(reported.get(name), value, result)
            return update
        if is_several(value):
            return together(reducer, value["$writes"], after)
        return {api.DECLARED_RESET: after} if is_override(value, after) else value

    def _is_ours(self, name: str, facts: api.ChannelFacts) -> bool:
        """Return whether checks can compute a channel's new value from the update."""
        is_known = bool(self.id) or self._states.declared.get(name) == facts
        return ":" not in facts.reducer and is_known

    def _plain(self, value: Any, run: api.Run | None) -> Any:
        return plain(value, partial(self._logged, run))

    def _plain_whole(self, values: Mapping[str, Any], run: api.Run | None = None) -> dict[str, Any]:
        """Return channel values as plain data; most of them are unchanged."""
        return {
            name: plain(value, partial(self._logged, run), partial(self._whole, name, run))
            for name, value in values.items()
        }

    def _logged(self, run: api.Run | None, messages: Sequence[BaseMessage]) -> list[Any]:
        return self._recorder.logged([*map(as_message, messages)], run)

    def _whole(
        self, channel: str, run: api.Run | None, messages: Sequence[BaseMessage]
    ) -> list[Any]:
        ours = self._states.conversions.of(("list", channel), messages)
        return self._recorder.references_of(ours, channel, run)
