"""Values of context variables, each for a piece of code; a turn enters many of them."""

from __future__ import annotations

import threading
from collections.abc import MutableSequence
from contextvars import ContextVar, Token
from typing import Any, Final, Generic, TypeVar

ValueT = TypeVar("ValueT")

LOCK: Final = threading.RLock()
"""Held while a list of open values changes: any thread may read one."""


class Inside(Generic[ValueT]):
    """A context manager in which a value is current; a class, which costs half of a generator."""

    __slots__ = ("_open", "_token", "_value", "_variable")

    def __init__(
        self,
        variable: ContextVar[ValueT | None],
        value: ValueT | None,
        among: MutableSequence[Any] | None = None,
    ) -> None:
        """``among`` is a list that contains the value meanwhile."""
        self._variable, self._value, self._open = variable, value, among

    def __enter__(self) -> None:
        if self._open is not None:
            with LOCK:
                self._open.append(self._value)
        self._token: Token[ValueT | None] = self._variable.set(self._value)

    def __exit__(self, *problem: object) -> None:
        self._variable.reset(self._token)
        if self._open is not None:
            with LOCK:
                self._open.remove(self._value)
