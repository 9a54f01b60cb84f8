"""Python's audit events, such as of opened files: one hook hands them to those who listen.

Python never removes a hook, and calls each of them at every event until the process ends.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

Listener = Callable[[str, tuple[Any, ...]], None]
"""Function of an event's name and its arguments."""


class _State:
    is_hooked = False
    listeners: tuple[Listener, ...] = ()


def add_listener(listener: Listener) -> None:
    """Call a function at each audit event from now on."""
    if not _State.is_hooked:
        _State.is_hooked = True
        sys.addaudithook(_hook)
    _State.listeners = (*_State.listeners, listener)


def remove_listener(listener: Listener) -> None:
    """Call it no more."""
    _State.listeners = tuple(each for each in _State.listeners if each != listener)


def _hook(event: str, arguments: tuple[Any, ...], state: type[_State] = _State) -> None:
    # The last argument is its own: an interpreter that ends has emptied this module.
    for listener in state.listeners:
        listener(event, arguments)
