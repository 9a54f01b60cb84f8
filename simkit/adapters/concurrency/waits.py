"""The waits of one run: for a turn, for an answer, for a sleep, for the choice of a schedule."""

from __future__ import annotations

import threading
from asyncio import _get_running_loop
from collections.abc import Callable

from simkit.adapters.concurrency.thread_turns import ThreadTurns
from simkit.capture.http.request_router import Pauses
from simkit.core.errors import CallUnattributed, RunHalted, SimkitError
from simkit.core.stopping import halting, halting_at
from simkit.runtime.ports import Schedule
from simkit.runtime.scheduler import VirtualClock
from simkit.spec.scenario.moments import TOOL_MARK


class Waits:
    """The waits of one run. By itself it lets code wait for an answer, in parallel."""

    def __init__(
        self,
        turns: ThreadTurns,
        clock: VirtualClock,
        schedule: Schedule,
        halt: Callable[[SimkitError], RunHalted | SimkitError],
    ) -> None:
        """``halt`` ends the run with an error of the scenario, and returns what to raise."""
        self._turns, self._clock, self._schedule, self.halt = turns, clock, schedule, halt

    def wait_turn(self) -> None:
        """Wait until it is this thread's turn; raise RunHalted in code that outlives the run."""
        self._turns.stop()
        self.refuse_late()

    def as_agent(self, agent: str) -> Pauses | None:
        """Return the way in which an agent's model call waits; None if it is answered at once."""
        return None if self._turns.calls.is_at_once else _InOrder(self, self._turns, agent)

    def as_tool(self, tool: str) -> Pauses | None:
        """Return the way in which a tool waits, if the turn orders tools."""
        if self._turns.calls.is_at_once:
            return None
        self._turns.stop()  # Threads that call at the same time ask in a fixed order.
        orders = self._schedule.orders_tools
        return _InOrder(self, self._turns, f"{tool}{TOOL_MARK}") if orders else None

    def sleep(self, seconds: float) -> None:
        """Let this thread wait for an answer; raise RunHalted in code that outlives the run."""
        self.sleep_alone(seconds)
        self.refuse_late()

    async def sleep_in_loop(self, seconds: float) -> None:
        """Let this task wait for an answer; raise RunHalted in code that outlives the run."""
        if _get_running_loop() is not None:
            await self._turns.sleep_in_loop(seconds)
        else:  # In a loop that is not asyncio's, tasks wait one after the other.
            self.sleep_alone(0.0)
            self._clock.advance_to(self._clock.now + round(seconds * 1_000))
        self.refuse_late()

    def sleep_alone(self, seconds: float) -> None:
        """Let this thread sleep in virtual time, as its code asks for."""
        if self._turns.is_over:  # A thread that outlives its scenario sleeps for real.
            threading.Event().wait(seconds)
        elif _get_running_loop() is not None:
            self._clock.advance_to(self._clock.now + round(seconds * 1_000))
            self._turns.end_overdue()
        else:
            self._turns.sleep(seconds)

    def refuse_late(self) -> None:
        """Raise RunHalted for code that outlives the run."""
        if self._turns.is_over:
            raise halting(
                CallUnattributed(
                    "a model is called from a task or thread of a scenario that is over.\n"
                    "Wait for it inside the run."
                )
            )


class _InOrder:
    """Lets threads and tasks wait until the schedule chooses their call."""

    def __init__(self, waits: Waits, turns: ThreadTurns, name: str) -> None:
        self._waits, self._turns, self._name = waits, turns, name

    def sleep(self, seconds: float) -> None:
        with halting_at(self._waits.halt):
            self._turns.wait_answer(self._name)
        self._waits.refuse_late()

    async def sleep_in_loop(self, seconds: float) -> None:
        with halting_at(self._waits.halt):
            await self._turns.wait_answer_in_loop(self._name)
        self._waits.refuse_late()
