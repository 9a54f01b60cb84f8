"""Installation: attributes of other modules that are replaced for a while, and restored."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

Replacement: TypeAlias = Callable[..., Any]
Row: TypeAlias = tuple[Any, str, Callable[[Replacement], Replacement]]
"""An owner, an attribute's name, and a function that makes the replacement from the original."""

Saved: TypeAlias = tuple[Any, Any, Any]
"""An owner, the original, and the replacement."""

_ABSENT: Final = object()
_covered: Final[dict[int, tuple[Any, Any]]] = {}
"""Replacements that could not be removed because others had replaced them, by identity: each,
with its original."""


class Installation:
    """Replaces attributes for the first user, and restores them after the last.

    An attribute that others have replaced meanwhile is left to them: our replacement does nothing
    by then. Once they restore ours, the next user removes it; until then no second one is put on
    top of it.
    """

    def __init__(
        self,
        rows: Callable[[], Iterable[Row]] = tuple,
        started: Callable[[], object] = bool,
        stopped: Callable[[], object] = bool,
    ) -> None:
        """``rows`` is called for the first user; ``started`` and ``stopped`` for each one."""
        self._rows, self._started, self._stopped = rows, started, stopped
        self._lock = threading.RLock()
        self._saved: dict[tuple[int, str], Saved] = {}
        """Saved originals by the owner's identity and the name."""
        self._left: dict[tuple[int, str], Saved] = {}
        """The same for attributes that were left to others."""
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
        """Return what is replaced now: owners and names."""
        with self._lock:
            return [(owner, name) for (_, name), (owner, _, _) in self._saved.items()]

    def replace(self, rows: Iterable[Row]) -> None:
        """Replace more attributes while in use, each once."""
        with self._lock:
            if not self._entered:
                return
            for owner, name, previous in rows:
                if (id(owner), name) in self._saved or self._is_beneath(owner, name):
                    continue
                _put(owner, name, _original(_attribute_of(owner, name)))
                before, replacement = _attribute_of(owner, name), previous(getattr(owner, name))
                self._saved[id(owner), name] = owner, before, replacement
                setattr(owner, name, replacement)

    def _is_beneath(self, owner: Any, name: str) -> bool:
        """Return whether the replacement of others calls ours, so that ours counts."""
        left = self._left.pop((id(owner), name), None)
        if left is None or any(_attribute_of(owner, name) is original for original in left[1:]):
            return False
        self._saved[id(owner), name] = left
        _covered.pop(id(left[2]), None)
        return True

    def _restore(self) -> None:
        while self._saved:
            key, saved = self._saved.popitem()
            (_, name), (owner, before, replacement) = key, saved
            if _attribute_of(owner, name) is replacement:
                _put(owner, name, _original(before))
            else:
                self._left[key] = saved
                _covered[id(replacement)] = replacement, before


def _attribute_of(owner: Any, name: str) -> Any:
    return vars(owner).get(name, _ABSENT)


def _original(function: Any) -> Any:
    """Return the original below replacements that could not be removed."""
    while id(function) in _covered:
        _, function = _covered.pop(id(function))
    return function


def _put(owner: Any, name: str, value: Any) -> None:
    if _attribute_of(owner, name) is value:
        return
    if value is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, value)
