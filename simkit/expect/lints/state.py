"""Lints on state: what parallel runs overwrite, reducers, and what must only grow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from simkit import events as e
from simkit.expect.findings import Hit
from simkit.messages import JsonValue
from simkit.reducers import BUILT_IN, is_reset
from simkit.views import View


class LostUpdate:
    """STA-01: every write of parallel branches is in the merged value.

    Lost is a value that another branch of the same group overwrites with a different one: in
    a channel that replaces, under one key of a channel that merges, or an item with the same id.
    ``{$set: …}`` declares the overwrite. Channels of scope agent_run are never merged, and what a
    user's own reducer does is its own affair. Seen in langgraph#7580 and adk#5244.
    """

    id = "STA-01"
    kinds: tuple[type, ...] = (e.StateUpdated, e.TurnFinished)

    def __init__(self) -> None:
        self._writes: dict[str, dict[tuple[str, ...], tuple[str, str, JsonValue]]] = {}

    def look(self, event: e.StateUpdated | e.TurnFinished, view: View) -> Iterable[Hit]:
        """Compares a write with those of the group's other runs."""
        if isinstance(event, e.TurnFinished):
            if self._writes:
                self._writes.clear()
            return ()
        if not event.group:
            return ()
        branch = event.branch or event.run
        written = self._writes.setdefault(event.group, {})
        hits = []
        for channel, delta in event.update.items():
            facts = view.pipeline.channels.get(channel)
            if facts is None or facts.scope == "agent_run":
                continue
            for place, value in _slots(facts.reducer, channel, delta):
                before = written.get(place)
                written[place] = (branch, event.agent, value)
                if before is not None and before[0] != branch and before[2] != value:
                    hits.append(self._hit(event, place, before[1], facts.reducer))
        return hits

    def _hit(self, event: e.StateUpdated, place: tuple[str, ...], other: str, reducer: str) -> Hit:
        channel, *keys = place
        at = f"channel `{channel}`" + (f", key {'.'.join(keys)}" if keys else "")
        what = (
            f"agents {other!r} and {event.agent!r} ran in parallel in turn {event.turn} and wrote "
            f"different values to {at} (reducer {reducer}): the first is lost"
        )
        data: dict[str, JsonValue] = {"channel": channel, "agents": [other, event.agent]}
        if keys:
            data["key"] = ".".join(keys)
        return Hit(self.id, what, event.turn, event.agent, data=data)


