"""Overwriting writes: reducers that keep the newer value, and `Overwrite`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

from langgraph.types import Overwrite

from simkit.adapters.api import DECLARED_RESET
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
