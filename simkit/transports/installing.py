"""Attributes of others that are replaced for a while, and put back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

Made: TypeAlias = Callable[..., Any]
Row: TypeAlias = tuple[Any, str, Callable[[Made], Made]]
"""An owner, an attribute's name, and what makes the replacement out of what was there."""

_ABSENT: Final = object()


class Installation:
    """Replaces attributes for the first who enters, and puts them back for the last who leaves.

    What somebody else has replaced meanwhile is left to them: ours is inert by then.
    """

    def __init__(
        self,
        rows: Callable[[], Iterable[Row]] = tuple,
        started: Callable[[], object] = bool,
        stopped: Callable[[], object] = bool,
    ) -> None:
        """``rows`` is asked by the first who enters; the others are told before and after."""
        self._rows, self._started, self._stopped = rows, started, stopped
        self._lock = threading.RLock()
        self._saved: dict[tuple[int, str], tuple[Any, Any, Any]] = {}
        """By the owner's identity and the name: the owner, what was there, what is there now."""
        self._entered = 0

    def __enter__(self) -> None:
        with self._lock:
            self._entered += 1
            if self._entered == 1:
                self._started()
                try:
                    self.replace(self._rows())
                except BaseException:
                    self.__exit__()
                    raise

    def __exit__(self, *problem: object) -> None:
        with self._lock:
            self._entered -= 1
            if self._entered == 0:
                self._stopped()
                self._restore()

    @property
    def replaced(self) -> list[tuple[Any, str]]:
        """What is replaced now: owners and names."""
        with self._lock:
            return [(owner, name) for (_, name), (owner, _, _) in self._saved.items()]

    def replace(self, rows: Iterable[Row]) -> None:
        """Replaces more while somebody is inside, each attribute once."""
        with self._lock:
            if not self._entered:
                return
            for owner, name, made in rows:
                if (id(owner), name) in self._saved:
                    continue
                replacement = made(getattr(owner, name))
                before = vars(owner).get(name, _ABSENT)
                self._saved[id(owner), name] = owner, before, replacement
                setattr(owner, name, replacement)

    def _restore(self) -> None:
        while self._saved:
            (_, name), (owner, before, replacement) = self._saved.popitem()
            if vars(owner).get(name) is not replacement:
                continue
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