def _slots(reducer: str, channel: str, delta: JsonValue) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields where an update overwrites what stands there, and with what."""
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
    """STA-03: a reducer neither changes its arguments nor differs on a second call.

    The driver calls user reducers on copies, twice, and records what it sees. Reported for every
    update. Seen in company-research-agent#56.
    """

    id = "STA-03"
    kinds: tuple[type, ...] = (e.StateUpdated,)

    def look(self, event: e.StateUpdated, view: View) -> Iterable[Hit]:
        """Reads what the driver noticed."""
        if not event.impure:
            return ()
        hits = []
        for channel, fault in event.impure.items():
            facts = view.pipeline.channels.get(channel)
            reducer = f"`{facts.reducer}` " if facts is not None else ""
            what = f"reducer {reducer}of channel `{channel}` is impure: {fault} (turn {event.turn})"
            data = {"channel": channel, "fault": fault}
            hits.append(Hit(self.id, what, event.turn, event.agent, data=data))
        return hits


class Shrinking:
    """STA-05: an appending channel never shrinks, and a counter never falls.

    Falling is a negative update of an ``add`` channel. Shrinking is a list, of a user's own
    reducer or of a driver that reports values, that has fewer items than before. Allowed are the
    declared reset ``{$set: …}``, ``last: N``, and the end of the channel's scope.
    Seen in crewAI#4389.
    """

    id = "STA-05"
    kinds: tuple[type, ...] = (e.StateUpdated, e.TurnFinished)

    def __init__(self) -> None:
        self._sizes: dict[tuple[str, str], int] = {}
        """Session and channel to the last known length."""
        self._facts: e.PipelineFacts | None = None
        self._counters: tuple[str, ...] = ()

    def look(self, event: e.StateUpdated | e.TurnFinished, view: View) -> Iterable[Hit]:
        """Compares an update, or the new value it brings, with what was there."""
        channels = view.pipeline.channels
        if isinstance(event, e.TurnFinished):
            if self._sizes:
                self._forget(
                    key
                    for key in self._sizes
                    if key[0] == event.session and channels[key[1]].scope == "turn"
                )
            return ()
        if self._facts is not view.pipeline:
            self._facts = view.pipeline
            self._counters = tuple(name for name, c in channels.items() if c.reducer == "add")
        hits: list[Hit] = []
        for channel in self._counters:
            delta = event.update.get(channel)
            if (type(delta) is int or type(delta) is float) and delta < 0:
                hits.append(self._hit(event, channel, f"fell by {-delta}"))
        if event.values is not None:
            hits += self._shrunk(event, channels)
        return hits

    def _shrunk(
        self, event: e.StateUpdated, channels: Mapping[str, e.ChannelFacts]
    ) -> Iterator[Hit]:
        assert event.values is not None
        for channel, value in event.values.items():
            facts = channels.get(channel)
            if facts is None or facts.scope == "agent_run" or facts.last:
                continue
            if facts.reducer in BUILT_IN and facts.reducer not in ("append", "union", "by_id"):
                continue
            if is_reset(event.update.get(channel)) and facts.scope in ("project", "global"):
                self._forget(key for key in self._sizes if key[1] == channel)
            if not isinstance(value, list):
                continue
            key = (event.session, channel)
            before, after = self._sizes.get(key, 0), len(value)
            self._sizes[key] = after
            if after < before and not is_reset(event.update.get(channel)):
                yield self._hit(event, channel, f"shrank from {before} to {after} items")

    def _forget(self, keys: Iterable[tuple[str, str]]) -> None:
        for key in list(keys):
            del self._sizes[key]

    def _hit(self, event: e.StateUpdated, channel: str, how: str) -> Hit:
        who = f", written by {event.agent!r}" if event.agent else ""
        what = f"channel `{channel}` {how} in turn {event.turn}{who}, without a declared reset"
        return Hit(self.id, what, event.turn, event.agent, data={"channel": channel})


class DoubleCount:
    """STA-09: an agent does not add to a list what it was given of it.

    That is an update of an ``append`` channel that begins with all that the agent received in it
    and goes on: whoever wrote it meant the whole list. Seen in langgraph#4007 and #3648, where
    a subgraph returns its parent's channel.
    """

    id = "STA-09"
    kinds: tuple[type, ...] = (e.StateUpdated,)

    def look(self, event: e.StateUpdated, view: View) -> Iterable[Hit]:
        """Compares what a run adds with what it received."""
        run = view.runs.get(event.run)
        if run is None:
            return ()
        hits = []
        for channel, raw in event.update.items():
            facts = view.pipeline.channels.get(channel)
            received = run.received.get(channel)
            if facts is None or facts.reducer != "append" or not received:
                continue
            if not isinstance(raw, list) or len(raw) <= len(received):
                continue
            if list(received) != [view.resolved(item) for item in raw[: len(received)]]:
                continue
            what = (
                f"agent {event.agent!r} added to channel `{channel}` in turn {event.turn} the "
                f"{len(received)} {'item' if len(received) == 1 else 'items'} that it was given, "
                "and more: they stand there twice"
            )
            hits.append(Hit(self.id, what, event.turn, event.agent, data={"channel": channel}))
        return hits


class InPlaceChange:
    """STA-10: an agent returns updates, it does not change the state it received.

    From reference system 4, ``state["messages"].append``.
    """

    id = "STA-10"
    kinds: tuple[type, ...] = (e.AgentFinished,)

    def look(self, event: e.AgentFinished, view: View) -> Iterable[Hit]:
        """Reads what the driver noticed."""
        if not event.changed_in_place:
            return ()
        channels = list(event.changed_in_place)
        what = (
            f"agent {event.agent!r} changed the state it received in place in turn {event.turn}: "
            f"{', '.join(f'`{name}`' for name in channels)}"
        )
        return (Hit(self.id, what, event.turn, event.agent, data={"channels": channels}),)
