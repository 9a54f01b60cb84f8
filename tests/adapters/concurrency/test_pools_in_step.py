"""Threads of an event loop come back in the order in which they were started."""

from __future__ import annotations

import asyncio
import threading

from simkit.adapters.concurrency.pools import keep_in_step
from simkit.capture.http.request_router import passing_through
from simkit.providers.http import HttpRequest


class Closed:
    """A gate that nothing goes through."""

    def take(self, request: HttpRequest) -> None:
        raise AssertionError


async def order_of_two() -> list[str]:
    """The first thread waits for the second, unless it runs alone."""
    keep_in_step()
    second, ended = threading.Event(), []

    def slow() -> None:
        second.wait(0.2)
        ended.append("first")

    def fast() -> None:
        ended.append("second")
        second.set()

    await asyncio.gather(asyncio.to_thread(slow), asyncio.to_thread(fast))
    return ended


def test_while_a_scenario_runs_threads_run_one_by_one() -> None:
    with passing_through(Closed()):  # type: ignore[arg-type]
        assert asyncio.run(order_of_two()) == ["first", "second"]


def test_otherwise_they_run_beside_each_other() -> None:
    assert asyncio.run(order_of_two()) == ["second", "first"]
