"""What a graph's channels hold, told as what each node wrote.

A graph takes over what its nodes return when a step is over. So writes are kept until then, and
told with what the channels then are: where ours is another reducer, by the new value itself.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Any, Final

import msgspec
from langchain_core.messages import BaseMessage
from langgraph._internal._constants import INTERRUPT
from langgraph.pregel import Pregel

from simkit.adapters.activations import Run
from simkit.adapters.langgraph.messages import Conversions, as_message, messages_in, plain
from simkit.adapters.langgraph.overwriting import is_reset, keeps_the_newer, told_write
from simkit.adapters.langgraph.whole import is_narrow
from simkit.adapters.scribe import Scribe
from simkit.adapters.streams import leading_same
from simkit.events import ChannelFacts
from simkit.reducers import DECLARED_RESET
from simkit.trace import canonical

_MESSAGES: Final = "langgraph.graph.message"
_ADDED: Final = {list: "append", int: "add", float: "add", dict: "merge", set: "union"}
_EMPTY_AT_FIRST: Final = frozenset(_ADDED.values())
_JOINS: Final = {"add": operator.add, "merge": operator.or_, "union": operator.or_}
_OPERATORS: Final = {operator.add: ("append", "add"), operator.or_: ("merge", "union")}


class _Write(msgspec.Struct, frozen=True):
    """What one node returned."""

    update: Mapping[str, Any]
    agent: str
    run: Run | None
    group: str
    branch: str


def reducer_of(channel: Any) -> str:
    """Returns the reducer of a channel in our words."""
    function = getattr(channel, "operator", None) or getattr(channel, "reducer", None)
    if function is None:
        return "append" if type(channel).__name__ == "Topic" else "replace"
    if function.__module__ == _MESSAGES:
        return "append"
    held = channel.typ
    while hasattr(held, "__origin__"):
        held = held.__origin__
    known = _ADDED.get(held, "")
    if known in _OPERATORS.get(function, ()):
        return known
    if keeps_the_newer(function):
        return "replace"
    return f"{function.__module__}:{function.__qualname__}"


def channels_of(graph: Pregel) -> dict[str, ChannelFacts]:
    """Returns a graph's channels as judges know them; without a checkpointer they last a turn."""
    scope = "session" if graph.checkpointer else "turn"
    return {
        name: ChannelFacts(reducer_of(channel), scope, default_of(channel))
        for name, channel in graph.channels.items()
        if is_state(name)
    }


def default_of(channel: Any) -> Any:
    """Returns what a channel with a reducer of the user's holds before anything is written; None
    where judges know it, or there is nothing."""
    is_known = reducer_of(channel) in _EMPTY_AT_FIRST
    if is_known or not hasattr(channel, "operator") or not channel.is_available():
        return None
    return canonical(channel.get())


def is_state(name: str) -> bool:
    """Whether a channel is the user's, and not the graph's own."""
    return not name.startswith(("__", "branch:", "join:", "start:"))


class States:
    """The state of each session, as far as it is told."""

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe
        self.declared: Mapping[str, ChannelFacts] = {}
        """The channels that judges know."""
        self.told: dict[str, dict[str, Any]] = {}
        """Session to channel to the value that is told, by the call that ended last."""
        self.waiting: dict[str, dict[str, Any]] = {}
        """Session to what its graph's channels held before a step that waits for an answer."""
        self.conversions = Conversions()
        self.last: Any = None
        """The state as it was seen last."""

    def of(self, graph: Pregel) -> State:
        """Returns the state of a call of a graph, which is its own until the call is over."""
        return State(graph, self._scribe, self)


