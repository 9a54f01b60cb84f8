"""Lints on state: lost writes of parallel runs, reducers, and channels that must only grow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from simkit.checks.findings import Hit
from simkit.checks.lints.runner import ToolMessage, reads
from simkit.checks.lints.screening import Screen
from simkit.core.messages import JsonValue, Message
from simkit.core.text import counted
from simkit.language.json_schema import is_array, is_object
from simkit.trace import events as e
from simkit.trace.reducers import BUILT_IN, is_reset
from simkit.trace.views import View

_Slots: TypeAlias = dict[tuple[str, ...], tuple[str, str, JsonValue]]
"""Place of a written value, to the branch that wrote it, its description, and the value."""


class LostUpdate:
    """STA-01: every write of parallel branches is in the merged value.

    A value is lost if another branch of the same group overwrites it with a different one: in a
    channel that replaces, under one key of a channel that merges, or in an item with the same id.
    So are items that a channel with ``last`` has no room for, because another branch added more.
    The targets that a node starts at once are such branches, too: their contracts may write.
    ``{$set: …}`` declares the overwrite. Channels of scope agent_run are never merged, and a user's
    own reducer decides for itself. Seen in langgraph#7580 and adk#5244.
    """

    id = "STA-01"

    def __init__(self) -> None:
        self._writes: dict[tuple[str, str], _Slots] = {}
        """Writes by the group, and the state to which its runs write."""
        self._added: dict[tuple[str, str, str], list[tuple[str, str, int]]] = {}
        """Group, its graph and channel to the additions there: branch, agent, number of items."""
        self._opened: dict[str, _Slots] = {}
        """Run to the writes of the handoffs that it makes at once, before any target starts."""

    @reads(e.AgentStarted, e.TurnFinished, waits="_opened")
    def start(self, event: e.AgentStarted | e.TurnFinished, view: View) -> Iterable[Hit]:
        """Forget the writes of handoffs, now that their targets start."""
        self._opened.clear()
        return ()

    @reads(e.TurnFinished, waits="_writes")
    def end(self, event: e.TurnFinished, view: View) -> Iterable[Hit]:
        """Forget the turn's groups."""
        self._writes.clear()
        self._added.clear()
        return ()

    @reads(e.StateUpdated, has=("group", "handoff"))
    def look(self, event: e.StateUpdated, view: View) -> Iterable[Hit]:
        """Compare a write with those of the group's other runs, or of the run's other handoffs."""
        hits: list[Hit] = []
        if event.handoff:
            opened = self._opened.setdefault(event.run, {})
            hits += self._lost(event, event.handoff, event.handoff, opened, view)
        if event.group:
            slots = self._writes.setdefault((event.group, event.state), {})
            hits += self._lost(event, event.branch or event.run, event.agent, slots, view)
            hits += self._pushed_out(event, view)
        return hits

    def _pushed_out(self, event: e.StateUpdated, view: View) -> Iterable[Hit]:
        """Find other branches whose items do not fit beside those of this one."""
        branch = event.branch or event.run
        for channel, delta in event.update.items():
            facts = view.channels_of(event).get(channel)
            if facts is None or not facts.last or facts.scope == "agent_run":
                continue
            added = self._added.setdefault((event.group, event.state, channel), [])
            if is_reset(delta):
                added.clear()
                continue
            size = len(delta) if isinstance(delta, (list, tuple)) else int(delta is not None)
            added.append((branch, event.agent, size))
            total, (first, agent, _) = sum(addition[2] for addition in added), added[0]
            if total <= facts.last or not size or first == branch:
                continue
            problem = (
                f"agents {agent!r} and {event.agent!r} ran in parallel in turn {event.turn} and "
                f"added {total} items to channel `{channel}`, which keeps the last {facts.last}: "
                "the first are lost"
            )
            data: dict[str, JsonValue] = {"channel": channel, "agents": [agent, event.agent]}
            yield Hit(self.id, problem, event.turn, event.agent, data=data)

    def _lost(
        self, event: e.StateUpdated, branch: str, writer: str, slots: _Slots, view: View
    ) -> list[Hit]:
        """Return the other branch's overwritten values; ``writer`` describes the writer."""
        hits, channels = [], view.channels_of(event)
        for channel, delta in view.update_of(event).items():
            facts = channels.get(channel)
            if facts is None or facts.scope == "agent_run":
                continue
            for place, value in _slots(facts.reducer, channel, delta):
                before = slots.get(place)
                slots[place] = (branch, writer, value)
                if before is not None and before[0] != branch and before[2] != value:
                    hits.append(self._hit(event, place, before[1], writer, facts.reducer))
        return hits

    def _hit(
        self, event: e.StateUpdated, place: tuple[str, ...], other: str, writer: str, reducer: str
    ) -> Hit:
        channel, *keys = place
        at = f"channel `{channel}`" + (f", key {'.'.join(keys)}" if keys else "")
        data: dict[str, JsonValue] = {"channel": channel, "agents": [other, writer]}
        actors = f"agents {other!r} and {writer!r} ran in parallel"
        if writer == event.handoff:
            data = {"channel": channel, "handoffs": [other, writer]}
            actors = f"the handoffs {other!r} and {writer!r} of agent {event.agent!r} open at once"
        problem = (
            f"{actors} in turn {event.turn} and wrote different values to {at} (reducer "
            f"{reducer}): the first is lost"
        )
        if keys:
            data["key"] = ".".join(keys)
        return Hit(self.id, problem, event.turn, event.agent, data=data)


