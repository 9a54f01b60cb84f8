"""A new process that takes the turns of a run: started by ``restart: true``."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final

import msgspec

from simkit.core.errors import (
    CassetteMissed,
    FunctionMissing,
    LimitExceeded,
    ProcessFailed,
    ScriptBroken,
    ScriptMisfit,
    SimkitError,
)
from simkit.providers.http import HttpAnswer
from simkit.runtime.models.recorded import Outgoing
from simkit.session.execution.child_processes import start_process
from simkit.session.execution.left_alone import Busy, end_with
from simkit.session.execution.processes import InProcessWorker, ProcessSetup
from simkit.session.execution.starts import STARTS
from simkit.spec.scenario.model import Turn
from simkit.trace.events import AnyEvent, ErrorFacts
from simkit.trace.recorder import Sink
from simkit.trace.store import Trace

_ENCODE: Final = msgspec.json.Encoder().encode


class _Answer(msgspec.Struct, frozen=True, gc=False):
    """The line with which a new process answers each request.

    Before it, the process may itself ask for model answers, and get them, as often as it needs.
    """

    events: tuple[AnyEvent, ...] = ()
    error: ErrorFacts | None = None
    """The error that ended a turn; None if there is none."""
    limit: str = ""
    """The limit that allows no further turn; empty if none."""
    allowed: int = 0
    broken: str = ""
    """Why the script cannot be used; empty if it can."""
    path: tuple[str | int, ...] = ()
    is_misfit: bool = False
    """Whether the script does not fit the pipeline."""
    missing: str = ""
    """The missing function; empty if there is none."""
    asks: Outgoing | None = None
    """A model call, which the process with the cassette answers."""


_ANSWER: Final = msgspec.json.Decoder(_Answer)


class NewProcess:
    """A new process, which gets the scenario and the store's file, and then turn by turn."""

    def __init__(self, task: ProcessSetup, sink: Sink) -> None:
        self._sink, self._first, self._provider = sink, len(task.before), task.provider
        self.is_restart = bool(task.before)
        started = time.perf_counter()
        with ExitStack() as resources:
            # A file blocks nobody, however large the output is.
            self._stderr = resources.enter_context(TemporaryFile())
            self._resources = resources.pop_all()
        self._process = start_process(self._stderr)
        try:
            elsewhere_driver = _ParentTransport() if task.provider is not None else None
            self._ask(msgspec.structs.replace(task, provider=elsewhere_driver))
        except BaseException:
            self.close()
            raise
        STARTS.note(self.is_restart, time.perf_counter() - started)

    def take(
        self, turn: Turn, not_before: int, turns_before: int | None = None
    ) -> ErrorFacts | None:
        """Take a turn; return the error that ended it, or None; raise LimitExceeded."""
        return self._ask(("take", turn, not_before, turns_before))

    def finish(self, error: ErrorFacts | None) -> None:
        """End the run."""
        self._ask(("finish", error))

    def close(self) -> None:
        """End the process, which is idle by now."""
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                pipe.close()
        self._process.wait()
        self._resources.close()

    def _ask(self, request: object) -> ErrorFacts | None:
        """Send a request, emit the events that come back, and raise the error of the process."""
        try:
            answer = self._answer(pickle.dumps(request))
            while answer.asks is not None:
                answer = self._answer(pickle.dumps(self._answered(answer.asks)))
        except BaseException:
            self._process.kill()
            raise
        for event in answer.events:
            self._sink.emit(event)
        if answer.limit:
            raise LimitExceeded(answer.limit, answer.allowed)
        if answer.missing:
            raise FunctionMissing(answer.broken, answer.missing)
        if answer.broken:
            problem = ScriptMisfit if answer.is_misfit else ScriptBroken
            raise problem(answer.broken, answer.path)
        return answer.error

    def _answered(self, call: Outgoing) -> HttpAnswer | CassetteMissed:
        """Answer a model call of the process, or return the miss."""
        assert self._provider is not None
        try:
            return self._provider.answer(call)
        except CassetteMissed as miss:
            return CassetteMissed(str(miss))

    def _answer(self, data: bytes) -> _Answer:
        stdin, stdout = self._process.stdin, self._process.stdout
        try:
            stdin.write(data)
            stdin.flush()
            return _ANSWER.decode(stdout.readline())
        except (OSError, msgspec.MsgspecError):
            with suppress(OSError):
                stdin.close()
            code = self._process.wait()
            self._stderr.seek(0)
            stderr_lines = self._stderr.read().decode(errors="replace").strip().splitlines()[-1:]
            raise ProcessFailed(
                f"the process that was to go on with turn {self._first + 1} ended with code "
                f"{code}{': ' if stderr_lines else ''}{''.join(stderr_lines)}",
                ("turns", self._first, "restart"),
            ) from None


class _ParentTransport:
    """The answerer in the new process: it asks the parent, which has the cassette."""

    def __init__(self, stdin: BinaryIO | None = None, out: BinaryIO | None = None) -> None:
        self._stdin, self._out = stdin, out

    def answer(self, call: Outgoing) -> HttpAnswer:
        """Return the answer; raise CassetteMissed if there is none."""
        _write(self._out, _Answer(asks=call))
        assert self._stdin is not None
        answer: HttpAnswer | CassetteMissed = pickle.load(self._stdin)
        if isinstance(answer, CassetteMissed):
            raise answer
        return answer


def serve() -> None:
    """Answer the parent process until it sends no more requests."""
    # User code must not print between the answers, nor read the requests.
    stdin, out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    trace, busy = Trace(), Busy()
    end_with(stdin.fileno(), busy)
    busy.now = True
    task: ProcessSetup = pickle.load(stdin)
    if task.provider is not None:
        task = msgspec.structs.replace(task, provider=_ParentTransport(stdin, out))
    place = ("turns", len(task.before), "restart")
    workers: list[InProcessWorker] = []
    answer = _came_of(lambda: workers.append(InProcessWorker(task, trace)), trace, place)
    busy.now = False  # The parent may end after the last answer.
    _write(out, answer)
    while workers:
        try:
            name, *arguments = pickle.load(stdin)
        except EOFError:
            break
        busy.now = True
        answer = _came_of(partial(getattr(workers[0], name), *arguments), trace, place)
        busy.now = False
        _write(out, answer)
    for worker in workers:
        worker.close()
    out.close()


def _came_of(
    work: Callable[[], ErrorFacts | None], trace: Trace, place: tuple[str | int, ...]
) -> _Answer:
    """Do the requested work, and take the new events out of the trace."""
    answer = _Answer()
    try:
        answer = _Answer(error=work())
    except LimitExceeded as problem:
        answer = _Answer(limit=problem.limit, allowed=problem.allowed)
    except FunctionMissing as problem:
        answer = _Answer(broken=problem.what, missing=problem.name)
    except ScriptBroken as problem:
        is_misfit = isinstance(problem, ScriptMisfit)
        answer = _Answer(broken=problem.what, path=problem.path, is_misfit=is_misfit)
    except SimkitError as problem:
        answer = _Answer(broken=str(problem), path=place)
    events = tuple(trace.events)
    trace.events.clear()
    return msgspec.structs.replace(answer, events=events)


def _write(out: Any, answer: _Answer) -> None:
    out.write(_ENCODE(answer) + b"\n")
    out.flush()
