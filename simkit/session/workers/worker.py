"""One process that works for this one, and does one call after the other.

A call is a function of a module with its arguments; the answer is what the function returns, or
raises. Both are pickled, each behind its length.
"""

from __future__ import annotations

import _thread
import atexit
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import IO, Any, Final, NamedTuple

from simkit.core.stopping import TERMINATED
from simkit.session.workers.application import (
    MODULE,
    ApplicationProcess,
    Beginning,
    ForkedProcess,
    application_process,
    beginning,
    give_up,
    serve_copies,
    start_interpreter,
    start_own_thread,
    worker_environment,
)

GRACE_S: Final = 2.0
"""The seconds in which a worker may end before it is killed."""
_LOOK_EVERY_S: Final = 0.5
"""How often to look whether a worker has died: a process of its own may keep its pipe open."""
_POLL_S: Final = 0.003
_SIZE: Final = 8
"""The bytes of a message's length."""
_AHEAD: Final = 1 << 16
"""The bytes that are read at once, of one message or of several."""


class WorkerDied(Exception):
    """A worker ended before it answered."""

    def __init__(self, code: int | None, silent_s: float | None = None) -> None:
        """``code`` is its exit code, negative for a signal, and None if it is not known.

        It was killed after ``silent_s`` seconds without a sign of it; None: it ended by itself.
        """
        super().__init__(code, silent_s)
        self.code, self.silent_s = code, silent_s

    @property
    def how(self) -> str:
        """Return how it ended: ``with exit code 3``, ``by signal SIGKILL``."""
        code = self.code
        if self.silent_s is not None:
            return f"it was killed, since it recorded nothing for {self.silent_s:g} s"
        if code is None:
            return "nobody knows how"
        if code >= 0:
            return f"with exit code {code}"
        is_named = code in [-number for number in signal.Signals]
        return f"by signal {signal.Signals(-code).name if is_named else -code}"


class Worker(AbstractContextManager["Worker"]):
    """A worker, seen from the process that started it; as a context manager it is closed."""

    def __init__(
        self, process: subprocess.Popen[bytes] | _Copy, requests: IO[bytes], answers: IO[bytes]
    ) -> None:
        """Neither pipe is buffered."""
        self._process, self._requests, self._answers = process, requests, answers
        self._inbox = _Inbox(answers, _AHEAD)
        self._code: int | None = None
        self._silent_s: float | None = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        answering: Callable[[Any], Any] | None = None,
        hear: Callable[[Any], object] | None = None,
        seconds: float | None = None,
    ) -> Any:
        """Return what a function of a module returns there, and raise what it raises.

        ``answering`` answers the questions that it asks with `ask_parent`, ``hear`` gets what it
        says with `tell_parent`. After ``seconds`` in which it says nothing the worker is killed.
        Raise WorkerDied if it ends before it answers.
        """
        requests, inbox = self._requests, self._inbox
        try:
            _send(requests, (function, arguments))
            kind, value = pickle.loads(inbox.next(self._waiting(seconds)))
            while kind in ("asks", "tells"):
                if kind == "asks":
                    assert answering is not None
                    _send(requests, answering(value))
                elif hear is not None:
                    hear(value)
                kind, value = pickle.loads(inbox.next(self._waiting(seconds)))
        except (OSError, EOFError):
            raise self._death() from None
        except BaseException:
            self.kill()
            raise
        if kind == "raises":
            raise value
        return value

    def kill(self) -> None:
        """End it at once, whatever it does."""
        if self._code is None:
            with suppress(OSError):
                self._process.kill()

    def close(self, seconds: float | None = None) -> None:
        """Send nothing more and wait for its end; kill it if that takes longer than ``seconds``."""
        for pipe in (self._requests, self._answers):
            with suppress(OSError):
                pipe.close()
        self._wait(seconds)

    def _wait(self, seconds: float | None) -> None:
        until = None if seconds is None else time.monotonic() + seconds
        while not self._has_ended():
            if until is not None and time.monotonic() > until:
                self.kill()
            time.sleep(_POLL_S)

    def _has_ended(self) -> bool:
        if self._code is None:
            try:
                self._code = self._process.poll()
            except OSError:
                return True  # Its application process is gone; it ends with its pipe.
        return self._code is not None

    def _waiting(self, seconds: float | None) -> Callable[[], None]:
        """Return a function that waits until there is something to read.

        It raises EOFError if the worker has ended, as after the time. Where pipes cannot be watched
        (Windows), reading waits.
        """
        until = None if seconds is None else time.monotonic() + seconds

        def wait() -> None:
            if not hasattr(select, "poll"):
                return
            watched = select.poll()
            watched.register(self._answers, select.POLLIN)
            while not watched.poll(_wait_ms(until)):
                if until is not None and time.monotonic() > until:
                    self._silent_s = seconds
                    self.kill()
                if self._has_ended() and not watched.poll(0):
                    raise EOFError

        return wait

    def _death(self) -> WorkerDied:
        with suppress(OSError):
            self._requests.close()
        self._wait(GRACE_S)
        return WorkerDied(self._code, self._silent_s)