def _slots(reducer: str, channel: str, delta: JsonValue) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the places that an update overwrites, with the new values."""
    if delta is None and reducer != "replace":
        return
    if is_reset(delta):
        return
    if reducer == "replace":
        yield (channel,), delta
    elif reducer == "merge" and isinstance(delta, Mapping):
        for key, value in delta.items():
            yield (channel, key), value
    elif reducer == "merge_deep" and isinstance(delta, Mapping):
        yield from _deep_slots((channel,), delta)
    elif reducer == "by_id":
        for item in delta if isinstance(delta, (list, tuple)) else [delta]:
            if isinstance(item, Mapping) and item.get("id") is not None:
                yield (channel, str(item["id"])), item


def _deep_slots(
    place: tuple[str, ...], value: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            yield from _deep_slots((*place, key), item)
        else:
            yield (*place, key), item


class ImpureReducer:
    """STA-03: a reducer does not change its arguments, and gives the same result twice.

    The driver calls user reducers on copies, twice, and records the differences. Every update is
    reported. Seen in company-research-agent#56.
    """

    id = "STA-03"

    @reads(e.StateUpdated, has=("impure",))
    def look(self, event: e.StateUpdated, view: View) -> Iterable[Hit]:
        """Read the driver's record."""
        hits = []
        for channel, fault in (event.impure or {}).items():
            facts = view.pipeline.channels.get(channel)
            reducer = f"`{facts.reducer}` " if facts is not None else ""
            problem = (
                f"reducer {reducer}of channel `{channel}` is impure: {fault} (turn {event.turn})"
            )
            data = {"channel": channel, "fault": fault}
            hits.append(Hit(self.id, problem, event.turn, event.agent, data=data))
        return hits