class State:
    """The state of one call of a graph: what it holds first is what it was given."""

    def __init__(self, graph: Pregel, scribe: Scribe, states: States) -> None:
        self._scribe, self._states, self._session = scribe, states, scribe.session
        self._facts = channels_of(graph)
        found = (n for n, c in graph.channels.items() if _holds_messages(c))
        self.conversation = frozenset(("messages", *found))
        """The channels that hold messages."""
        before = states.told.get(self._session) if graph.checkpointer else None
        self._told = None if before is None else dict(before)
        """Channel to the value that is told; None before anything is known of it."""
        self._writes: list[_Write] = []
        self._has_begun = self._pauses = False
        self._is_narrow = is_narrow(graph.output_channels, [*self._facts])
        self._before: dict[str, Any] = {}
        """What channels held before the step that waits for an answer."""
        self._resumed: frozenset[str] = frozenset()
        """The channels in which a step wrote that has waited and goes on."""

    @property
    def goes_on(self) -> bool:
        """Whether a step goes on of which some writes are told."""
        return bool(self._resumed)

    def pauses(self) -> None:
        """A node asks the user: its step is not over."""
        self._pauses = True

    def end(self) -> None:
        """The call is over: the session's next one goes on with what it left."""
        if self._told is not None:
            self._states.told[self._session] = self._told
        if self._before:
            self._states.waiting[self._session] = self._before

    def wrote(
        self, update: Mapping[str, Any], agent: str, run: Run | None, group: str, branch: str
    ) -> None:
        """A node has returned something; it holds when its step is over."""
        found = {name: told_write(value) for name, value in update.items() if is_state(name)}
        if found:
            self._writes.append(_Write(found, agent, run, group, branch))

    def became(self, values: Any) -> None:
        """The step is over, and the state is this; the first time, it is what was given."""
        self._states.last = values
        if self._is_narrow:
            return
        if not isinstance(values, Mapping):
            self._writes.clear()
            return
        if self._has_begun:
            if INTERRUPT not in values:  # Else its step is not over.
                self._settle(values)
            return
        self._take(values)

    def held(self, values: Mapping[str, Any]) -> None:
        """The step is over, and all channels hold this, of a graph that puts out some of them."""
        if not self._is_narrow:
            return
        if self._writes:
            self._settle(values)
        else:
            self._take(values)

    def _take(self, values: Mapping[str, Any]) -> None:
        """Tells what a graph is given, or finds in its channels."""
        self._has_begun = True
        self._go_on(values)
        if self._told is None:
            given = self._scribe.given
            self._told = {name: _as_held(one, values.get(name)) for name, one in given.items()}
        told = self._told
        update: dict[str, Any] = {}
        now: dict[str, Any] = {}
        for name, value in values.items():
            facts = self._facts.get(name)
            is_told = name in self._resumed
            if facts is None or is_told or _is_same(value, told.get(name, facts.default)):
                continue
            if facts.reducer == "append":
                added, _ = _appended(told.get(name), None, value)
                update.update({name: added} if added else {})
            elif facts.reducer == "replace":
                update[name] = value
            else:
                update[name] = {DECLARED_RESET: value}
            told[name] = value
            if not self._is_ours(name, facts):
                now[name] = value
        if update:
            self._scribe.wrote(
                self._plain_whole(update), values=self._plain_whole(now), cause="user"
            )

    def _go_on(self, values: Mapping[str, Any]) -> None:
        """Takes up a step that has waited, if the channels hold what they held before it."""
        before = self._states.waiting.get(self._session, {})
        if all(_is_unchanged(values.get(name), held) for name, held in before.items()):
            self._resumed = frozenset(self._states.waiting.pop(self._session, ()))

    def settle(self) -> None:
        """What was written now holds, where no channel that is put out was."""
        self._settle({})

    def _settle(self, values: Mapping[str, Any]) -> None:
        """Tells each write, the last one of a channel with what it holds now."""
        writes, self._writes = self._writes, []
        resumed, self._resumed = self._resumed, self._resumed if not writes else frozenset()
        told = self._told = {} if self._told is None else self._told
        last = {name: place for place, write in enumerate(writes) for name in write.update}
        if self._pauses:
            self._before.update({name: told.get(name) for name in last if name in self._facts})
        for place, write in enumerate(writes):
            update: dict[str, Any] = {}
            now: dict[str, Any] = {}
            for name, given in write.update.items():
                facts = self._facts.get(name)
                if facts is None:
                    continue
                is_last = last[name] == place
                after = values.get(name, _UNKNOWN) if is_last else _UNKNOWN
                if is_reset(given):
                    update[name], told[name] = given, given[DECLARED_RESET]
                elif facts.reducer == "append":
                    known = _UNKNOWN if name in resumed else after
                    update[name], told[name] = _appended(told.get(name), given, known)
                elif _is_several(given):
                    update[name] = _together(facts.reducer, given["$writes"], after)
                elif _is_override(given, after):
                    update[name] = {DECLARED_RESET: after}
                else:
                    update[name] = given
                if after is not _UNKNOWN:
                    told[name] = after
                    if name in resumed or not self._is_ours(name, facts):
                        now[name] = after
            if update:
                self._scribe.wrote(
                    self._plain(update, write.run), write.agent, write.run,
                    values=self._plain_whole(now, write.run), group=write.group,
                    branch=write.branch,
                )  # fmt: skip

    def _is_ours(self, name: str, facts: ChannelFacts) -> bool:
        """Whether judges make a channel's new value from the update alone."""
        return ":" not in facts.reducer and self._states.declared.get(name) == facts

    def _plain(self, value: Any, run: Run | None) -> Any:
        return plain(value, partial(self._logged, run))

    def _plain_whole(self, values: Mapping[str, Any], run: Run | None = None) -> dict[str, Any]:
        """Does the same for what channels hold: mostly, most of it is what was there before."""
        return {
            name: plain(value, partial(self._logged, run), partial(self._whole, name, run))
            for name, value in values.items()
        }

    def _logged(self, run: Run | None, said: Sequence[BaseMessage]) -> list[Any]:
        return self._scribe.logged([*map(as_message, said)], run)

    def _whole(self, channel: str, run: Run | None, said: Sequence[BaseMessage]) -> list[Any]:
        ours = self._states.conversions.of(("list", channel), said)
        return self._scribe.told(ours, channel, run)


