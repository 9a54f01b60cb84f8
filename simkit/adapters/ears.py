"""Which scenario's listener hears what a piece of code does: what is patched is the process's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from simkit.adapters.here import Here

Listener = TypeVar("Listener")


class Ears(Generic[Listener]):
    """The listeners of one framework that are at work, each for its own context."""

    def __init__(self, name: str) -> None:
        """``name`` tells its context variable from others."""
        self._here = Here[Listener](name)
        self._working: tuple[Listener, ...] = ()
        self._lock = threading.Lock()

    def current(self) -> Listener | None:
        """Returns who hears this code; where its context has nobody who still listens, as in a
        thread without one, the only one there is."""
        found, working = self._here.now(), self._working
        if found in working:
            return found
        return working[0] if len(working) == 1 else None

    @contextmanager
    def lent_to(self, listener: Listener) -> Iterator[None]:
        """Lets one hear what is done in this context, and in what that starts."""
        with self._lock:
            self._working = (*self._working, listener)
        try:
            with self._here.inside(listener):
                yield
        finally:
            with self._lock:
                place = self._working.index(listener)
                self._working = (*self._working[:place], *self._working[place + 1 :])
