"""The application process: it has imported an application, run nothing, and is copied.

A copy (`os.fork`) continues where a new interpreter is after its imports: nothing of an earlier run
is left. An application process is a new interpreter, one for each list of modules and environment
(a copy takes over the import path of its run); or a copy of this process, which has run nothing
either.
"""

from __future__ import annotations

import _thread
import atexit
import gc
import importlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias
from weakref import WeakSet

from simkit.core.gc_pause import collected_rarely, native_ids

MODULE: Final = "simkit.session.workers"
_MESSAGE_MAX: Final = 1 << 20
_CHANGING: Final = ("PYTHONPATH", "PYTEST_CURRENT_TEST")
"""Variables that each copy gets when it starts. The application process has the others from its own
start, since imports may read them: if one has changed, another process is started."""


class Beginning(NamedTuple):
    """The surroundings that a worker takes over from the process that starts it."""

    folder: str
    path: list[str]
    """The import path, with absolute folders."""
    variables: dict[str, str | None]
    """Those variables of the environment that may change between two workers."""
    ignores_interrupt: bool
    """Whether Ctrl-C is left to the first process."""

    def take_over(self) -> None:
        """Give this process the folder, the import path and the variables."""
        os.chdir(self.folder)
        sys.path[:] = self.path
        importlib.invalidate_caches()
        for name, value in self.variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if self.ignores_interrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def beginning(folder: str | None, environment: Mapping[str, str], ignores: bool) -> Beginning:
    """Return what a worker in a folder takes over from this process."""
    path = [os.path.abspath(entry) for entry in sys.path]
    variables = {name: environment.get(name) for name in _CHANGING}
    return Beginning(os.path.abspath(folder or "."), path, variables, ignores)


def can_fork() -> bool:
    """Return whether processes can be copied here. On macOS system libraries do not allow it."""
    return hasattr(os, "fork") and hasattr(socket, "SOCK_SEQPACKET") and sys.platform != "darwin"


def is_traced() -> bool:
    """Return whether a debugger or coverage follows this process, which wants to see its start."""
    monitoring: Any = getattr(sys, "monitoring", None)
    tools = [] if monitoring is None else [monitoring.get_tool(number) for number in range(6)]
    return any((sys.gettrace(), sys.getprofile(), *tools))


def is_watched() -> bool:
    """Return whether a copy would lack a thread, or be followed by a debugger or coverage."""
    return len(native_ids()) - _Threads.own > 1 or is_traced()


class _Threads:
    own = 0
    """The number of this process's threads that belong to workers: they hold nothing."""


def start_own_thread(function: Callable[[], object]) -> None:
    """Start a thread that copies of this process do not need."""
    _Threads.own += 1
    # A thread of this kind does not count as one of the user's code.
    _thread.start_new_thread(function, ())


class ForkedProcess:
    """A copy of this process, as its parent sees it."""

    def __init__(self, number: int, code: int | None = None) -> None:
        """``code`` is its exit code, if it has ended."""
        self._number, self._code = number, code
        self._lock = threading.RLock()
        """Once one thread has read its exit code, its number may be another process's."""

    def poll(self) -> int | None:
        """Return its exit code; None if it has not ended."""
        return self._ended(os.WNOHANG)

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        with self._lock:
            if self.poll() is None:
                os.kill(self._number, signal.SIGKILL)

    def wait(self) -> object:
        """Wait until it has ended."""
        return self._ended(0)

    def _ended(self, how: int) -> int | None:
        with self._lock, suppress(ChildProcessError):  # User code waits for any child.
            if self._code is None:
                self._code = 0
                ended, status = os.waitpid(self._number, how)
                self._code = os.waitstatus_to_exitcode(status) if ended else None
        return self._code


ChildProcess: TypeAlias = subprocess.Popen[bytes] | ForkedProcess


