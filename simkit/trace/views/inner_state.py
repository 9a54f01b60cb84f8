"""The state of one graph inside another: its channels and their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simkit.trace import events as e
from simkit.trace.reducers import (
    BUILT_IN,
    DECLARED_RESET,
    Reducer,
    empty_value,
    is_reset,
    reducer_of,
)


def reducers_of(channels: Mapping[str, e.ChannelFacts]) -> dict[str, Reducer]:
    """Return the reducers of channels; for reducers that are user code, values replace."""
    return {
        name: reducer_of(
            channel.reducer if channel.reducer in BUILT_IN else "replace", channel.last
        )
        for name, channel in channels.items()
    }


class InnerState:
    """The channel values of a graph inside another."""

    __slots__ = ("channels", "reducers", "values")

    def __init__(self, event: e.StateOpened, around: Mapping[str, Any]) -> None:
        """``around`` are the channel values of the surrounding state."""
        self.channels = event.channels
        self.reducers = reducers_of(event.channels)
        self.values: dict[str, Any] = {
            name: empty_value(channel.reducer, channel.default)
            for name, channel in event.channels.items()
        }
        self.values.update((name, around[name]) for name in event.shares if name in around)

    def take(self, update: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Apply an update, and the new ``values`` that were recorded for it."""
        current = dict(self.values)
        for name, delta in update.items():
            if name in values:
                current[name] = values[name]
            elif name in self.reducers:
                current[name] = self.reducers[name](current.get(name), delta)
        self.values = current


def joined_updates(
    before: Mapping[str, Any], update: Mapping[str, Any], channels: Mapping[str, e.ChannelFacts]
) -> dict[str, Any]:
    """Return all that a run wrote, if it wrote some channels more than once."""
    values = {**before}
    for name, delta in update.items():
        facts = channels.get(name)
        is_first = name not in before or is_reset(delta)
        if is_first or facts is None or facts.reducer not in BUILT_IN:
            values[name] = delta
            continue
        value = before[name]
        start = empty_value(facts.reducer, value[DECLARED_RESET] if is_reset(value) else value)
        whole = BUILT_IN[facts.reducer](start, delta)
        values[name] = {DECLARED_RESET: whole} if is_reset(value) else whole
    return values