class Shrinking:
    """STA-05: an appending channel never shrinks, and a counter never falls.

    A fall is a negative update of an ``add`` channel. A list shrinks if it has fewer items than
    before, with a user's own reducer or a driver that reports values. Allowed are the declared
    reset ``{$set: …}``, ``last: N``, and the end of the channel's scope. Seen in crewAI#4389.

    With a user's own reducer the hit is a warning: the reducer may know updates that take items
    out, such as trustcall's, which deletes messages.
    """

    id = "STA-05"

    def __init__(self) -> None:
        self._sizes: dict[tuple[str, str, str], int] = {}
        """Session, channel and state to the last known length."""
        self._counters: list[str] = []
        """The session's channels that count."""

    @reads(e.RunStarted)
    def begin(self, event: e.RunStarted, view: View) -> Iterable[Hit]:
        """Note the counters."""
        self._counters[:] = _counters_of(event.pipeline.channels)
        return ()

    @reads(e.TurnFinished, waits="_sizes")
    def end(self, event: e.TurnFinished, view: View) -> Iterable[Hit]:
        """Forget the values that end with the turn."""
        channels = view.pipeline.channels
        self._forget(
            key
            for key in self._sizes
            if key[0] == event.session and (key[2] or channels[key[1]].scope == "turn")
        )
        return ()

    @reads(e.StateUpdated, waits="_counters")
    def count(self, event: e.StateUpdated, view: View) -> Iterable[Hit]:
        """Search an update of the session's counters for falls."""
        return [] if event.state else self._fallen(event, self._counters)

    @reads(e.StateUpdated, has=("values", "state"))
    def look(self, event: e.StateUpdated, view: View) -> Iterable[Hit]:
        """Compare new values with the previous ones, and search an inner graph for falls."""
        channels = view.channels_of(event) if event.state else view.pipeline.channels
        hits = self._fallen(event, _counters_of(channels)) if event.state else []
        return [*hits, *self._shrunk(event, channels, view)]

    def _fallen(self, event: e.StateUpdated, counters: Iterable[str]) -> list[Hit]:
        hits: list[Hit] = []
        for channel in counters:
            delta = event.update.get(channel)
            if (type(delta) is int or type(delta) is float) and delta < 0:
                hits.append(self._hit(event, channel, f"fell by {-delta}"))
        return hits

    def _shrunk(
        self, event: e.StateUpdated, channels: Mapping[str, e.ChannelFacts], view: View
    ) -> Iterator[Hit]:
        for channel, value in view.values_of(event).items():
            facts = channels.get(channel)
            if facts is None or facts.scope == "agent_run" or facts.last:
                continue
            if facts.reducer in BUILT_IN and facts.reducer not in ("append", "union", "by_id"):
                continue
            if is_reset(event.update.get(channel)) and facts.scope in ("project", "global"):
                self._forget(key for key in self._sizes if key[1] == channel)
            if not is_array(value):
                continue
            key = (event.session, channel, event.state)
            before, after = self._sizes.get(key, 0), len(value)
            self._sizes[key] = after
            if after < before and not is_reset(event.update.get(channel)):
                hit = self._hit(event, channel, f"shrank from {before} to {after} items")
                is_own = facts.reducer not in BUILT_IN
                yield msgspec.structs.replace(hit, severity="W") if is_own else hit

    def _forget(self, keys: Iterable[tuple[str, str, str]]) -> None:
        for key in list(keys):
            del self._sizes[key]

    def _hit(self, event: e.StateUpdated, channel: str, how: str) -> Hit:
        writer_text = f", written by {event.agent!r}" if event.agent else ""
        problem = (
            f"channel `{channel}` {how} in turn {event.turn}{writer_text}, without a declared reset"
        )
        return Hit(self.id, problem, event.turn, event.agent, data={"channel": channel})


def _counters_of(channels: Mapping[str, e.ChannelFacts]) -> Iterable[str]:
    return [name for name, facts in channels.items() if facts.reducer == "add"]


class DoubleCount:
    """STA-09: an agent does not append to a list what it received in it.

    That is an update of an ``append`` channel that begins with all that the agent received in it
    and goes on: its author meant the whole list. Seen in langgraph#4007 and #3648, where a subgraph
    returns its parent's channel. An update that is just the list may be equal by chance, as ``[1,
    2]`` after ``[1, 2]``; it is certain if an item has an id: a message, its tool calls, a result.
    """

    id = "STA-09"

    def __init__(self, screen: Screen | None = None) -> None:
        self.reader = screen or Screen()

    @reads(e.StateUpdated, has=("run",))
    def look(self, event: e.StateUpdated, view: View) -> Iterable[Hit]:
        """Compare a run's additions with what it received."""
        if _begin_with_own(event.update, self.reader.writers, event.run):
            return ()
        run = view.runs.get(event.run)
        if run is None or not is_object(run.received):
            return ()
        hits = []
        channels = view.channels_of(event) if event.state else view.pipeline.channels
        for channel, raw in event.update.items():
            if type(raw) is not list or channel not in channels:
                continue
            received = run.received.get(channel)
            if channels[channel].reducer != "append" or not received or len(raw) < len(received):
                continue
            if list(received) != [view.resolved(item) for item in raw[: len(received)]]:
                continue
            is_more = len(raw) > len(received)
            if not is_more and not any(map(_is_known_by_id, received)):
                continue
            problem = (
                f"agent {event.agent!r} added to channel `{channel}` in turn {event.turn} the "
                f"{counted(len(received), 'item')} that it was given{', and more' * is_more}: "
                f"{'they stand' if len(received) > 1 or is_more else 'it stands'} there twice"
            )
            hits.append(Hit(self.id, problem, event.turn, event.agent, data={"channel": channel}))
        return hits