def _wait_ms(until: float | None) -> float:
    wait_s = _LOOK_EVERY_S if until is None else until - time.monotonic()
    return min(max(wait_s, 0), _LOOK_EVERY_S) * 1000


# How a worker is started


def start_worker(
    modules: Sequence[str] = (),
    *,
    folder: str | None = None,
    stderr: IO[bytes] | None = None,
    ignores_interrupt: bool = True,
    variables: Mapping[str, str] | None = None,
) -> Worker:
    """Start a worker that has run nothing: a copy of an application process, or an interpreter.

    It has this process's import path, and its variables with ``variables``. ``modules`` are those
    that it needs, ``folder`` is its working directory, and ``ignores_interrupt`` leaves Ctrl-C to
    this process. Raise OSError if it cannot be started.
    """
    environment = {**worker_environment(), **(variables or {})}
    start = beginning(folder, environment, ignores_interrupt)
    # User code in a run gives its processes other variables; with others, nobody starts a second.
    is_usual = variables is None and not _is_guarded()
    application = application_process(modules, environment) if is_usual else None
    if application is not None:
        try:
            return _copied(application, start, stderr)
        except OSError:
            give_up(modules)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", MODULE],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=environment,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(OSError):  # The next call tells that it has ended.
        _send(process.stdin, start)
    return Worker(process, process.stdin, process.stdout)


def _is_guarded() -> bool:
    """Return whether this is user code in a run."""
    guards = sys.modules.get("simkit.capture.http.guards")
    return guards is not None and guards.active_guard() is not None


def fork_application(prepare: Callable[[], object]) -> ApplicationProcess:
    """Return a copy of this process, which imports an application and is copied from then on.

    This process must have run nothing, and must have no other thread. ``prepare`` imports; it
    raises OSError if copies would not do.
    """
    return ApplicationProcess(_forked, prepare)


def start_application(prepare: Callable[[], object]) -> ApplicationProcess:
    """Return an interpreter for an application, where this process may not be copied."""
    return ApplicationProcess(partial(start_interpreter, worker_environment()), prepare)


def start_copy(application: ApplicationProcess) -> Worker:
    """Return a copy of an application process; raise OSError if there can be none."""
    application.wait()
    return _copied(application, beginning(None, worker_environment(), True), None)


def _forked(channel: socket.socket) -> ForkedProcess:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    number = os.fork()
    if number:
        return ForkedProcess(number)
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that uses this.
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)  # User code must not print between the lines of the command's own output.
        with suppress(AttributeError):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        serve_copies(channel)
        serve_on_standard_streams()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        # As an interpreter ends; but nothing of the command that was copied goes on.
        with suppress(BaseException):
            atexit._run_exitfuncs()
        with suppress(BaseException):
            sys.stderr.flush()
        os._exit(code)


class _Copy(NamedTuple):
    """A copy of an application process."""

    application: ApplicationProcess
    number: int

    def kill(self) -> None:
        self.application.kill(self.number)

    def poll(self) -> int | None:
        return self.application.poll(self.number)


def _copied(application: ApplicationProcess, start: Beginning, stderr: IO[bytes] | None) -> Worker:
    inbox, requests = os.pipe()
    answers, outbox = os.pipe()
    pipes: tuple[IO[bytes], IO[bytes]] = os.fdopen(requests, "wb", 0), os.fdopen(answers, "rb", 0)
    try:
        errors = 2 if stderr is None else stderr.fileno()
        return Worker(_Copy(application, application.fork(start, (inbox, outbox, errors))), *pipes)
    except BaseException:
        for pipe in pipes:
            pipe.close()
        raise
    finally:
        os.close(inbox)
        os.close(outbox)


