"""Where a graph stops because it was told to: `interrupt_before` and `interrupt_after`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from langgraph.errors import GraphInterrupt
from langgraph.pregel._loop import PregelLoop

from simkit.capture.http.installing import Replacement, Row

_STOPS: Final = {"interrupt_before": "before", "interrupt_after": "after"}


class Stopped(Protocol):
    """Hears of graphs that stop between two steps."""

    def stopped(self, where: str, nodes: Sequence[str], namespace: str) -> None:
        """A graph stopped ``before`` or ``after`` a step; those nodes are next."""


def rows_for(hears: Callable[[], Stopped | None]) -> list[Row]:
    """Return what to replace so that stops are heard of: no stream tells of them."""
    return [(PregelLoop, "_suppress_interrupt", _stopped(hears))]


def _stopped(hears: Callable[[], Stopped | None]) -> Callable[[Replacement], Replacement]:
    def wrapper(before: Replacement) -> Replacement:
        def suppress_interrupt(self: Any, kind: Any, problem: Any, traceback: Any) -> bool | None:
            hearer, where = hears(), _STOPS.get(self.status)
            if hearer is not None and where and isinstance(problem, GraphInterrupt):
                nodes = [task.name for task in self.tasks.values()]
                hearer.stopped(where, nodes, "|".join(self.checkpoint_ns))
            is_suppressed: bool | None = before(self, kind, problem, traceback)
            return is_suppressed

        return suppress_interrupt

    return wrapper
