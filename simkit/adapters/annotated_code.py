"""Annotations of the pipeline's code: agents that begin and end, handoffs, and state."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from typing import Any

from simkit.adapters.activations import Run
from simkit.adapters.annotations import Mark
from simkit.adapters.trace_recorder import TraceRecorder
from simkit.adapters.turn_ends import TurnEnds
from simkit.capture.http.request_router import Pauses
from simkit.runtime.models.faults import FaultPlan


class AnnotatedCode(TurnEnds):
    """Records what the pipeline's code says about itself."""

    def __init__(
        self,
        recorder: TraceRecorder,
        plan: FaultPlan,
        give_up: Callable[[], None],
        wait_turn: Callable[[], None],
        pauses: Pauses | None,
        cancels: Callable[[], Callable[[], None] | None],
        around: Callable[[], Run | None],
    ) -> None:
        """``around`` returns the agent run around an annotated block."""
        super().__init__(recorder, plan, give_up, wait_turn, pauses, cancels)
        self._around = around

    def agent_began(self, mark: Mark) -> None:
        """Handle the start of an agent."""
        self.wait_turn()
        with self.lock:
            mark.run = self._recorder.begin_marked(mark.agent, self._around())

    def agent_ended(self, mark: Mark, problem: BaseException | None) -> None:
        """Handle the end, or the failure, of annotated code."""
        self.wait_turn()
        with self.lock:
            if mark.run is not None:
                self._recorder.end_run(mark.run, _status_of(problem))

    def handed_over(
        self, source: str, to: str, payload: Any, type: str | None, query: str | None
    ) -> None:
        """Handle a handoff."""
        self.wait_turn()
        with self.lock:
            runs = self._recorder.runs
            run = next((r for r in reversed(runs) if not source or r.agent == source), None)
            self._recorder.hand_over(
                source or (run.agent if run is not None else ""),
                to,
                payload,
                type=type,
                query=query,
                run=run,
            )

    def state_changed(self, agent: str, update: dict[str, Any]) -> None:
        """Handle new values of channels."""
        self.wait_turn()
        with self.lock:
            self._recorder.wrote(update, agent)


def _status_of(problem: BaseException | None) -> str:
    """Return the status of an agent run that ended with this exception."""
    if problem is None:
        return "done"
    return "cancelled" if isinstance(problem, CancelledError) else "failed"
