"""What was begun side by side, by ``gather`` or by the calls of one message: it is parallel."""

from __future__ import annotations

import asyncio
from typing import Final, Generic, TypeVar

from simkit.adapters.trace_recorder import TraceRecorder

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
        """It was begun by the code of ``around``."""
        self._waiting[key] = around

    def those_with(self, key: KeyT) -> list[KeyT]:
        """Returns what was begun in the same place and is not at work yet, in order; and itself."""
        if key not in self._waiting:
            return []
        around = self._waiting[key]
        return [other for other, place in self._waiting.items() if place is around]

    def starts(self, key: KeyT) -> str:
        """It goes to work; returns its group, which is new with the first of several."""
        siblings = self.those_with(key)
        if key not in self._groups and len(siblings) > 1:
            self._groups |= dict.fromkeys(siblings, self._recorder.begin_group())
        self._waiting.pop(key, None)
        return self._groups.pop(key, "")

    def ended(self, key: KeyT) -> None:
        """It is over, whether it went to work or not."""
        self._waiting.pop(key, None)
        self._groups.pop(key, None)

    def clear(self) -> None:
        """Forgets what is not at work yet."""
        self._waiting.clear()
        self._groups.clear()


async def others_begin() -> None:
    """Lets those begin that were started beside this code: a group goes to work together."""
    for _ in range(TICKS):
        await asyncio.sleep(0)
