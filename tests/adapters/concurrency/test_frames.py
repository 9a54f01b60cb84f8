"""A waiting thread's frame tells whether it goes on with its own work, also in simkit's waits."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from types import FrameType

import pytest

from simkit.adapters.concurrency.frames import awaits_work
from simkit.capture.http.guards import Guard
from simkit.core.gc_pause import current_frames

WAITS: dict[str, Callable[[queue.Queue[None], threading.Event], object]] = {
    "an event": lambda items, event: event.wait(),
    "an event with a limit": lambda items, event: event.wait(60),
    "a queue": lambda items, event: items.get(),
    "a queue with a limit": lambda items, event: items.get(timeout=60),
}
OWN_WORK = "an event with a limit"
"""Whoever waits for some time goes on by itself; a queue's reader goes on with somebody's item."""


def is_waiting(frame: FrameType) -> bool:
    """Return whether this is Python's own wait, near its end: it has made what wakes it."""
    is_own = frame.f_code.co_filename == threading.__file__ and frame.f_code.co_name == "wait"
    return is_own and "saved_state" in frame.f_locals


@pytest.mark.parametrize("is_guarded", [False, True], ids=["python", "simkit"])
@pytest.mark.parametrize("name", WAITS)
def test_a_thread_that_waits_for_some_time_goes_on_with_its_own_work(
    name: str, is_guarded: bool
) -> None:
    items, event = queue.Queue[None](), threading.Event()
    thread = threading.Thread(target=WAITS[name], args=(items, event), daemon=True)

    with Guard(lambda effect, where: None) if is_guarded else nullcontext():
        thread.start()
        while not is_waiting(frame := current_frames()[thread.ident or 0]):
            time.sleep(0)
        awaits = awaits_work(frame, current_frames())

    event.set()
    items.put(None)
    thread.join()
    assert awaits == (name != OWN_WORK)
