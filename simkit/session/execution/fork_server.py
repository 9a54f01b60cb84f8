"""A process that has imported simkit, and is copied (`os.fork`) for each new process of a run.

A copy continues where a new interpreter is after its imports: no scenario is read yet, and no
module of the user imported. So a run in a copy has nothing of the runs before it.
"""

from __future__ import annotations

import atexit
import importlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

EARLY: Final = ("simkit.runtime.sqlite_store",)
"""Modules that each restart needs, beside those of `subprocess_worker`."""
MODULE: Final = "simkit.session.execution"
_MESSAGE_MAX: Final = 1 << 20
_READY: Final = b"ready"
_CHANGING: Final = ("PYTHONPATH", "PYTEST_CURRENT_TEST")
"""Variables that each copy gets when it starts. The server has the others from its own start, since
imports may read them: if one has changed, another server is started."""


def thread_count() -> int:
    """Return the number of this process's threads, also of those that Python does not know."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else threading.active_count()


def can_fork() -> bool:
    """Return whether processes can be copied here. On macOS system libraries do not allow it."""
    return hasattr(os, "fork") and hasattr(socket, "SOCK_SEQPACKET") and sys.platform != "darwin"


class ForkServer:
    """The server, seen from the process that uses it; every method may raise OSError.

    After an error it is closed.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        """Start it, and wait for its imports."""
        self.settings = _settings(environment)
        self._lock = threading.Lock()
        self._channel, channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with channel:
            self._process = subprocess.Popen(
                [sys.executable, "-m", MODULE, str(channel.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[channel.fileno()],
                env=environment,
            )
        try:
            answer = self._channel.recv(_MESSAGE_MAX)
        except BaseException:
            self.close()
            raise
        if answer != _READY:
            self.close()
            raise OSError("the fork server does not serve")

    def fits(self, environment: dict[str, str]) -> bool:
        """Return whether a new interpreter with these variables would be as this server is."""
        return self.settings == _settings(environment)

    def fork(self, files: tuple[int, int, int], environment: dict[str, str]) -> int:
        """Return the number of a copy with these standard files."""
        values = {name: environment.get(name) for name in _CHANGING}
        return self._answer(("fork", os.getcwd(), sys.path, values), files)

    def wait(self, number: int) -> int:
        """Wait for the end of a copy; return its exit code, negative for a signal."""
        return self._answer(("wait", number))

    def kill(self, number: int) -> None:
        """Kill a copy for which nobody has waited yet."""
        with self._lock:
            # The server keeps the number until it waits, so that it is no other process's.
            if self._process.poll() is None:
                os.kill(number, signal.SIGKILL)

    def close(self) -> None:
        """End the server, even if it waits for a copy; the copies go on."""
        self._channel.close()
        self._process.kill()
        self._process.wait()

    def leave(self) -> None:
        """Let go of the server in a copy of the process that uses it."""
        self._channel.close()
        self._process.returncode = 0

    def _answer(self, request: object, files: tuple[int, ...] = ()) -> int:
        with self._lock:
            try:
                socket.send_fds(self._channel, [pickle.dumps(request)], files)
                answer = self._channel.recv(_MESSAGE_MAX)
                if not answer:
                    raise OSError("the fork server has ended")
                result = pickle.loads(answer)
            except BaseException:
                # Also after Ctrl-C: a late answer would be taken for that of the next request.
                self.close()
                raise
        if not isinstance(result, int):
            raise OSError(result)
        return result


def _settings(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in _CHANGING}


_server: ForkServer | None = None
_is_usable = can_fork()
_changes = threading.Lock()


def fork_server(environment: dict[str, str]) -> ForkServer | None:
    """Return this process's server for these variables; None if there can be none."""
    global _server, _is_usable
    with _changes:
        if not _is_usable or (_server is not None and _server.fits(environment)):
            return _server if _is_usable else None
        if _server is None:
            atexit.register(_end)
            os.register_at_fork(after_in_child=_leave)
        else:
            _server.close()
        try:
            _server = ForkServer(environment)
        except OSError:
            _server, _is_usable = None, False
        return _server


def give_up() -> None:
    """Start no further process through a server, since one has failed."""
    global _is_usable
    _is_usable = False


def _end() -> None:
    if _server is not None:
        _server.close()


def _leave() -> None:
    """Let a copy of this process start its own server."""
    global _server, _changes
    _changes = threading.Lock()  # A thread that is not in the copy may have held it.
    if _server is not None:
        _server.leave()
        _server = None


def serve_forks(number: int) -> None:
    """Serve the process at the other end of a socket; return in copies only."""
    for module in EARLY:
        importlib.import_module(module)
    on_interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=number) as channel:
        if is_watched():
            sys.exit()
        channel.send(_READY)
        while True:
            message, files, *_ = socket.recv_fds(channel, _MESSAGE_MAX, 3)
            if not message:
                sys.exit()
            name, *arguments = pickle.loads(message)
            answer: int | str
            try:
                answer = os.fork() if name == "fork" else _wait(*arguments)
            except OSError as problem:
                answer = str(problem)
            if name == "fork" and answer == 0:
                break
            for file in files:
                os.close(file)
            with suppress(OSError):
                channel.send(pickle.dumps(answer))
    signal.signal(signal.SIGINT, on_interrupt)
    _begin(files, *arguments)


def _wait(number: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def _begin(files: list[int], folder: str, path: list[str], values: dict[str, str | None]) -> None:
    """Be what a new interpreter would be, with these standard files, folder and import path."""
    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    os.chdir(folder)
    sys.path[:] = [os.getcwd(), *dict.fromkeys(map(os.path.abspath, (*path, *_own_path())))]
    importlib.invalidate_caches()
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _own_path() -> list[str]:
    """Return the import path that each interpreter has, without this one's PYTHONPATH."""
    others = {os.path.abspath(entry) for entry in os.environ["PYTHONPATH"].split(os.pathsep)}
    return [entry for entry in sys.path[1:] if os.path.abspath(entry) not in others]


def is_watched() -> bool:
    """Return whether a copy would lack a thread, or be followed by a debugger or coverage.

    Both want to see a process from its start.
    """
    monitoring: Any = getattr(sys, "monitoring", None)
    tools = [] if monitoring is None else [monitoring.get_tool(place) for place in range(6)]
    return thread_count() > 1 or any((sys.gettrace(), sys.getprofile(), *tools))
