"""Channels of a graph's state: their reducers by simkit's names, their scopes, their writes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, Final

from langgraph.channels import EphemeralValue, UntrackedValue
from langgraph.channels.base import BaseChannel
from langgraph.types import Overwrite

from simkit.adapters.api import DECLARED_RESET, ChannelFacts, canonical
from simkit.adapters.langgraph import compat


def told_write(input: Any) -> Any:
    """Return a node's write to a channel, with `Overwrite` in simkit's form."""
    if input is None or type(input) is list or type(input) is str:
        return input
    if isinstance(input, Overwrite):
        return {DECLARED_RESET: input.value}
    if type(input) is dict or isinstance(input, Mapping):
        if list(input) == [compat.OVERWRITE]:
            return {DECLARED_RESET: input[compat.OVERWRITE]}
        if input.get("type") == compat.OVERWRITE and "value" in input:
            return {DECLARED_RESET: input["value"]}
    return input


def is_reset(input: Any) -> bool:
    """Return whether a write replaces the old value."""
    kind = type(input)
    if kind is list or kind is str:
        return False
    return isinstance(input, Mapping) and list(input) == [DECLARED_RESET]


def keeps_the_newer(reducer: Callable[[Any, Any], Any]) -> bool:
    """Return whether a reducer returns every update as it is, such as ``lambda old, new: new``.

    It is tried with values of all kinds, empty ones too, for which ``new or old`` keeps the old
    value.
    """
    try:
        return all(
            reducer(before, now) is now
            for before, now in product((object(), [object()]), (object(), [], {}, "", 0, None))
        )
    except Exception:
        return False


_MESSAGES: Final = "langgraph.graph.message"
_ADDED: Final = {list: "append", int: "add", float: "add", dict: "merge", set: "union"}
_EMPTY_AT_FIRST: Final = frozenset(_ADDED.values())
_OPERATORS: Final = {operator.add: ("append", "add"), operator.or_: ("merge", "union")}
_FLEETING: Final = (EphemeralValue, UntrackedValue)
"""Channels that no checkpoint keeps."""


def reducer_of(channel: Any) -> str:
    """Return the reducer of a channel by simkit's name."""
    function = getattr(channel, "operator", None) or getattr(channel, "reducer", None)
    if function is None:
        return "append" if getattr(channel, "accumulate", False) else "replace"
    if function.__module__ == _MESSAGES:
        return "append"
    channel_type = channel.typ
    while hasattr(channel_type, "__origin__"):
        channel_type = channel_type.__origin__
    known = _ADDED.get(channel_type, "")
    if known in _OPERATORS.get(function, ()):
        return known
    if keeps_the_newer(function):
        return "replace"
    named = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{function.__module__}:{named}"


def channels_of(channels: Mapping[str, Any], *, are_kept: bool) -> dict[str, ChannelFacts]:
    """Return a graph's channels; those that no checkpoint keeps have the scope turn.

    Values that LangGraph computes on demand (`RemainingSteps`) are no channels.
    """
    return {
        name: ChannelFacts(
            reducer_of(channel),
            "session" if are_kept and not isinstance(channel, _FLEETING) else "turn",
            default_of(channel),
        )
        for name, channel in channels.items()
        if is_state(name) and isinstance(channel, BaseChannel)
    }


def default_of(channel: Any) -> Any:
    """Return the initial value of a channel with a user's reducer.

    None if checks know it, or there is none.
    """
    is_known = reducer_of(channel) in _EMPTY_AT_FIRST
    if is_known or not hasattr(channel, "operator") or not channel.is_available():
        return None
    return canonical(channel.get())


def is_state(name: str) -> bool:
    """Return whether a channel is the user's, not the graph's own."""
    return not name.startswith(("__", "branch:", "join:", "start:"))


def holds_messages(channel: Any) -> bool:
    """Return whether a channel is a conversation."""
    function = getattr(channel, "operator", None) or getattr(channel, "reducer", None)
    return function is not None and function.__module__ == _MESSAGES
