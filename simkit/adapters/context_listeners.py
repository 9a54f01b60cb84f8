"""Which scenario's listener hears what a piece of code does: what is patched is the process's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from simkit.adapters.context_scope import ContextScope
from simkit.capture.http.belonging import Owner, current_owner, may_belong_to

ListenerT = TypeVar("ListenerT")

_turn: Final = ContextScope[object]("simkit_turn")


@contextmanager
def turn_of_its_own() -> Iterator[None]:
    """Tell all that is done in here, and what that starts, from other scenarios' turns."""
    with _turn.inside(object()):
        yield


class ContextListeners(Generic[ListenerT]):
    """The listeners of one framework that are at work, each for its own context."""

    def __init__(self, name: str) -> None:
        """``name`` tells its context variable from others."""
        self._scope = ContextScope[ListenerT](name)
        self._working: tuple[tuple[ListenerT, object | None, Owner | None], ...] = ()
        """Each with the turn in which it began to listen, and the scenario."""
        self._lock = threading.RLock()

    def current(self) -> ListenerT | None:
        """Returns who hears this code.

        Who began to listen in the middle of a turn is not in the context of code that ran already:
        that code is heard by the listener of its turn. Code whose context has nobody who still
        listens, as in a thread without one, is heard by the only one there is, unless it belongs
        to another scenario that has not ended.
        """
        listener, working = self._scope.now(), self._working
        for entry, _, _ in working:
            if entry is listener:
                return listener
        turn = _turn.now()
        for entry, its_turn, _ in reversed(working):
            if its_turn is turn is not None:
                return entry
        if len(working) != 1:
            return None
        only, _, owner = working[0]
        return only if may_belong_to(owner) else None

    @contextmanager
    def activate(self, listener: ListenerT) -> Iterator[None]:
        """Lets one hear what is done in this context, and in what that starts."""
        entry = (listener, _turn.now(), current_owner())
        with self._lock:
            self._working = (*self._working, entry)
        try:
            with self._scope.inside(listener):
                yield
        finally:
            with self._lock:
                place = next(i for i, candidate in enumerate(self._working) if candidate is entry)
                self._working = (*self._working[:place], *self._working[place + 1 :])
