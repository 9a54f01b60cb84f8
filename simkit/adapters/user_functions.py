"""Functions of an application that a framework calls: what they are called, what they return."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def name_of(function: Any) -> str:
    """Returns a function's name; of an object that is called, its class's."""
    name: str = getattr(function, "__name__", type(function).__name__)
    return name


def observed(returned: Any, tell: Callable[[Any], None]) -> Any:
    """Returns what a function returned, of which ``tell`` hears as soon as it is there."""
    if inspect.isawaitable(returned):
        return _awaited(returned, tell)
    tell(returned)
    return returned


async def _awaited(returned: Any, tell: Callable[[Any], None]) -> Any:
    result = await returned
    tell(result)
    return result
