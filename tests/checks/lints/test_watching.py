"""Lints during a run: what the watches of runs in several threads share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from simkit.checks.lints.watching import PlainEvents


@pytest.fixture
def _switches_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_switches_often")
def test_runs_in_threads_share_what_is_known_of_pipelines() -> None:
    plain = PlainEvents()
    pipelines: list[Any] = [object() for _ in range(64)]
    unset: list[Any] = [object() for _ in pipelines]

    def is_right(place: int) -> bool:
        return plain.of(pipelines[place], partial(unset.__getitem__, place)) is unset[place]

    def ask(thread: int) -> bool:
        return all(is_right((number * 7 + thread) % 64) for number in range(20_000))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(4)))
