"""Virtual time, and the scheduler that runs generators under it, without asyncio.

A task yields the milliseconds that it waits, a ``WaitForAll`` with tasks, a ``WaitForUser``, or a
``WaitingCall``, which the schedule answers when nothing else can be done at this time; it resumes
with None, with the results in order, or with the answer.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import msgspec

from simkit.core.errors import ScriptBroken, Unsupported
from simkit.runtime.ports import Schedule, WaitingCall
from simkit.trace.events import TurnInterrupted

# Virtual time: it jumps when nothing is runnable, so that sleeping costs nothing


class VirtualClock:
    """A clock of milliseconds since the scenario's start."""

    def __init__(self, start: str) -> None:
        self.now = 0
        """The current time in milliseconds."""
        self.answers = 0
        """The answers of models and tools in the current turn, each a microsecond of code's time.

        The events of the trace are all at ``now``.
        """
        self.paused_ms = 0
        """The part of ``now`` that the scenario let pass between turns."""
        self.start = datetime.fromisoformat(start)
        self._last_iso = (-1, "")
        """The last time that was asked for, and its text."""

    def begin_turn(self) -> None:
        """Begin a turn, in which no model and no tool has answered."""
        self.answers = 0

    def tick(self) -> None:
        """Note that a model or a tool has answered."""
        self.answers += 1

    def moment(self) -> datetime:
        """Return the virtual date and time."""
        return self._after(self.now) if self.now else self.start

    def iso(self, at: int) -> str:
        """Return a time as ISO 8601 text; the last one is cached."""
        if self._last_iso[0] != at:
            text = self._after(at).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            self._last_iso = at, text
        return self._last_iso[1]

    def _after(self, at: int) -> datetime:
        try:
            return self.start + timedelta(milliseconds=at)
        except OverflowError:
            raise Unsupported(
                f"the scenario's time passes the year 9999: it starts at {self.start.isoformat()}, "
                f"and {at:,} ms have passed\n  Write an earlier `start`."
            ) from None

    def advance_to(self, at: int) -> None:
        """Advance to a time in milliseconds; one that has passed changes nothing."""
        self.now = max(self.now, at)


# Tasks


class WaitForAll(msgspec.Struct, eq=False):
    """Yielded to wait for several tasks, which run beside each other."""

    steps: list[Steps]


class WaitForUser(msgspec.Struct, eq=False):
    """Yielded to wait for the user's answer."""

    question: TurnInterrupted


Wait: TypeAlias = int | WaitForAll | WaitForUser | WaitingCall
"""A task yields one of these; a number is of milliseconds."""
Steps: TypeAlias = Generator[Wait, Any, Any]


class TimedOut(Exception):
    """The work took longer than allowed."""


class _ScheduledTask(msgspec.Struct, eq=False):
    """One generator, and what it is resumed with next.

    While it runs, ``error`` is thrown into it if it is set, and ``value`` is sent to it if not.
    Once it is over, the two are its outcome, which its parent gets.
    """

    steps: Steps
    parent: _ScheduledTask | None = None
    """The task that waits for this one; None for the turn's own."""
    index: int = 0
    """Its position among the tasks that the parent waits for."""
    value: Any = None
    error: BaseException | None = None
    is_over: bool = False
    waits: int = 0
    """The number of tasks that it waits for."""
    results: list[Any] = []
    """Their results, by index."""


