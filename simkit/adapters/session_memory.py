"""Session memory: what a driver keeps of each conversation from one turn to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from simkit.runtime.ports import UserTurn

MemoryT = TypeVar("MemoryT")


class SessionMemory(Generic[MemoryT]):
    """Keep one conversation memory per session, so that a turn continues its own session's.

    A driver makes one of these, and so every scenario begins without any memory::

        self._memory = SessionMemory(lambda turn: Conversation())
        ...
        conversation = self._memory.of(turn)
    """

    def __init__(self, make: Callable[[UserTurn], MemoryT]) -> None:
        """``make`` returns an empty memory; it is given the first turn of the memory's session."""
        self._make = make
        self._memories: dict[str, MemoryT] = {}

    def of(self, turn: UserTurn) -> MemoryT:
        """Return the memory that a turn continues: empty in the first turn of its session."""
        if turn.session not in self._memories:
            self._memories[turn.session] = self._make(turn)
        return self._memories[turn.session]
