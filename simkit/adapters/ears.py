"""Which scenario's listener hears what a piece of code does: what is patched is the process's."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

Listener = TypeVar("Listener")


class Ears(Generic[Listener]):
    """The listeners of one framework that are at work, each for its own context."""

    def __init__(self, name: str) -> None:
        """``name`` tells its context variable from others."""
        self._here = contextvars.ContextVar[Listener | None](name, default=None)
        self._working: list[Listener] = []
        self._lock = threading.Lock()

    def current(self) -> Listener | None:
        """Returns who hears this code; in a thread without a context, the only one there is."""
        found = self._here.get()
        if found is not None or not self._working:
            return found
        with self._lock:
            return self._working[0] if len(self._working) == 1 else None

    @contextmanager
    def lent_to(self, listener: Listener) -> Iterator[None]:
        """Lets one hear what is done in this context, and in what that starts."""
        with self._lock:
            self._working.append(listener)
        before = self._here.set(listener)
        try:
            yield
        finally:
            with self._lock:
                self._working.remove(listener)
            self._here.reset(before)
