"""Waits of 8 s that nobody ends; the user's message says for what."""

import asyncio
import threading
import time
from concurrent.futures import Future, wait
from contextlib import suppress
from queue import Empty, Queue

import numpy  # noqa: F401 - Its threads wait for work.


def condition() -> None:
    with (lock := threading.Condition()):
        lock.wait(8)


def barrier() -> None:
    try:
        threading.Barrier(2).wait(8)
    except threading.BrokenBarrierError:
        return


def queued() -> None:
    try:
        Queue[int]().get(timeout=8)
    except Empty:
        return


def timer() -> None:
    over = threading.Event()
    threading.Timer(8, over.set).start()
    assert over.wait(20)


def polled() -> None:
    """Wait piece by piece until a time."""
    until = time.monotonic() + 8
    while time.monotonic() < until:
        threading.Event().wait(0.5)


def joined() -> None:
    """Wait no time for a thread that waits."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    thread.join(0)
    over.set()
    thread.join()
    threading.Event().wait(8)


async def waits_in_loop(seconds: float, until: float) -> None:
    """Wait piece by piece, in two tasks, until a time."""

    async def polls() -> None:
        while time.monotonic() < until:
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), seconds)

    await asyncio.gather(polls(), polls())


def beside_loop() -> None:
    """Wait in a thread for which a loop waits."""
    asyncio.run(asyncio.to_thread(polled))


def in_loop() -> None:
    asyncio.run(waits_in_loop(0.5, time.monotonic() + 8))


WAYS = {
    "in_loop": in_loop,
    "beside_loop": beside_loop,
    "event": lambda: threading.Event().wait(8),
    "condition": condition,
    "semaphore": lambda: threading.Semaphore(0).acquire(timeout=8),
    "barrier": barrier,
    "queue": queued,
    "future": lambda: wait([Future[int]()], timeout=8),
    "timer": timer,
    "polled": polled,
    "joined": joined,
}


def run(text: str) -> str:
    before = time.monotonic()
    WAYS[text]()
    return f"{time.monotonic() - before:.0f}"
