"""A new process that takes the turns of a run: after ``restart: true``, and for one run alone."""

from __future__ import annotations

from collections.abc import Callable
from tempfile import TemporaryFile
from typing import Any, Final

import msgspec

from simkit.core import errors
from simkit.core.stopping import sudden_end_told
from simkit.providers.http import HttpAnswer
from simkit.runtime.models.recorded import Outgoing
from simkit.session.execution.own_process import ProcessMessages, tell_parent_events
from simkit.session.execution.processes import InProcessWorker, ProcessSetup
from simkit.session.workers import WorkerDied, ask_parent, at_end, start_worker, tell_parent
from simkit.spec.scenario.model import Turn
from simkit.trace.events import AnyEvent, ErrorFacts
from simkit.trace.recorder import Sink
from simkit.trace.store import Trace

MODULES: Final = ("simkit.session.execution.new_process", "simkit.runtime.journal")
"""The modules that each new process needs."""


class NewProcess:
    """A new process, which gets the scenario and the store's file, and then turn by turn."""

    def __init__(self, task: ProcessSetup, sink: Sink) -> None:
        self._sink, self._first, self._provider = sink, len(task.before), task.provider
        # A file blocks nobody, however large the output is.
        self._stderr = TemporaryFile()  # noqa: SIM115
        self._worker = start_worker(MODULES, stderr=self._stderr, ignores_interrupt=False)
        try:
            provider = _ParentProvider() if task.provider is not None else None
            self._ask(_begin, msgspec.structs.replace(task, provider=provider))
        except BaseException:
            self.close()
            raise

    def take(
        self, turn: Turn, not_before: int, turns_before: int | None = None
    ) -> ErrorFacts | None:
        """Take a turn; return the error that ended it, or None; raise LimitExceeded."""
        return self._ask(_call, "take", turn, not_before, turns_before)

    def check_rules(self) -> None:
        """Raise ScriptMisfit for a rule that does not fit the code."""
        self._ask(_call, "check_rules")

    def finish(self, error: ErrorFacts | None) -> None:
        """End the run."""
        self._ask(_call, "finish", error)

    def close(self) -> None:
        """End the process, which is idle by now."""
        self._worker.close()
        self._stderr.close()

    def _ask(self, function: Callable[..., _Answer], *arguments: Any) -> ErrorFacts | None:
        """Call a function there, emit the events that come back, and raise its error.

        If the process ends in a turn, its events until then come, and the end of the run.
        """
        messages = ProcessMessages()
        try:
            answer: _Answer = self._worker.call(
                function, *arguments, answering=self._answered, hear=messages.hear
            )
        except WorkerDied as death:
            self._stderr.seek(0)
            last_words = self._stderr.read().decode(errors="replace").strip().splitlines()[-1:]
            trace = messages.trace(": ".join([messages.how or death.how, *last_words]))
            for event in () if trace is None else trace.events:
                self._sink.emit(event)
            raise errors.ProcessFailed(
                f"the process that was to go on with turn {self._first + 1} ended with code "
                f"{death.code}{': ' if last_words else ''}{''.join(last_words)}",
                ("turns", self._first, "restart") if self._first else ("turns",),
            ) from None
        for event in answer.events:
            self._sink.emit(event)
        if answer.problem is not None:
            raise answer.problem
        return answer.error

    def _answered(self, call: Outgoing) -> HttpAnswer | errors.CassetteMissed:
        """Answer a model call of the process, or return the miss."""
        assert self._provider is not None
        try:
            return self._provider.answer(call)
        except errors.CassetteMissed as miss:
            return errors.CassetteMissed(str(miss))


class _Answer(msgspec.Struct, frozen=True):
    """The result of a call in the new process."""

    events: tuple[AnyEvent, ...]
    error: ErrorFacts | None = None
    """The error that ended a turn; None if there is none."""
    problem: errors.SimkitError | errors.LimitExceeded | None = None
    """The error that ends the run; None if there is none."""


class _ParentProvider:
    """The answerer in the new process: it asks the parent, which has the cassette."""

    def answer(self, call: Outgoing) -> HttpAnswer:
        """Return the answer; raise CassetteMissed if there is none."""
        answer: HttpAnswer | errors.CassetteMissed = ask_parent(call)
        if isinstance(answer, errors.CassetteMissed):
            raise answer
        return answer


# In the new process


class _Run:
    """The run that this process goes on with."""

    def __init__(self, task: ProcessSetup) -> None:
        self._path = ("turns", len(task.before), "restart") if task.before else ("turns",)
        self._trace = Trace()
        tell_parent_events(self._trace)

    def begin(self, task: ProcessSetup) -> None:
        self.worker = InProcessWorker(task, self._trace)
        at_end(self.worker.close)

    def answer(self, work: Callable[[], Any]) -> _Answer:
        """Do the work, and take the new events out of the trace."""
        error: ErrorFacts | None = None
        problem: errors.SimkitError | errors.LimitExceeded | None = None
        try:
            with sudden_end_told(tell=tell_parent):
                error = work()
        except (errors.FunctionMissing, errors.LimitExceeded, errors.ScriptBroken) as raised:
            problem = raised
        except errors.SimkitError as raised:
            problem = errors.ScriptBroken(str(raised), self._path)
        events = tuple(self._trace.events)
        self._trace.events.clear()
        return _Answer(events, error, problem)


_runs: list[_Run] = []
"""The only run of this process."""


def _begin(task: ProcessSetup) -> _Answer:
    run = _Run(task)
    _runs[:] = [run]
    return run.answer(lambda: run.begin(task))


def _call(method: str, *arguments: Any) -> _Answer:
    (run,) = _runs
    return run.answer(lambda: getattr(run.worker, method)(*arguments))