def _begin_with_own(update: Mapping[str, Any], writers: Mapping[int, str], run: str) -> bool:
    """Return whether all lists of an update begin with a message that the run wrote.

    ``writers`` has the run of each message, by its number.
    """
    for items in update.values():
        if type(items) is list and items:
            first = items[0]
            if type(first) is not dict or "$message" not in first:
                return False
            if writers.get(first["$message"]) != run:
                return False
    return True


def _is_known_by_id(item: Any) -> bool:
    """Return whether an item is identified: a logged message, or an item with an id or calls."""
    if isinstance(item, Message):
        return bool(item.number or item.call_id or item.calls)
    if not isinstance(item, Mapping) or not ("role" in item or "tool_call_id" in item):
        return False
    calls = item.get("tool_calls")
    call_list = calls if isinstance(calls, (list, tuple)) else ()
    ids = [call.get("id") for call in call_list if isinstance(call, Mapping)]
    ids += [item.get(key) for key in ("id", "call_id", "tool_call_id")]
    return any(isinstance(call, str) and call for call in ids)


class InPlaceChange:
    """STA-10: an agent returns updates and does not change the state that it received.

    From reference system 4, ``state["messages"].append``.
    """

    id = "STA-10"

    @reads(e.AgentFinished, has=("changed_in_place",))
    def look(self, event: e.AgentFinished, view: View) -> Iterable[Hit]:
        """Read the driver's record."""
        channels = list(event.changed_in_place)
        problem = (
            f"agent {event.agent!r} changed the state it received in place in turn {event.turn}: "
            f"{', '.join(f'`{name}`' for name in channels)}"
        )
        return (Hit(self.id, problem, event.turn, event.agent, data={"channels": channels}),)


class TwiceAnswered:
    """STA-11: in a list of messages no call is made twice, and none has two results.

    This happens to a message that lost its id: it should replace another one and is appended
    instead. The lint checks what is added to a channel; a message that comes again under its own
    number is another matter (CTX-07). Each channel and call is reported once.
    """

    id = "STA-11"

    def __init__(self) -> None:
        self._messages: dict[int, Message] = {}
        """The messages with calls or results, by number."""
        self._first_seen: dict[tuple[str, str, str, str], int] = {}
        """Session, channel, role and call to the message with it."""
        self._reported: set[tuple[str, str, str]] = set()

    @reads(ToolMessage)
    def hear(self, event: e.MessageAdded, view: View) -> Iterable[Hit]:
        """Remember the message, which an update may add to a channel."""
        self._messages[event.message.number] = event.message
        return ()

    @reads(e.StateUpdated, waits="_messages")
    def look(self, event: e.StateUpdated, view: View) -> Iterable[Hit]:
        """Check the messages that an update adds to a channel."""
        hits: list[Hit] = []
        channels = view.channels_of(event)
        for channel, delta in event.update.items():
            facts = channels.get(channel)
            if facts is None or facts.reducer != "append" or facts.scope == "agent_run":
                continue
            if is_reset(delta) or (event.values is not None and channel in event.values):
                self._forget(_home(event), channel)
                continue
            for item in delta if isinstance(delta, list) else [delta]:
                number = item.get("$message") if type(item) is dict and len(item) == 1 else None
                if number in self._messages:
                    hits += self._added(self._messages[number], channel, event)
        return hits

    def _added(self, message: Message, channel: str, event: e.StateUpdated) -> Iterator[Hit]:
        calls = [message.call_id] if message.call_id else [call.id for call in message.calls]
        for call in calls:
            key = (_home(event), channel, message.role, call)
            before = self._first_seen.setdefault(key, message.number)
            known = (_home(event), channel, call)
            if before == message.number or not message.number or known in self._reported:
                continue
            self._reported.add(known)
            how = "two results of" if message.role == "tool" else "two messages that make"
            problem = (
                f"channel `{channel}` holds {how} call {call} since turn {event.turn}: m{before} "
                f"and {message.id}, which may have been meant to take its place"
            )
            data: dict[str, JsonValue] = {"channel": channel, "call_id": call}
            yield Hit(self.id, problem, event.turn, event.agent, data=data)

    def _forget(self, home: str, channel: str) -> None:
        for key in [key for key in self._first_seen if key[:2] == (home, channel)]:
            del self._first_seen[key]


def _home(event: e.StateUpdated) -> str:
    """Return the session, and the state in it, of an update."""
    return f"{event.session}/{event.state}"
