"""Serial threads of an event loop, so that a run is the same every time.

Work in a thread (``asyncio.to_thread``) ends at any time: two parallel tools would answer in
another order from run to run. During a scenario, the loop waits for each of its threads; but not
where a schedule chooses which of the model calls that wait is answered: threads then take turns.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final

from simkit.adapters.pools import calls_wait
from simkit.capture.http.request_router import is_intercepted

PATIENCE_S: Final = 10.0
"""Seconds that a loop waits for a thread; a thread that waits for the loop itself continues
after that."""


class SerialExecutor(ThreadPoolExecutor):
    """A pool that finishes its work on submission."""

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = super().submit(work, *args, **kwargs)
        if is_intercepted() and not calls_wait():
            wait([future], PATIENCE_S)
        return future


_loops: Final = "_simkit_in_step"


def keep_in_step() -> None:
    """Let the running event loop wait for its threads while a scenario runs."""
    loop: Any = asyncio.get_running_loop()
    if getattr(loop, _loops, False):
        return
    loop.set_default_executor(SerialExecutor(thread_name_prefix="asyncio"))
    setattr(loop, _loops, True)


class Loops:
    """The event loops that a framework uses in threads without one.

    A framework makes such a loop and leaves it open for its next call; here it ends with a
    scenario.
    """

    def __init__(self) -> None:
        self._loops: dict[int, asyncio.AbstractEventLoop] = {}
        """The loops by thread."""

    def lend(self) -> None:
        """Give this thread a loop, if it has none."""
        known = getattr(getattr(asyncio.get_event_loop_policy(), "_local", None), "_loop", None)
        if known is None or known.is_closed():
            thread = threading.get_ident()
            if thread not in self._loops:
                self._loops[thread] = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loops[thread])

    def close(self) -> None:
        """Close the loops."""
        for loop in self._loops.values():
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
        if threading.get_ident() in self._loops:
            asyncio.set_event_loop(None)
        self._loops.clear()