_UNKNOWN: Final = object()


def _holds_messages(channel: Any) -> bool:
    function = getattr(channel, "operator", None) or getattr(channel, "reducer", None)
    return function is not None and function.__module__ == _MESSAGES


def _as_held(given: Any, held: Any) -> Any:
    """Returns what a scenario gives as the channel holds it: messages are the graph's."""
    return held[: len(given)] if isinstance(given, list) and messages_in(held) else given


def _is_several(given: Any) -> bool:
    """Whether a node wrote a channel several times in one step."""
    return isinstance(given, Mapping) and list(given) == ["$writes"]


def _together(reducer: str, writes: Sequence[Any], after: Any) -> Any:
    """Returns as one what a node wrote to a channel in one step; ``after`` may be unknown."""
    if reducer in _JOINS:
        return reduce(_JOINS[reducer], writes)
    return {DECLARED_RESET: writes[-1] if after is _UNKNOWN else after}


def _is_override(given: Any, after: Any) -> bool:
    """Whether a write says, in the words of a reducer of the user's, to take its ``value``."""
    is_said = isinstance(given, Mapping) and "value" in given and isinstance(after, list)
    return is_said and given["value"] == after


def _is_unchanged(value: Any, before: Any) -> bool:
    """Whether a channel holds what it held, though it was saved meanwhile and read anew."""
    if isinstance(value, list) and isinstance(before, list):
        return [*map(_identity, value)] == [*map(_identity, before)]
    return _is_same(value, before)


def _is_same(value: Any, before: Any) -> bool:
    """Whether a value is what the channel holds anyway."""
    if before is None:
        return value is None or (isinstance(value, (list, dict, set)) and not value)
    return value is before or (not messages_in(value) and bool(value == before))


def _appended(before: Any, given: Any, after: Any) -> tuple[Any, Any]:
    """Returns what to tell of a write to a list, and what the list then is.

    Where what was there has changed too (a message replaced by its id, or removed), the whole list
    is told as a reset. ``after`` is unknown where another node writes the list later in the step.
    """
    held = [*before] if type(before) is list or isinstance(before, Sequence) else []
    if after is _UNKNOWN:
        added = [item for one in _writes_in(given) for item in _items_of(one)]
        return added, [*held, *added]
    if type(after) is not list and not isinstance(after, Sequence):
        return {DECLARED_RESET: after}, after
    start = leading_same(held, after)
    same = len(after) >= len(held) and all(
        _identity(old) == _identity(new)
        for old, new in zip(held[start:], after[start:], strict=False)
    )
    return (list(after[len(held) :]) if same else {DECLARED_RESET: list(after)}), after


def _writes_in(given: Any) -> list[Any]:
    return list(given["$writes"]) if _is_several(given) else [given]


def _items_of(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _identity(item: Any) -> Any:
    """What makes two items the same: of messages their id and content."""
    content = getattr(item, "content", None)
    return item if content is None else (getattr(item, "id", None), content)
