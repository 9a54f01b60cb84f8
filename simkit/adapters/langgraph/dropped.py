"""Work that LangGraph does not do again: what was saved before a stop, and what a cache holds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from langgraph.pregel._loop import PregelLoop
from langgraph.pregel.debug import map_debug_task_results

from simkit.capture.http.installing import Replacement, Row


class Spared(Protocol):
    """Hears of tasks that do not work."""

    def looked_up(self, tasks: Collection[str], saved: Collection[str]) -> None:
        """Of tasks that are about to begin, these were done before the graph stopped."""

    def known(self, result: Mapping[str, Any]) -> None:
        """The result of a task was there already, and is what its stream would say of it."""


def rows_for(hears: Callable[[], Spared | None]) -> list[Row]:
    """Return what to replace so that results are heard of that nobody works for."""
    return [
        (PregelLoop, "_reapply_writes_to_succeeded_nodes", _saved(hears)),
        (PregelLoop, "output_writes", _known(hears)),
    ]


def _saved(hears: Callable[[], Spared | None]) -> Callable[[Replacement], Replacement]:
    def wrapper(before: Replacement) -> Replacement:
        def reapply(self: Any, tasks: Mapping[str, Any]) -> None:
            before(self, tasks)
            hearer = hears()
            if hearer is not None:
                hearer.looked_up(tasks, [name for name, task in tasks.items() if task.writes])

        return reapply

    return wrapper


def _known(hears: Callable[[], Spared | None]) -> Callable[[Replacement], Replacement]:
    def wrapper(before: Replacement) -> Replacement:
        def output_writes(
            self: Any, task_id: str, writes: Sequence[tuple[str, Any]], *, cached: bool = False
        ) -> None:
            before(self, task_id, writes, cached=cached)
            hearer = hears() if cached else None
            task = self.tasks.get(task_id)
            if hearer is not None and task is not None:
                for result in map_debug_task_results((task, writes), self.stream_keys):
                    hearer.known(result)

        return output_writes

    return wrapper
