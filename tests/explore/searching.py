"""Searches in this process, for tests and benchmarks that bring a function which runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from simkit.explore import search as s
from simkit.explore.chunks import Tally, Tell, chunks_of
from simkit.explore.drawing import Run
from simkit.explore.enumeration import RunBy, Slice
from simkit.explore.shrinking import Shrinker


def without_shrinking(patch: pytest.MonkeyPatch) -> None:
    """Leave conversations as they were drawn, for tests that ask only what is found.

    To make one small runs it again and again, which takes most of an application's time.
    """
    patch.setattr(Shrinker, "shrink", lambda _, tape: tape)


def _nothing(_: Any) -> Any:
    raise AssertionError("this search does not run it")


def _never() -> bool:
    return False


def _unheard(_: Tally | Slice) -> None:
    """Nobody listens."""


def search(
    run: Run,
    *,
    runs: int,
    turns_max: int,
    seed: int,
    rare: int = 0,
    tell: Tell = _unheard,
    is_late: Callable[[], bool] = _never,
) -> s.Campaign:
    """Draw conversations, and make the smallest one of each cause."""
    work = s.InProcess(run, _nothing, turns_max=turns_max, rare=rare, is_late=is_late)
    return s.conduct(work, run, chunks_of(runs, seed), tell=tell)


def search_all(
    run: RunBy,
    *,
    runs: int,
    turns_max: int,
    is_late: Callable[[], bool] = _never,
    done: Sequence[Slice] = (),
    keep: Callable[[Slice], None] = _unheard,
) -> s.Campaign:
    """Run every conversation."""
    work = s.InProcess(_nothing, run, turns_max=turns_max, is_late=is_late)
    return s.search_all(work, run, runs=runs, turns_max=turns_max, done=done, keep=keep)
