"""The order in which model calls of code that wait at the same time are answered."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Protocol, TypeVar

from simkit.core.errors import SimkitError
from simkit.runtime.ports import Schedule, WaitingCall


class PendingCall:
    """A model call that waits until the schedule chooses it."""

    __slots__ = ("call", "number", "problem")

    def __init__(self, number: int, call: WaitingCall) -> None:
        """``number`` is that of the call among all."""
        self.number, self.call = number, call
        self.problem: SimkitError | None = None
        """Why the schedule could choose none; None if all is well."""

    def check(self) -> None:
        """Raise the problem, if there is one."""
        if self.problem is not None:
            raise self.problem


class Caller(Protocol):
    """A thread or task that waits."""

    call: PendingCall | None
    """Its model call; None if it waits for something else."""


AnyCaller = TypeVar("AnyCaller", bound=Caller)


class CallOrder:
    """Chooses, by a schedule, whose model call is answered next; its caller holds a lock."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._calls = 0

    @property
    def is_at_once(self) -> bool:
        """Return whether model calls need not wait."""
        return self._schedule.answers_at_once

    def pending(self, agent: str, flow: Hashable) -> PendingCall:
        """Return a new call of an agent."""
        self._calls += 1
        return PendingCall(self._calls, WaitingCall(agent, flow))

    def choose(self, callers: Iterable[AnyCaller]) -> AnyCaller | None:
        """Return the caller whose call is answered next; None if none of them waits for that."""
        waiting = sorted(
            ((caller.call.number, caller) for caller in callers if caller.call is not None),
            key=lambda pair: pair[0],
        )
        if not waiting:
            return None
        calls = [caller.call for _, caller in waiting if caller.call is not None]
        return waiting[self._place(calls)][1]

    def take(self, call: PendingCall) -> None:
        """Answer a call that does not wait for others."""
        self._place([call])

    def _place(self, calls: list[PendingCall]) -> int:
        try:
            return self._schedule.pick([pending.call for pending in calls])
        except SimkitError as problem:  # Its own code raises it, and this may be another thread.
            calls[0].problem = problem
            return 0