class ApplicationProcess:
    """The process, seen from the one that uses it; every method may raise OSError.

    After an error it is closed.
    """

    def __init__(
        self, start: Callable[[socket.socket], ChildProcess], prepare: Callable[[], object]
    ) -> None:
        """``start`` starts it with its end of a channel; it prepares when it is to `begin`."""
        self._prepare: Callable[[], object] | None = prepare
        self._is_ready = False
        self._lock = threading.RLock()
        self._channel, channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process: ChildProcess = ForkedProcess(0, code=0)
        # A copy of this process then lets go of this end, and ends with this process.
        _living.add(self)
        with channel:
            try:
                self._process = start(channel)
            except BaseException:
                self.close()
                raise

    def begin(self) -> None:
        """Let it import what its copies need, while this process does something else."""
        # No other thread's request may come before it.
        with self._lock:
            if self._prepare is None:
                return
            try:
                message, self._prepare = pickle.dumps(self._prepare), None
                with suppress(OSError):  # The next request tells that it has ended.
                    self._channel.send(message)
            except BaseException:
                # After Ctrl-C the next request might be taken for what prepares.
                self.close()
                raise

    def wait(self) -> None:
        """Wait until it can be copied; raise OSError if it cannot be."""
        self.begin()
        if not self._is_ready:
            try:
                self.call(bool)
            except OSError:
                self.close()
                raise
            self._is_ready = True

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function of a module returns in the application process itself."""
        return self._ask(("call", (function, arguments)))

    def fork(self, start: Beginning, files: Sequence[int]) -> int:
        """Return the number of a copy with these standard files."""
        return int(self._ask(("fork", start), files))

    def poll(self, number: int) -> int | None:
        """Return the exit code of a copy, negative for a signal; None if it has not ended."""
        code: int | None = self._ask(("poll", number))
        return code

    def kill(self, number: int) -> None:
        """Kill a copy of which nobody has got the exit code yet."""
        with self._lock:
            # The application process keeps the number until then: it is no other process's.
            if self._process.poll() is None:
                os.kill(number, signal.SIGKILL)

    def close(self) -> None:
        """End the process; its copies go on."""
        _living.discard(self)
        self._process.kill()
        self._process.wait()
        with suppress(OSError):  # A thread that waits for an answer gets an error, and lets go.
            self._channel.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._channel.close()

    def leave(self) -> None:
        """Let go of the process in a copy of the one that uses it."""
        self._channel.close()
        self._process = ForkedProcess(0, code=0)

    def _ask(self, request: object, files: Sequence[int] = ()) -> Any:
        with self._lock:
            try:
                socket.send_fds(self._channel, [pickle.dumps(request)], files)
                answer = pickle.loads(self._channel.recv(_MESSAGE_MAX))
            except EOFError:
                self.close()
                raise OSError("the application process has ended") from None
            except BaseException:
                # Also after Ctrl-C: a late answer would be taken for that of the next request.
                self.close()
                raise
        if isinstance(answer, OSError):
            raise answer
        return answer


def start_interpreter(environment: dict[str, str], channel: socket.socket) -> ChildProcess:
    """Start an interpreter with these variables."""
    return subprocess.Popen(
        # Without -P, the working directory would come first among the folders of modules.
        [sys.executable, "-P", "-m", MODULE, str(channel.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[channel.fileno()],
        env=environment,
    )


class _Applications:
    """The application processes of this process that are interpreters."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.by_modules: dict[tuple[str, ...], ApplicationProcess | None] = {}
        """None for modules of which no process can be copied."""
        self._settings: dict[tuple[str, ...], dict[str, str]] = {}
        """The variables with which each was started."""

    def get(
        self, modules: tuple[str, ...], environment: dict[str, str]
    ) -> ApplicationProcess | None:
        """Return the process of the modules, which is started if there is none that fits."""
        settings = {n: value for n, value in environment.items() if n not in _CHANGING}
        existing = self.by_modules.get(modules)
        if existing is not None and self._settings[modules] != settings:
            existing.close()
            del self.by_modules[modules]
        if modules not in self.by_modules:
            self._settings[modules] = settings
            start = partial(start_interpreter, environment)
            self.by_modules[modules] = ApplicationProcess(start, partial(import_modules, modules))
        return self.by_modules[modules]


_applications = _Applications()
_living: Final[WeakSet[ApplicationProcess]] = WeakSet()


def worker_environment() -> dict[str, str]:
    """Return the variables of a worker: this process's, and its import path."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(entry or "." for entry in sys.path)}


def application_process(
    modules: Sequence[str], environment: dict[str, str]
) -> ApplicationProcess | None:
    """Return this process's application process for the modules; None if there can be none."""
    if not can_fork():
        return None
    with _applications.lock:
        try:
            process = _applications.get(tuple(modules), environment)
            if process is not None:
                process.wait()
        except OSError:
            give_up(modules)
            return None
    return process


def give_up(modules: Sequence[str]) -> None:
    """Copy no process for these modules any more, since one has failed."""
    process = _applications.by_modules.get(tuple(modules))
    if process is not None:
        process.close()
    _applications.by_modules[tuple(modules)] = None


def _end() -> None:
    for process in [*_living]:
        process.close()


def _leave() -> None:
    """Let a copy of this process start application processes of its own."""
    global _applications
    for process in [*_living]:
        process.leave()
    _living.clear()
    _Threads.own = 0
    # A thread that is not in the copy may hold the lock.
    _applications = _Applications()


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave)


# In the application process


def import_modules(modules: Sequence[str]) -> None:
    """Import what copies need; raise OSError if this process must not be copied."""
    for module in modules:
        with suppress(ImportError):
            importlib.import_module(module)
    check_copyable()


def check_copyable() -> None:
    """Raise OSError if a copy of this process would lack something."""
    if is_watched():
        raise OSError("it has threads, or a debugger follows it")


def serve_copies(channel: socket.socket) -> None:
    """Serve the process at the other end of a channel; return in copies only.

    That one sends a function first, which imports the application. It raises OSError if copies of
    this process would not do; then the other one learns that, and this one ends.
    """
    if not (prepare := channel.recv(_MESSAGE_MAX)):
        sys.exit()
    try:
        with collected_rarely():
            pickle.loads(prepare)()
        gc.freeze()  # The collector of a copy leaves what was imported alone, which stays shared.
    except OSError as problem:
        channel.recv(_MESSAGE_MAX)
        with suppress(OSError):
            channel.send(pickle.dumps(OSError(str(problem))))
        sys.exit()
    on_interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    with channel:
        while True:
            message, files, *_ = socket.recv_fds(channel, _MESSAGE_MAX, 3)
            if not message:
                sys.exit()
            name, argument = pickle.loads(message)
            answer: object
            try:
                answer = _DO[name](argument)
            except OSError as problem:
                answer = problem
            if name == "fork" and answer == 0:
                break
            for file in files:
                os.close(file)
            with suppress(OSError):
                channel.send(pickle.dumps(answer))
    signal.signal(signal.SIGINT, on_interrupt)
    for standard, file in enumerate(files):
        os.dup2(file, standard)
        os.close(file)
    argument.take_over()


def _poll(number: int) -> int | None:
    ended, status = os.waitpid(number, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


_DO: Final[Mapping[str, Callable[[Any], object]]] = {
    "call": lambda request: request[0](*request[1]),
    "fork": lambda _: os.fork(),
    "poll": _poll,
}
