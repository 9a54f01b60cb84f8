"""Programs: a process, and the loopback server that answers its requests.

The program's requests wait until the scenario takes them, one at a time and in the order in which
they came. Server and program are outside all scenarios' contexts: clocks and sockets are real
there.
"""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Final

import msgspec

from simkit.capture.http.request_router import Decision, Owner, owned_by
from simkit.core.errors import ProgramFailed, ScriptBroken, Unsupported
from simkit.providers.http import HttpRequest

SILENCE_S: Final = 60.0
"""How long a program may send no request while a turn waits for it."""
PATIENCE_S: Final = 5.0
"""How long a program may take to end by itself, and then again after a signal."""
_LOOK_S: Final = 0.05
"""The interval of checks that the process still runs."""
_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)
_TAIL: Final = 2_000
"""Characters of its output in an error."""


class Request(msgspec.Struct, frozen=True):
    """A waiting request of a program."""

    http: HttpRequest
    answer: Callable[[Decision], None]


class Program:
    """One process, from its start to its end."""

    def __init__(
        self,
        command: Sequence[str],
        folder: str,
        environment: Callable[[str], Mapping[str, str]],
    ) -> None:
        """Start the command in a folder.

        ``environment`` returns its variables for the server's address. Raise Unsupported if the
        server's library is missing, and ScriptBroken if there is no such command.
        """
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[str | BaseException] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._command = " ".join(command)
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `stop`.
        self._thread = threading.Thread(target=self._serve, name="simkit-program", daemon=True)
        with owned_by(Owner()):
            self._thread.start()
            url = self._ready.get()
            if isinstance(url, BaseException):
                self._output.close()
                raise url
            try:
                self._process = subprocess.Popen(
                    command,
                    cwd=folder,
                    env=environment(url),
                    stdin=subprocess.DEVNULL,
                    stdout=self._output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as problem:
                self._end_server()
                why = os.strerror(problem.errno or 0)
                raise ScriptBroken(
                    f"`{command[0]}` cannot be started in {folder}: {why}.\n"
                    "Name a command that is installed here, with paths from this file's folder.",
                    ("program",),
                ) from None

    def request(self, patience_s: float | None = None) -> Request:
        """Wait for the program's next request; raise ProgramFailed if none comes in time.

        The time is `SILENCE_S`, or ``patience_s``.
        """
        waited, patience = 0.0, SILENCE_S if patience_s is None else patience_s
        while True:
            with suppress(queue.Empty):
                return self._requests.get(timeout=_LOOK_S)
            if self._process.poll() is not None:
                with suppress(queue.Empty):  # It may have sent a request and ended at once.
                    return self._requests.get_nowait()
                raise ProgramFailed(f"`{self._command}` {self._how_it_ended()}{self._tail()}")
            waited += _LOOK_S
            if waited >= patience:
                raise ProgramFailed(
                    f"`{self._command}` made no request for {patience:g} seconds{self._tail()}"
                )

    def stop(self, *, by_itself: bool) -> None:
        """End the program, or wait first until it ends ``by_itself``; stop the server."""
        steps = [None] if by_itself else []
        with owned_by(Owner()):
            for which in (*steps, signal.SIGTERM, _KILL):
                if which is not None:
                    self._kill(which)
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(PATIENCE_S)
                    break
            self._kill(_KILL)  # Processes that it started and left behind.
            self._end_server()

    def _kill(self, which: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, which)
            else:  # Windows has no process groups of this kind.
                self._process.send_signal(which)

    def _end_server(self) -> None:
        if self._loop is not None and self._over is not None:
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE_S)
        self._output.close()

    def _how_it_ended(self) -> str:
        status = self._process.returncode
        if status < 0:
            return f"was stopped by {signal.Signals(-status).name}"
        return f"ended with exit code {status}"

    def _tail(self) -> str:
        """Return the last lines that the program printed, as lines of a message."""
        self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, self._output.tell() - _TAIL))
        lines = self._output.read().decode(errors="replace").strip().splitlines()
        return "".join(f"\n  | {line}" for line in lines[-20:])

    # The server.

    def _serve(self) -> None:
        with owned_by(Owner()):
            asyncio.run(self._serving())

    async def _serving(self) -> None:
        try:
            from simkit.capture.http.loopback import listening
        except ImportError:
            self._ready.put(
                Unsupported(
                    "a pipeline that is a program needs the extra `serve`: "
                    "pip install 'agent-simkit[serve]'"
                )
            )
            return
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with listening(self._wait_for_answer) as loopback:
            self._ready.put(loopback.url)
            await self._over.wait()

    async def _wait_for_answer(self, request: HttpRequest) -> Decision:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Decision] = loop.create_future()

        def answer(decision: Decision) -> None:
            with suppress(RuntimeError):  # The server has stopped.
                loop.call_soon_threadsafe(_settle, waiting, decision)

        self._requests.put(Request(request, answer))
        return await waiting


def _settle(waiting: asyncio.Future[Decision], decision: Decision) -> None:
    if not waiting.done():
        waiting.set_result(decision)