# In the worker


_endings: list[Callable[[], object]] = []
_parent: list[tuple[_Inbox, IO[bytes]]] = []
"""The requests, and the pipe of answers."""


def at_end(function: Callable[[], object]) -> None:
    """Call a function when this worker gets no more requests."""
    _endings.append(function)


def ask_parent(question: object) -> Any:
    """Return the answer of the process that waits for this worker's answer."""
    ((requests, _),) = _parent
    _tell("asks", question)
    return pickle.loads(requests.next())


def tell_parent(fact: object) -> None:
    """Tell the process that waits for this worker's answer; in another process, do nothing."""
    _tell("tells", fact)


_telling: Final = _thread.allocate_lock()
"""One message is written after the other; threads of user code tell, too."""


def _tell(kind: str, fact: object) -> None:
    for _, answers in _parent:
        # A signal's handler may tell in the midst of a message, just before it ends the process.
        if _telling.acquire(timeout=1.0):
            try:
                with suppress(OSError):
                    _send(answers, (kind, fact))
            finally:
                _telling.release()


def receive_beginning() -> None:
    """Take over what the process that started this interpreter sends first."""
    with os.fdopen(os.dup(0), "rb", 0) as requests:
        start: Beginning = pickle.loads(_Inbox(requests).next())
    start.take_over()


def serve_on_standard_streams() -> None:
    """Do what the process at the other end of the standard streams asks, until it asks no more.

    User code neither reads the requests nor prints between the answers: its output goes to stderr.
    """
    requests, answers = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    inbox = _Inbox(requests)
    _parent[:] = [(inbox, answers)]
    busy = _Busy()
    _end_with(requests.fileno(), busy)
    with requests, answers:
        while True:
            try:
                message = inbox.next()
            except EOFError:
                break
            busy.now = True
            answer = _answer_to(message)
            busy.now = False
            with suppress(OSError):  # The first process may have ended after its last question.
                _write(answers, answer)
        for function in _endings:
            function()


def _answer_to(message: bytes) -> bytes:
    try:
        function, arguments = pickle.loads(message)
        return pickle.dumps(("returns", function(*arguments)))
    except Exception as problem:
        try:
            answer = pickle.dumps(("raises", problem))
            pickle.loads(answer)  # An exception with arguments of its own may not come back.
        except Exception:
            return pickle.dumps(("raises", RuntimeError(repr(problem))))
        return answer


class _Busy:
    """Whether this process does something; if not, it notices the end by itself."""

    now = False


def _end_with(pipe: int, busy: _Busy) -> None:
    """End this process, if it is busy, as soon as the other end of a pipe is closed.

    The first process has ended, and user code may run for ever. Where pipes cannot be watched
    (Windows), this one ends after its work.
    """
    if not hasattr(select, "poll"):
        return
    watched = select.poll()
    watched.register(pipe, 0)  # The end of the pipe is always reported.

    def wait() -> None:
        watched.poll()
        if busy.now:
            os._exit(TERMINATED)

    start_own_thread(wait)


# Messages


def _send(pipe: IO[bytes], message: object) -> None:
    _write(pipe, pickle.dumps(message))


def _write(pipe: IO[bytes], data: bytes) -> None:
    unsent = memoryview(len(data).to_bytes(_SIZE, "big") + data)
    while unsent:
        unsent = unsent[pipe.write(unsent) :]


class _Inbox:
    """The messages that come through a pipe."""

    def __init__(self, pipe: IO[bytes], ahead: int = 0) -> None:
        """``ahead`` is how many bytes are read at once, also of later messages."""
        self._pipe, self._ahead, self._data = pipe, ahead, bytearray()

    def next(self, wait: Callable[[], None] = lambda: None) -> bytes:
        """Return the next message; raise EOFError if there is none.

        ``wait`` is called before each time that the pipe is read.
        """
        return self._read(int.from_bytes(self._read(_SIZE, wait), "big"), wait)

    def _read(self, count: int, wait: Callable[[], None]) -> bytes:
        data = self._data
        while len(data) < count:
            wait()
            part = self._pipe.read(max(count - len(data), self._ahead))
            if not part:
                raise EOFError
            data += part
        part = bytes(data[:count])
        del data[:count]
        return part
