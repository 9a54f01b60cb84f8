"""Installation: replacements that the first world makes and the last world undoes."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from simkit.core.determinism import clocks, draws, imports, kept
from simkit.core.determinism.generators import SHARED

Row: TypeAlias = tuple[Any, str, Callable[[Any], Any]]


class _Installation:
    """The replacements of this process, made with the first world and undone with the last."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._entered = 0
        self._wall = clocks.WallClock()
        self._redirected: tuple[Any, ...] = ()
        self._recoded: list[Any] = []
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def __enter__(self) -> None:
        with self._lock:
            self._entered += 1
            if self._entered > 1:
                return
            self._redirected = self._redirected or _redirected()
            self._wall.begin()
            for redirect in self._redirected:
                redirect.begin()
            self._replace(_rows())
            for module in draws.IDS:
                self._replace(_rows_of(module))
            for module in kept.USERS:
                self._recode(module)

    def __exit__(self, *problem: object) -> None:
        with self._lock:
            self._entered -= 1
            if self._entered:
                return
            while self._replaced:
                owner, name, before, ours = self._replaced.pop()
                if vars(owner).get(name) is ours:  # Otherwise somebody else has replaced it since.
                    setattr(owner, name, before)
            while self._recoded:
                self._recoded.pop().end()
            for redirect in self._redirected:
                redirect.end()
            self._wall.end()

    def arrived(self, module: str) -> None:
        """Replace the functions of a module that was just imported."""
        if module in draws.IDS or module in kept.USERS:
            with self._lock:
                if self._entered and module in draws.IDS:
                    self._replace(_rows_of(module))
                if self._entered:
                    self._recode(module)

    def _recode(self, module: str) -> None:
        for user in kept.users_of(module):
            if user not in self._recoded:
                self._recoded.append(user)
                user.begin()

    def _replace(self, rows: Iterator[Row]) -> None:
        for owner, name, replacement in rows:
            before = vars(owner).get(name)
            if before is not None and not any(before is row[3] for row in self._replaced):
                ours = replacement(before)
                setattr(owner, name, ours)
                self._replaced.append((owner, name, before, ours))


def _redirected() -> tuple[Any, ...]:
    return (draws.random_bytes(), *clocks.monotonic_clocks(), *SHARED)


def _rows() -> Iterator[Row]:
    if hasattr(time, "clock_gettime"):
        yield time, "clock_gettime", lambda b: clocks.clock_gettime(b, lambda ns: ns / 10**9)
        yield time, "clock_gettime_ns", lambda b: clocks.clock_gettime(b, lambda ns: ns)
    yield time, "ctime", clocks.ctime
    yield time, "asctime", clocks.ctime
    yield os, "getrandom", draws.getrandom
    yield random.Random, "seed", draws.seed_of_generators
    yield random, "seed", draws.seed_of_all
    for loader in imports.loaders():
        yield loader, "exec_module", lambda b: imports.exec_module(b, installed.arrived)


def _rows_of(module: str) -> Iterator[Row]:
    loaded = sys.modules.get(module)
    for name, replacement in draws.IDS[module] if loaded is not None else ():
        yield loaded, name, replacement


installed: Final = _Installation()
