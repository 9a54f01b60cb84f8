"""Event loops for frameworks that run coroutines for code that is not asynchronous."""

from __future__ import annotations

import asyncio
import threading


class Loops:
    """The event loops that a framework uses in threads that have none.

    A framework makes such a loop and leaves it open for its next call; here it ends with a
    scenario.
    """

    def __init__(self) -> None:
        self._loops: dict[int, asyncio.AbstractEventLoop] = {}
        """By thread."""

    def lend(self) -> None:
        """Gives this thread a loop, if it has none."""
        known = getattr(getattr(asyncio.get_event_loop_policy(), "_local", None), "_loop", None)
        if known is None or known.is_closed():
            thread = threading.get_ident()
            if thread not in self._loops:
                self._loops[thread] = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loops[thread])

    def close(self) -> None:
        """Ends them."""
        for loop in self._loops.values():
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
        if threading.get_ident() in self._loops:
            asyncio.set_event_loop(None)
        self._loops.clear()
