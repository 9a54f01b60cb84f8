"""Writes that take the place of what was there: reducers that keep the newer value, `Overwrite`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, Final

from langgraph.types import Overwrite

from simkit.trace.reducers import DECLARED_RESET

_MARK: Final = "__overwrite__"
"""What an `Overwrite` is as plain data: its only key, or its type."""


def told_write(given: Any) -> Any:
    """Returns what a node wrote to a channel, an `Overwrite` in our words."""
    if given is None or type(given) is list or type(given) is str:
        return given
    if isinstance(given, Overwrite):
        return {DECLARED_RESET: given.value}
    if isinstance(given, Mapping):
        if list(given) == [_MARK]:
            return {DECLARED_RESET: given[_MARK]}
        if given.get("type") == _MARK and "value" in given:
            return {DECLARED_RESET: given["value"]}
    return given


def is_reset(given: Any) -> bool:
    """Whether a write takes the place of what was there."""
    return isinstance(given, Mapping) and list(given) == [DECLARED_RESET]


def keeps_the_newer(reducer: Callable[[Any, Any], Any]) -> bool:
    """Whether a reducer returns every update as it is, such as ``lambda old, new: new``.

    It is tried with values of all kinds, empty ones too: ``new or old`` keeps the old one then.
    """
    try:
        return all(
            reducer(before, now) is now
            for before, now in product((object(), [object()]), (object(), [], {}, "", 0, None))
        )
    except Exception:
        return False
