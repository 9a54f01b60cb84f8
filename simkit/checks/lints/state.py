"""Lints on state: lost writes of parallel runs, reducers, and channels that must only grow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import Facts, lint
from simkit.core.messages import JsonValue, Message
from simkit.core.text import counted
from simkit.language.json_schema import is_array, is_object
from simkit.trace import events as e
from simkit.trace.reducers import BUILT_IN, is_reset
from simkit.trace.views import View

_Slots: TypeAlias = dict[tuple[str, ...], tuple[str, str, JsonValue]]
"""Place of a written value, to the branch that wrote it, its description, and the value."""


class _Writes:
    """The writes of parallel branches in the turn."""

    def __init__(self) -> None:
        self.of_groups: dict[tuple[str, str], _Slots] = {}
        """Writes by the group, and the state to which its runs write."""
        self.added: dict[tuple[str, str, str], list[tuple[str, str, int]]] = {}
        """Group, its graph and channel to the additions there: branch, agent, number of items."""


class _OpenWrites(dict[str, _Slots]):
    """Run to the writes of the handoffs that it makes at once, before any target starts."""


@lint("STA-01", e.AgentStarted, e.TurnFinished, when=_OpenWrites)
def _forget_open_writes(event: e.AgentStarted | e.TurnFinished, facts: Facts) -> None:
    """Forget the writes of handoffs, now that their targets start."""
    del facts.notes[_OpenWrites]


@lint("STA-01", e.TurnFinished, when=_Writes)
def _forget_groups(event: e.TurnFinished, facts: Facts) -> None:
    del facts.notes[_Writes]


@lint("STA-01", e.StateUpdated)
def lost_update(event: e.StateUpdated, facts: Facts) -> Iterable[Hit]:
    """STA-01: every write of parallel branches is in the merged value.

    A value is lost if another branch of the same group overwrites it with a different one: in a
    channel that replaces, under one key of a channel that merges, or in an item with the same id.
    So are items that a channel with ``last`` has no room for, because another branch added more.
    The targets that a node starts at once are such branches, too: their contracts may write.
    ``{$set: …}`` declares the overwrite. Channels of scope agent_run are never merged, and a user's
    own reducer decides for itself. Seen in langgraph#7580 and adk#5244.
    """
    if not event.handoff and not event.group:
        return ()
    hits: list[Hit] = []
    if event.handoff:
        slots = facts.notes_of(_OpenWrites).setdefault(event.run, {})
        hits += _overwritten(event, event.handoff, event.handoff, slots, facts.view)
    if event.group:
        writes = facts.notes_of(_Writes)
        slots = writes.of_groups.setdefault((event.group, event.state), {})
        branch = event.branch or event.run
        hits += _overwritten(event, branch, event.agent, slots, facts.view)
        hits += _pushed_out(event, writes, facts.view)
    return hits


def _pushed_out(event: e.StateUpdated, writes: _Writes, view: View) -> Iterable[Hit]:
    """Find other branches whose items do not fit beside those of this one."""
    branch = event.branch or event.run
    for channel, delta in event.update.items():
        declared = view.channels_of(event).get(channel)
        if declared is None or not declared.last or declared.scope == "agent_run":
            continue
        added = writes.added.setdefault((event.group, event.state, channel), [])
        if is_reset(delta):
            added.clear()
            continue
        size = len(delta) if isinstance(delta, (list, tuple)) else int(delta is not None)
        added.append((branch, event.agent, size))
        total, (first, agent, _) = sum(addition[2] for addition in added), added[0]
        if total <= declared.last or not size or first == branch:
            continue
        problem = (
            f"agents {agent!r} and {event.agent!r} ran in parallel in turn {event.turn} and "
            f"added {total} items to channel `{channel}`, which keeps the last {declared.last}: "
            "the first are lost"
        )
        yield Hit.at("STA-01", event, problem, channel=channel, agents=[agent, event.agent])


def _overwritten(
    event: e.StateUpdated, branch: str, writer: str, slots: _Slots, view: View
) -> list[Hit]:
    """Return the other branch's overwritten values; ``writer`` describes the writer."""
    hits, channels = [], view.channels_of(event)
    for channel, delta in view.update_of(event).items():
        declared = channels.get(channel)
        if declared is None or declared.scope == "agent_run":
            continue
        for slot, value in _slots(declared.reducer, channel, delta):
            before = slots.get(slot)
            slots[slot] = (branch, writer, value)
            if before is not None and before[0] != branch and before[2] != value:
                hits.append(_overwriting(event, slot, before[1], writer, declared.reducer))
    return hits


