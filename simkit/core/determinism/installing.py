"""Installation: replacements that the first world makes and the last world undoes.

A scenario with turns keeps all but the wall clock in place from its start to its end: without a
world in its context, code gets real time and real random numbers all the same. The wall clock is
replaced again for each turn, because a clock that a test sets meanwhile comes first.
"""

from __future__ import annotations

import os
import random
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import machinery
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

from simkit.core.determinism import clocks, draws, library_rng
from simkit.core.determinism.draws import SHARED
from simkit.core.determinism.worlds import current_world, world_of_import

Row: TypeAlias = tuple[Any, str, Callable[[Any], Any]]
_Replaced: TypeAlias = tuple[Any, str, Any, Any]
"""An owner, a name, the original, and the replacement."""


class _Installation:
    """The replacements of this process, made with the first world and undone with the last."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._entered = self._keepers = 0
        self._modules = 0
        """The number of imported modules when functions of modules were replaced last."""
        self._wall = clocks.WallClock()
        self._redirected: tuple[Any, ...] = ()
        self._recoded: list[Any] = []
        self._replaced: list[_Replaced] = []
        self._replaced_each_turn: list[_Replaced] = []

    def __enter__(self) -> None:
        with self._lock:
            self._entered += 1
            if self._entered == 1:
                self._wall.begin()
                self._replace(self._replaced_each_turn, _clock_rows())
                if not self._keepers:
                    self._begin()
                elif self._modules != len(sys.modules):
                    self._replace_in_modules()

    def __exit__(self, *problem: object) -> None:
        with self._lock:
            self._entered -= 1
            if not self._entered:
                if not self._keepers:
                    self._end()
                _put_back(self._replaced_each_turn)
                self._wall.end()

    @contextmanager
    def keep(self) -> Iterator[None]:
        """Keep the replacements in place, except the wall clock's."""
        with self._lock:
            self._keepers += 1
            if self._keepers == 1 and not self._entered:
                self._begin()
        try:
            yield
        finally:
            with self._lock:
                self._keepers -= 1
                if not self._keepers and not self._entered:
                    self._end()

    def _begin(self) -> None:
        self._redirected = self._redirected or _redirected()
        for redirect in self._redirected:
            redirect.begin()
        self._replace(self._replaced, _rows())
        self._replace_in_modules()

    def _replace_in_modules(self) -> None:
        self._modules = len(sys.modules)
        for module in draws.IDS:
            self._replace(self._replaced, _rows_of(module))
        for module in library_rng.USERS:
            self._recode(module)

    def _end(self) -> None:
        _put_back(self._replaced)
        while self._recoded:
            self._recoded.pop().end()
        for redirect in self._redirected:
            redirect.end()

    def arrived(self, module: str) -> None:
        """Replace the functions of a module that was just imported."""
        with self._lock:
            if self._entered:
                self._replace(self._replaced, _rows_of(module))
                self._recode(module)

    def _recode(self, module: str) -> None:
        for user in library_rng.users_of(module):
            if user not in self._recoded:
                self._recoded.append(user)
                user.begin()

    def _replace(self, replaced: list[_Replaced], rows: Iterator[Row]) -> None:
        for owner, name, replacement in rows:
            before = vars(owner).get(name)
            if before is not None and not any(before is row[3] for row in replaced):
                ours = replacement(before)
                setattr(owner, name, ours)
                replaced.append((owner, name, before, ours))


def _put_back(replaced: list[_Replaced]) -> None:
    while replaced:
        owner, name, before, ours = replaced.pop()
        if vars(owner).get(name) is ours:  # Otherwise somebody else has replaced it since.
            setattr(owner, name, before)


def _redirected() -> tuple[Any, ...]:
    return (draws.random_bytes(), *clocks.monotonic_clocks(), *SHARED)


def _clock_rows() -> Iterator[Row]:
    """Yield the functions that time-machine replaces too, which must find its own there."""
    yield time, "clock_gettime", lambda b: clocks.clock_gettime(b, lambda ns: ns / 10**9)
    yield time, "clock_gettime_ns", lambda b: clocks.clock_gettime(b, int)


def _rows() -> Iterator[Row]:
    yield time, "ctime", clocks.ctime
    yield time, "asctime", clocks.ctime
    yield os, "getrandom", draws.getrandom
    yield random.Random, "seed", draws.seed_of_generators
    yield random, "seed", draws.seed_of_all
    for loader in loaders():
        yield loader, "exec_module", lambda b: exec_module(b, installed.arrived)


def _rows_of(module: str) -> Iterator[Row]:
    loaded = sys.modules.get(module)
    if loaded is not None:
        for name, replacement in draws.IDS.get(module, ()):
            yield loaded, name, replacement


installed: Final = _Installation()

# Imports: a module reads and draws the same values, whichever scenario imports it first


OURS: Final = str(Path(__file__).parent.parent.parent)
_STANDARD: Final = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
_COMMANDS: Final = frozenset(
    os.path.dirname(path) for path in (sys.executable, os.path.realpath(sys.executable))
).union([sysconfig.get_path("scripts")])
"""The folders of installed commands: `simkit`, `pytest`, which call what is installed."""


@lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """Return whether a file is the standard library's, an installed package's or simkit's own.

    The small scripts by which installed commands start are libraries, too.
    """
    if file.startswith("<frozen ") or os.path.dirname(file) in _COMMANDS:
        return True
    folders = Path(file).parts
    return (
        "site-packages" in folders
        or "dist-packages" in folders
        or any(Path(file).is_relative_to(folder) for folder in (OURS, *_STANDARD))
    )


_LOADERS: Final = (
    ("importlib.machinery", "SourceFileLoader"),
    ("_pytest.assertion.rewrite", "AssertionRewritingHook"),
)
"""The loaders that run a module's code: Python's own, and pytest's for test modules."""


def loaders() -> Iterator[type]:
    """Yield the classes whose ``exec_module`` runs modules."""
    for module, name in _LOADERS:
        loaded = machinery if module == "importlib.machinery" else sys.modules.get(module)
        kind = getattr(loaded, name, None)
        if kind is not None:
            yield next(base for base in kind.__mro__ if "exec_module" in vars(base))


def exec_module(
    before: Callable[..., Any], arrived: Callable[[str], None]
) -> Callable[[Any, ModuleType], None]:
    """Return an ``exec_module`` that runs a module in its own world, if a world is current.

    ``arrived`` is called with the name of every module that was imported.
    """

    def carry_out(self: Any, module: ModuleType) -> None:
        world = current_world()
        if world is None:
            before(self, module)
            return
        file = getattr(module, "__file__", None) or ""
        with world.importing(module.__name__, is_library(file)).at_work():
            before(self, module)
        arrived(module.__name__)
        library_rng.arrived(module.__name__)

    return carry_out


@contextmanager
def imported_here(module: str) -> Iterator[None]:
    """Import a user's module inside as every scenario would, when no scenario runs yet."""
    if module in sys.modules or current_world() is not None:
        yield
        return
    with world_of_import(module, is_library=False).at_work():
        yield
