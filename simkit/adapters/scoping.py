"""Which scenario's listener hears what a piece of code does: what is patched is the process's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Generic, TypeVar

from simkit.adapters.trace_recorder import TraceRecorder
from simkit.capture.http.belonging import Owner, current_owner, may_belong_to

ValueT = TypeVar("ValueT")


class ContextScope(Generic[ValueT]):
    """What is at work in this context, and in what is started in it."""

    def __init__(self, name: str) -> None:
        """``name`` tells its context variable from others."""
        self._variable = ContextVar[ValueT | None](name, default=None)

    def now(self) -> ValueT | None:
        """Return what this code belongs to."""
        return self._variable.get()

    @contextmanager
    def inside(self, value: ValueT) -> Iterator[None]:
        """Make what is done, and started, in here belong to ``value``.

        It may be left in another context than it was entered in, as streams are.
        """
        before = self._variable.get()
        self._variable.set(value)
        try:
            yield
        finally:
            if self._variable.get() is value:
                self._variable.set(before)


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
        """Return who hears this code.

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
        """Let one hear what is done in this context, and in what that starts."""
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


KeyT = TypeVar("KeyT")

TICKS: Final = 20
"""How often code lets others begin that were started beside it, and have something to do first."""


class ParallelGroups(Generic[KeyT]):
    """What was begun and is not at work yet, and the groups that come of it."""

    def __init__(self, recorder: TraceRecorder) -> None:
        self._recorder = recorder
        self._waiting: dict[KeyT, object] = {}
        """With what each was begun in."""
        self._groups: dict[KeyT, str] = {}

    def begin(self, key: KeyT, around: object) -> None:
        """Record that the code of ``around`` has begun the run of a key."""
        self._waiting[key] = around

    def those_with(self, key: KeyT) -> list[KeyT]:
        """Return what was begun in the same place and is not at work yet, in order; and itself."""
        if key not in self._waiting:
            return []
        around = self._waiting[key]
        return [other for other, place in self._waiting.items() if place is around]

    def starts(self, key: KeyT) -> str:
        """Start the run of a key; return its group, which is new with the first of several."""
        siblings = self.those_with(key)
        if key not in self._groups and len(siblings) > 1:
            self._groups |= dict.fromkeys(siblings, self._recorder.begin_group())
        self._waiting.pop(key, None)
        return self._groups.pop(key, "")

    def ended(self, key: KeyT) -> None:
        """Forget a key, whether its run went to work or not."""
        self._waiting.pop(key, None)
        self._groups.pop(key, None)

    def clear(self) -> None:
        """Forget what is not at work yet."""
        self._waiting.clear()
        self._groups.clear()


async def others_begin() -> None:
    """Let those begin that were started beside this code: a group goes to work together."""
    for _ in range(TICKS):
        await asyncio.sleep(0)