class Scheduler(msgspec.Struct, eq=False):
    """A scheduler of one turn's work."""

    _clock: VirtualClock
    _schedule: Schedule
    _on_advance: Callable[[int], None]
    """Called with a new time before it is reached; it may raise."""
    _root: _ScheduledTask | None = None
    _due: list[tuple[int, int, _ScheduledTask]] = []
    """The tasks that run at a time, as a heap: first by time, then in the order of pushing."""
    _pushed: int = 0
    _waiting: list[tuple[_ScheduledTask, TurnInterrupted]] = []
    _calling: list[tuple[_ScheduledTask, WaitingCall]] = []
    """The tasks whose model calls wait, in the order in which they were made."""

    @property
    def question(self) -> TurnInterrupted | None:
        """Return the next question to the user; None if no task waits for an answer."""
        return self._waiting[0][1] if self._waiting else None

    def run(self, steps: Steps) -> Any:
        """Return the task's result, or None if it waits for the user; raise its errors."""
        try:
            request = steps.send(None)
        except StopIteration as stop:
            # Most turns wait for nothing.
            return stop.value
        self._root = root = _ScheduledTask(steps)
        self._grant(root, request)
        return self._run(None)

    def resume(self, answer: Any) -> Any:
        """Continue the task that asked first with the user's answer."""
        task, _ = self._waiting.pop(0)
        task.value = answer
        return self._run(task)

    def drop(self) -> None:
        """End the tasks that wait for the user, unanswered."""
        for task, _ in self._waiting:
            task.steps.close()
        self._waiting.clear()

    def _run(self, task: _ScheduledTask | None) -> Any:
        """Run a task if no other is due, and then what becomes due."""
        root = self._root
        assert root is not None
        try:
            if task is not None:
                self._step(task)
            while not root.is_over and (self._due or self._calling):
                self._step(self._next())
        finally:
            self._due.clear()
            self._calling.clear()
        if root.error is not None:
            raise root.error
        if not root.is_over and not self._waiting:
            raise AssertionError("the root task ends before its work is done")
        return root.value if root.is_over else None

    def _push(self, task: _ScheduledTask, at: int) -> None:
        heapq.heappush(self._due, (at, self._pushed, task))
        self._pushed += 1

    def _next(self) -> _ScheduledTask:
        if self._calling and (not self._due or self._due[0][0] > self._clock.now):
            return self._answered()
        at, _, task = heapq.heappop(self._due)
        if at > self._clock.now:
            try:
                self._on_advance(at)
            except Exception as problem:
                task.error = problem
            self._clock.advance_to(at)
        return task

    def _answered(self) -> _ScheduledTask:
        """Return the task whose model call is answered next."""
        try:
            index = self._schedule.pick([call for _, call in self._calling])
        except ScriptBroken as problem:
            task, _ = self._calling.pop(0)
            task.error = problem
            return task
        return self._calling.pop(index)[0]

    def _step(self, task: _ScheduledTask) -> None:
        """Run a task until it yields what it waits for, or is over."""
        try:
            if task.error is not None:
                problem, task.error = task.error, None
                request = task.steps.throw(problem)
            else:
                request = task.steps.send(task.value)
        except StopIteration as stop:
            task.value = stop.value
            self._finish(task)
        except Exception as problem:
            task.error = problem
            self._finish(task)
        else:
            task.value = None
            self._grant(task, request)

    def _grant(self, task: _ScheduledTask, request: Wait) -> None:
        """Let a task wait for what it has yielded."""
        if isinstance(request, WaitForAll):
            task.waits = len(request.steps)
            task.results = [None] * len(request.steps)
            for index, steps in enumerate(request.steps):
                self._push(_ScheduledTask(steps, task, index), self._clock.now)
        elif isinstance(request, WaitForUser):
            self._waiting.append((task, request.question))
        elif isinstance(request, WaitingCall):
            self._calling.append((task, request))
        else:
            self._push(task, self._clock.now + request)

    def _finish(self, task: _ScheduledTask) -> None:
        """Hand a task's result to its parent once all its siblings are over; an error at once."""
        task.is_over = True
        parent = task.parent
        if parent is None:
            return
        if task.error is not None:
            self._cancel_children_of(parent)
            parent.error = task.error
            self._push(parent, self._clock.now)
            return
        parent.results[task.index] = task.value
        parent.waits -= 1
        if parent.waits == 0:
            parent.value = parent.results
            self._push(parent, self._clock.now)

    def _cancel_children_of(self, parent: _ScheduledTask) -> None:
        """Close the tasks below a parent, in the order of pushing; then those that wait."""
        cancelled = sorted((n, task) for _, n, task in self._due if _descends(task, parent))
        self._due = sorted(entry for entry in self._due if not _descends(entry[2], parent))
        for _, task in cancelled:
            task.steps.close()
        lists: tuple[list[Any], list[Any]] = self._waiting, self._calling
        for entries in lists:
            for entry in [entry for entry in entries if _descends(entry[0], parent)]:
                entries.remove(entry)
                entry[0].steps.close()


def _descends(task: _ScheduledTask, ancestor: _ScheduledTask) -> bool:
    above = task.parent
    while above is not None:
        if above is ancestor:
            return True
        above = above.parent
    return False


def within(
    steps: Steps, clock: VirtualClock, timeout_ms: int, on_timeout: Callable[[], None]
) -> Steps:
    """Run a task for at most ``timeout_ms`` of virtual time; then close it and raise TimedOut."""
    deadline = clock.now + timeout_ms
    resume: Callable[[Any], Any] = steps.send
    value: Any = None
    while True:
        try:
            request = resume(value)
        except StopIteration as stop:
            return stop.value
        takes_time = not isinstance(request, (WaitForAll, WaitForUser, WaitingCall))
        late = takes_time and clock.now + request > deadline
        if late:
            request = deadline - clock.now
        before = clock.now
        try:
            value, resume = (yield request), steps.send
        except GeneratorExit:
            steps.close()
            raise
        except Exception as problem:
            value, resume, late = problem, steps.throw, False
        if isinstance(request, WaitForUser):
            # The time in which the user answers does not count.
            deadline += clock.now - before
        if late:
            on_timeout()
            steps.close()
            raise TimedOut
