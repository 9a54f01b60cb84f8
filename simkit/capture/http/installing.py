"""Installation: attributes of other modules that are replaced for a while, and restored."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack, nullcontext
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

from simkit.core.context_values import Inside

Replacement: TypeAlias = Callable[..., Any]
Row: TypeAlias = tuple[Any, str, Callable[[Replacement], Replacement]]
"""An owner, an attribute's name, and a function that makes the replacement from the original."""

Saved: TypeAlias = tuple[Any, Any, Any]
"""An owner, the original, and the replacement."""

_ABSENT: Final = object()
_key_of: Final = object.__hash__
"""Returns a number that no other living object has. `id` is an audit event, and the hook that
guards the network is asked about each."""
_covered: Final[dict[int, tuple[Any, Any]]] = {}
"""Replacements that could not be removed because others had replaced them, by identity: each,
with its original."""


class Keeper:
    """Keeps installations in place between the turns of a run: replacing takes long.

    Without a user, replacements do nothing.
    """

    def __init__(self) -> None:
        self.installations: dict[Installation, None] = {}
        """The kept installations, as keys in their order."""

    def keeping(self) -> Inside[Keeper]:
        """Keep what is installed inside, as long as the outermost keeper does."""
        return Inside(_keeper, _keeper.get() or self)

    def keep(self, installation: Installation) -> bool:
        """Keep an installation in place; return whether it is new here."""
        is_new = installation not in self.installations
        self.installations[installation] = None
        return is_new

    def close(self) -> None:
        """Undo all that is kept, unless somebody else uses it."""
        while self.installations:
            installation, _ = self.installations.popitem()
            installation.leave_keeper()


_keeper: Final = ContextVar[Keeper | None]("simkit_keeper", default=None)


def enter_all(installations: Iterable[Installation], keeper: Keeper | None = None) -> ExitStack:
    """Enter installations; return what leaves them. ``keeper`` keeps them in place after that."""
    with ExitStack() as stack, keeper.keeping() if keeper is not None else nullcontext():
        for installation in installations:
            stack.enter_context(installation)
        return stack.pop_all()


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
        """``rows`` is called for the first user, as ``started``; ``stopped`` after the last."""
        self._rows, self._started, self._stopped = rows, started, stopped
        self._lock = threading.RLock()
        self._saved: dict[tuple[int, str], Saved] = {}
        """Saved originals by the owner's identity and the name."""
        self._left: dict[tuple[int, str], Saved] = {}
        """The same for attributes that were left to others."""
        self._entered = self._keepers = 0
        """The number of users, and of keepers, which are users too."""
        self._modules = 0
        """The number of imported modules when the rows were replaced last."""

    def __enter__(self) -> None:
        keeper = _keeper.get()
        with self._lock:
            self._entered += 1
            try:
                if self._entered == 1:
                    self._started()
                    self._replace_rows()
                elif self._modules != len(sys.modules):
                    self._replace_rows()  # There may be more to replace.
            except BaseException:
                self.__exit__()
                raise
            if keeper is not None and keeper.keep(self):
                self._entered += 1
                self._keepers += 1

    def __exit__(self, *problem: object) -> None:
        with self._lock:
            self._entered -= 1
            if self._entered == 0:
                self._stopped()
                self._restore()

    def leave_keeper(self) -> None:
        """End the use of one keeper."""
        with self._lock:
            self._keepers -= 1
            self.__exit__()

    def _replace_rows(self) -> None:
        self._modules = len(sys.modules)
        self.replace(self._rows())

    @property
    def replaced(self) -> list[tuple[Any, str]]:
        """Return what is replaced now: owners and names."""
        with self._lock:
            return [(owner, name) for (_, name), (owner, _, _) in self._saved.items()]

    @property
    def is_replacing(self) -> bool:
        """Return whether anything is replaced now."""
        return bool(self._saved)

    def replace(self, rows: Iterable[Row]) -> None:
        """Replace more attributes while in use, each once."""
        with self._lock:
            if not self._entered:
                return
            for owner, name, previous in rows:
                key = _key_of(owner), name
                if key in self._saved or (self._left and self._is_beneath(key, owner, name)):
                    continue
                if _covered:
                    _put(owner, name, _original(_attribute_of(owner, name)))
                before, replacement = _attribute_of(owner, name), previous(getattr(owner, name))
                self._saved[key] = owner, before, replacement
                setattr(owner, name, replacement)

    def _is_beneath(self, key: tuple[int, str], owner: Any, name: str) -> bool:
        """Return whether the replacement of others calls ours, so that ours counts."""
        saved = self._left.pop(key, None)
        if saved is None or any(_attribute_of(owner, name) is original for original in saved[1:]):
            return False
        self._saved[key] = saved
        _covered.pop(_key_of(saved[2]), None)
        return True

    def _restore(self) -> None:
        while self._saved:
            key, saved = self._saved.popitem()
            (_, name), (owner, before, replacement) = key, saved
            if _attribute_of(owner, name) is replacement:
                _put(owner, name, _original(before))
            else:
                self._left[key] = saved
                _covered[_key_of(replacement)] = replacement, before


def _attribute_of(owner: Any, name: str) -> Any:
    return owner.__dict__.get(name, _ABSENT)


def _original(function: Any) -> Any:
    """Return the original below replacements that could not be removed."""
    while _key_of(function) in _covered:
        _, function = _covered.pop(_key_of(function))
    return function


def _put(owner: Any, name: str, value: Any) -> None:
    if _attribute_of(owner, name) is value:
        return
    if value is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, value)
