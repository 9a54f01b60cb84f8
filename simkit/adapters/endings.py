"""How an agent's work ended, told by what ended it. Pure."""

from __future__ import annotations

from asyncio import CancelledError
from typing import Final

STOPS: Final = (CancelledError, GeneratorExit)
"""What stops whoever is at work: a task is cancelled, or a stream is left before its end."""


def ending(problem: BaseException | None, *stops: type[BaseException]) -> str:
    """Returns the status of a run that a problem ended; ``stops`` are a framework's own ways to
    stop an agent."""
    if problem is None:
        return "done"
    return "cancelled" if isinstance(problem, (*STOPS, *stops)) else "failed"
