"""New processes: copies of a fork server, or new interpreters where there can be no server."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from typing import IO, BinaryIO, Protocol

from simkit.session.execution.fork_server import MODULE, ForkServer, fork_server, give_up


class ChildProcess(Protocol):
    """A process that answers requests."""

    stdin: BinaryIO
    stdout: BinaryIO

    def kill(self) -> None:
        """Kill it."""

    def wait(self) -> int | None:
        """Wait for its end; return its exit code, None if it cannot be known."""


def start_process(stderr: IO[bytes]) -> ChildProcess:
    """Start a process with this process's variables, folder and import path."""
    path = os.pathsep.join(entry or "." for entry in sys.path)
    environment = {**os.environ, "PYTHONPATH": path}
    server = None if _is_guarded() else fork_server(environment)
    if server is not None:
        try:
            return _Copy(server, stderr, environment)
        except OSError:
            give_up()
    return _Interpreter(stderr, environment)


def _is_guarded() -> bool:
    """Return whether this is user code in a run, which gives its processes other variables."""
    guards = sys.modules.get("simkit.capture.http.guards")
    return guards is not None and guards.active_guard() is not None


class _Interpreter:
    """A process with its own interpreter."""

    def __init__(self, stderr: IO[bytes], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.stdin: BinaryIO = self._process.stdin  # type: ignore[assignment]
        self.stdout: BinaryIO = self._process.stdout  # type: ignore[assignment]

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int | None:
        return self._process.wait()


class _Copy:
    """A copy of the server."""

    def __init__(self, server: ForkServer, stderr: IO[bytes], environment: dict[str, str]) -> None:
        self._server = server
        self._code: int | None = None
        requests, stdin = os.pipe()
        stdout, answers = os.pipe()
        self.stdin: BinaryIO = os.fdopen(stdin, "wb")
        self.stdout: BinaryIO = os.fdopen(stdout, "rb")
        try:
            self._number = server.fork((requests, answers, stderr.fileno()), environment)
        except BaseException:
            self.stdin.close()
            self.stdout.close()
            raise
        finally:
            os.close(requests)
            os.close(answers)

    def kill(self) -> None:
        # Without the server it ends with its pipe.
        with suppress(OSError):
            self._server.kill(self._number)

    def wait(self) -> int | None:
        if self._code is None:
            with suppress(OSError):
                self._code = self._server.wait(self._number)
        return self._code