def _overwriting(
    event: e.StateUpdated, path: tuple[str, ...], other: str, writer: str, reducer: str
) -> Hit:
    channel, *keys = path
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
    return Hit.at("STA-01", event, problem, **data)


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
    path: tuple[str, ...], value: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            yield from _deep_slots((*path, key), item)
        else:
            yield (*path, key), item


@lint("STA-03", e.StateUpdated)
def impure_reducer(event: e.StateUpdated, facts: Facts) -> Iterable[Hit]:
    """STA-03: a reducer does not change its arguments, and gives the same result twice.

    The driver calls user reducers on copies, twice, and records the differences. Every update is
    reported. Seen in company-research-agent#56.
    """
    for channel, fault in (event.impure or {}).items():
        declared = facts.pipeline.channels.get(channel)
        reducer = f"`{declared.reducer}` " if declared is not None else ""
        problem = f"reducer {reducer}of channel `{channel}` is impure: {fault} (turn {event.turn})"
        yield Hit.at("STA-03", event, problem, channel=channel, fault=fault)


class _Sizes(dict[tuple[str, str, str], int]):
    """Session, channel and state to the last known length."""

    def forget(self, keys: Iterable[tuple[str, str, str]]) -> None:
        """Forget what is known of these."""
        for key in list(keys):
            del self[key]


@lint("STA-05", e.TurnFinished, when=_Sizes)
def _forget_sizes(event: e.TurnFinished, facts: Facts) -> None:
    """Forget the values that end with the turn."""
    sizes, channels = facts.notes_of(_Sizes), facts.pipeline.channels
    sizes.forget(
        key
        for key in sizes
        if key[0] == event.session and (key[2] or channels[key[1]].scope == "turn")
    )


@lint("STA-05", e.StateUpdated)
def shrinking(event: e.StateUpdated, facts: Facts) -> Iterable[Hit]:
    """STA-05: an appending channel never shrinks, and a counter never falls.

    A fall is a negative update of an ``add`` channel. A list shrinks if it has fewer items than
    before, with a user's own reducer or a driver that reports values. Allowed are the declared
    reset ``{$set: …}``, ``last: N``, and the end of the channel's scope. Seen in crewAI#4389.

    With a user's own reducer the hit is a warning: the reducer may know updates that take items
    out, such as trustcall's, which deletes messages.
    """
    if not (event.values or event.state or facts.has_counters):
        return ()
    channels = facts.view.channels_of(event) if event.state else facts.pipeline.channels
    return [*_fallen(event, channels), *_shrunk(event, channels, facts)]


def _fallen(event: e.StateUpdated, channels: Mapping[str, e.ChannelFacts]) -> Iterator[Hit]:
    """Search an update of counters for falls."""
    for channel, declared in channels.items():
        delta = event.update.get(channel)
        if declared.reducer == "add" and (type(delta) is int or type(delta) is float) and delta < 0:
            yield _hit_of_shrinking(event, channel, f"fell by {-delta}")


def _shrunk(
    event: e.StateUpdated, channels: Mapping[str, e.ChannelFacts], facts: Facts
) -> Iterator[Hit]:
    """Compare new values with the previous ones."""
    sizes = facts.notes_of(_Sizes)
    for channel, value in facts.view.values_of(event).items():
        declared = channels.get(channel)
        if declared is None or declared.scope == "agent_run" or declared.last:
            continue
        is_own = declared.reducer not in BUILT_IN
        if not is_own and declared.reducer not in ("append", "union", "by_id"):
            continue
        has_reset = is_reset(event.update.get(channel))
        if has_reset and declared.scope in ("project", "global"):
            sizes.forget(key for key in sizes if key[1] == channel)
        if not is_array(value):
            continue
        key = (event.session, channel, event.state)
        before, after = sizes.get(key, 0), len(value)
        sizes[key] = after
        if after < before and not has_reset:
            hit = _hit_of_shrinking(event, channel, f"shrank from {before} to {after} items")
            yield msgspec.structs.replace(hit, severity="W") if is_own else hit


def _hit_of_shrinking(event: e.StateUpdated, channel: str, how: str) -> Hit:
    writer_text = f", written by {event.agent!r}" if event.agent else ""
    problem = (
        f"channel `{channel}` {how} in turn {event.turn}{writer_text}, without a declared reset"
    )
    return Hit.at("STA-05", event, problem, channel=channel)


