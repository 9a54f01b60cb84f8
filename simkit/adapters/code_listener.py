"""Annotations of the code of a pipeline, and the ends of a turn or a run before its reply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from simkit.adapters.annotations import Mark
from simkit.adapters.recorder.sessions import Run, ToolRequest
from simkit.adapters.recorder.trace import TraceRecorder, status_after
from simkit.capture.http.request_router import Decision, Later, Pauses
from simkit.core.errors import (
    ProcessCrashed,
    RunHalted,
    ScriptMisfit,
    SimkitError,
    TurnCancelled,
    TurnCut,
)
from simkit.runtime.models.faults import FaultPlan, ToolStart
from simkit.runtime.scheduler import VirtualClock

_SETTLES_MS: Final = 1
"""How long a call of a cancelled turn waits; everything that is cancelled has ended by then."""


class CodeListener:
    """Records what code says about itself, one call at a time, and ends what must not continue."""

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
        self._recorder, self._plan, self._give_up = recorder, plan, give_up
        self._around = around
        self.wait_turn = wait_turn
        self._pauses, self._cancels = pauses or _Alone(recorder.clock), cancels
        self.lock: Final = recorder.lock
        """Held while something is recorded."""
        self.halted: SimkitError | None = None
        """Why the run cannot continue, even if the pipeline's code caught the exception; else
        None."""
        self.cut: TurnCut | None = None
        """The cancellation of this turn; None if there was none."""

    def _while_locked(self, work: Callable[[], Decision | Later]) -> Decision | Later:
        """Do work that records, while nobody else does."""
        with self.lock:
            if self.halted is not None:
                raise RunHalted(self.halted)
            try:
                return work()
            except SimkitError as problem:
                raise self.halt(problem) from problem

    def halt(self, problem: SimkitError) -> RunHalted:
        """Record why the run cannot continue; return the exception for the pipeline's code."""
        with self.lock:
            self.halted = self.halted or problem
        self._give_up()
        return RunHalted(problem)

    def refuse_crashed(self) -> None:
        """Raise RunHalted if the process has ended: what goes on in its threads begins nothing."""
        if isinstance(self.halted, ProcessCrashed):
            raise RunHalted(self.halted)

    def begin_tool(self, request: ToolRequest) -> ToolStart | None:
        """Count a tool's call that begins; return None in a turn that no tool ends."""
        return self._plan.begin_tool(request.agent, request.call.name)

    def end_turn_if_due(self, start: ToolStart | None, at: str) -> bool:
        """End the turn if it is to end at this moment of a tool's call.

        Return whether its task was cancelled, and has to wait for that (`settle`); raise RunHalted
        if the process ends.
        """
        if start is None:
            return False
        with self.lock:
            cut = self._plan.due_at_tool(start, at)
            if cut is None:
                return False
            try:
                return self._end_turn(cut)
            except SimkitError as problem:
                raise self.halt(problem) from problem

    async def settle(self) -> None:
        """Let this task wait until everything that is cancelled has ended; it may be itself."""
        await self._pauses.sleep_in_loop(_SETTLES_MS / 1_000)

    def _end_turn(self, cut: TurnCut) -> bool:
        """Raise ProcessCrashed, or let the user cancel the turn; return whether it is cancelled."""
        cancel = self._cancels() if isinstance(cut, TurnCancelled) else None
        if isinstance(cut, TurnCancelled) and cancel is None:
            if not self._plan.is_certain:
                return False
            raise ScriptMisfit(
                f"turn {self._recorder.turn} cannot be cancelled: no task of asyncio runs it.\n"
                "Only asynchronous code ends where it waits: name an `async def` under "
                "`pipeline`, or let the process end there: `crash`.",
                ("turns", self._recorder.turn - 1, "cancel"),
            )
        self._recorder.events.record_fault(self._recorder.at(), fault=cut.moment)
        self._recorder.is_cut = True
        if cancel is None:
            raise cut
        # The task may end at once, in another thread.
        self.cut = cut
        cancel()
        return True

    def _settling(self, work: Callable[[], Decision | Later]) -> Later:
        """Return a wait until everything that is cancelled has ended, and the work after it."""
        return Later(self._pauses, _SETTLES_MS, lambda: self._while_locked(work))

    # Annotations

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
                self._recorder.end_run(mark.run, status_after(problem))

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


class _Alone:
    """Waits when no others wait: it advances the clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    def sleep(self, seconds: float) -> None:
        self._clock.advance_to(self._clock.now + round(seconds * 1_000))

    async def sleep_in_loop(self, seconds: float) -> None:
        self.sleep(seconds)
