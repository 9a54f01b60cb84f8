"""Gives what is submitted to a thread pool the context of who submits it, while a scenario runs.

A worker keeps the context of whoever started it. So what it does for others later would belong to
that agent, or to no scenario at all (`simkit.transports.gate`).
"""

from __future__ import annotations

import contextvars
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from simkit.transports.gate import is_gated
from simkit.transports.installing import Installation, Made, Row


def _submit(before: Made) -> Made:
    def submit(self: ThreadPoolExecutor, work: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if is_gated():
            args, work = (work, *args), contextvars.copy_context().run
        found: Future[Any] = before(self, work, *args, **kwargs)
        return found

    return submit


_REPLACED: Final[tuple[Row, ...]] = ((ThreadPoolExecutor, "submit", _submit),)
carrying_contexts: Final = Installation(lambda: _REPLACED)
"""A context manager; may be entered by several scenarios at once."""