@lint("STA-09", e.StateUpdated)
def double_count(event: e.StateUpdated, facts: Facts) -> Iterable[Hit]:
    """STA-09: an agent does not append to a list what it received in it.

    That is an update of an ``append`` channel that begins with all that the agent received in it
    and goes on: its author meant the whole list. Seen in langgraph#4007 and #3648, where a subgraph
    returns its parent's channel. An update that is just the list may be equal by chance, as ``[1,
    2]`` after ``[1, 2]``; it is certain if an item has an id: a message, its tool calls, a result.
    """
    if not event.run or _begin_with_own(event.update, facts.writers, event.run):
        return ()
    return _received_again(event, facts.view)


def _received_again(event: e.StateUpdated, view: View) -> Iterator[Hit]:
    """Compare a run's additions with what it received."""
    run = view.runs.get(event.run)
    if run is None or not is_object(run.received):
        return
    channels = view.channels_of(event) if event.state else view.pipeline.channels
    for channel, raw in event.update.items():
        if type(raw) is not list or channel not in channels:
            continue
        received = run.received.get(channel)
        if channels[channel].reducer != "append" or not received:
            continue
        if list(received) != [*map(view.resolved, raw[: len(received)])]:
            continue
        is_more = len(raw) > len(received)
        if not is_more and not any(map(_is_known_by_id, received)):
            continue
        problem = (
            f"agent {event.agent!r} added to channel `{channel}` in turn {event.turn} the "
            f"{counted(len(received), 'item')} that it was given{', and more' * is_more}: "
            f"{'they stand' if len(received) > 1 or is_more else 'it stands'} there twice"
        )
        yield Hit.at("STA-09", event, problem, channel=channel)


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


@lint("STA-10", e.AgentFinished)
def in_place_change(event: e.AgentFinished, facts: Facts) -> Iterable[Hit]:
    """STA-10: an agent returns updates and does not change the state that it received.

    From reference system 4, ``state["messages"].append``.
    """
    channels = list(event.changed_in_place)
    if channels:
        problem = (
            f"agent {event.agent!r} changed the state it received in place in turn {event.turn}: "
            f"{', '.join(f'`{name}`' for name in channels)}"
        )
        yield Hit.at("STA-10", event, problem, channels=channels)


class _Answers(dict[tuple[str, str], dict[tuple[str, str], int]]):
    """State and channel to the role and call of its messages, each with the first message."""


@lint("STA-11", e.StateUpdated, when="tool_messages")
def twice_answered(event: e.StateUpdated, facts: Facts) -> Iterable[Hit]:
    """STA-11: in a list of messages no call is made twice, and none has two results.

    This happens to a message that lost its id: it should replace another one and is appended
    instead. The lint checks what is added to a channel; a message that comes again under its own
    number is another matter (CTX-07). Each channel and call is reported once.
    """
    channels, answers = facts.view.channels_of(event), facts.notes_of(_Answers)
    for channel, delta in event.update.items():
        declared = channels.get(channel)
        if declared is None or declared.reducer != "append" or declared.scope == "agent_run":
            continue
        if is_reset(delta) or (event.values is not None and channel in event.values):
            answers.pop((_home(event), channel), None)
            continue
        first = answers.setdefault((_home(event), channel), {})
        for item in delta if isinstance(delta, list) else [delta]:
            number = item.get("$message") if type(item) is dict and len(item) == 1 else None
            if number in facts.tool_messages:
                yield from _added(facts.tool_messages[number], channel, event, first, facts)


def _added(
    message: Message,
    channel: str,
    event: e.StateUpdated,
    first: dict[tuple[str, str], int],
    facts: Facts,
) -> Iterator[Hit]:
    """Compare a message with those that were added to the channel before."""
    for call in [message.call_id] if message.call_id else [call.id for call in message.calls]:
        before = first.setdefault((message.role, call), message.number)
        if before == message.number or not message.number:
            continue
        if facts.is_new("STA-11", _home(event), channel, call):
            how = "two results of" if message.role == "tool" else "two messages that make"
            problem = (
                f"channel `{channel}` holds {how} call {call} since turn {event.turn}: m{before} "
                f"and {message.id}, which may have been meant to take its place"
            )
            yield Hit.at("STA-11", event, problem, channel=channel, call_id=call)


def _home(event: e.StateUpdated) -> str:
    """Return the session, and the state in it, of an update."""
    return f"{event.session}/{event.state}"
