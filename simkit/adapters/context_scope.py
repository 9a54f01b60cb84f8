"""What a piece of code belongs to: kept in its context, so that parallel code is told apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

ValueT = TypeVar("ValueT")


class ContextScope(Generic[ValueT]):
    """What is at work in this context, and in what is started in it."""

    def __init__(self, name: str) -> None:
        """``name`` tells its context variable from others."""
        self._variable = ContextVar[ValueT | None](name, default=None)

    def now(self) -> ValueT | None:
        """Returns what this code belongs to."""
        return self._variable.get()

    @contextmanager
    def inside(self, value: ValueT) -> Iterator[None]:
        """Makes what is done, and started, in here belong to ``one``.

        It may be left in another context than it was entered in, as streams are.
        """
        before = self._variable.get()
        self._variable.set(value)
        try:
            yield
        finally:
            if self._variable.get() is value:
                self._variable.set(before)
