"""Values of context variables, each for a piece of code; a turn enters many of them."""

from __future__ import annotations

import threading
from collections.abc import MutableSequence
from contextvars import ContextVar, Token
from typing import Any, Final, Generic, TypeVar

ValueT = TypeVar("ValueT")
AnyT = TypeVar("AnyT")

LOCK: Final = threading.RLock()
"""Held while a list of open values changes: any thread may read one."""


def set_until_reset(variable: ContextVar[AnyT], value: AnyT, otherwise: AnyT) -> Token[AnyT]:
    """Set a variable, and return the token that resets it.

    ``otherwise`` is its value after that if it had none. A reset that removes a value is not safe:
    if the collector runs in it, and a finalizer or a callback reads the variable, CPython keeps a
    reference to the value without counting it (``contextvar_del`` in ``Python/context.c``). Later
    reads return freed memory.
    """
    token = variable.set(value)
    if token.old_value is Token.MISSING:
        variable.set(otherwise)
        token = variable.set(value)
    return token


class Inside(Generic[ValueT]):
    """A context manager in which a value is current; a class, which costs half of a generator."""

    def __init__(
        self,
        variable: ContextVar[ValueT | None],
        value: ValueT | None,
        among: MutableSequence[Any] | None = None,
    ) -> None:
        """``among`` is a list that contains the value meanwhile."""
        self.variable, self.value, self.among = variable, value, among

    def __enter__(self) -> None:
        if self.among is not None:
            with LOCK:
                self.among.append(self.value)
        self.token: Token[ValueT | None] = set_until_reset(self.variable, self.value, None)

    def __exit__(self, *problem: object) -> None:
        self.variable.reset(self.token)
        if self.among is not None:
            with LOCK:
                self.among.remove(self.value)


class Together:
    """A context manager in which several values are current."""

    def __init__(self, *insides: Inside[Any]) -> None:
        self._insides = insides

    def __enter__(self) -> None:
        for inside in self._insides:
            inside.__enter__()

    def __exit__(self, *problem: object) -> None:
        for inside in reversed(self._insides):
            inside.__exit__(*problem)
