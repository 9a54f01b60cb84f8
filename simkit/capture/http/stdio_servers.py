"""Servers over stdio: a process that a pipeline starts, and whose input the scenario answers.

The command is not run. A small process is started in its place, so that identifiers, signals and
exit codes are real; its pipes belong to a thread of this process, which answers line by line. A
real server's command is run, and its pipes lead through such a thread, which observes both sides.
While a line waits for its answer, virtual time stands: `StdioServers.are_busy`.
"""

from __future__ import annotations

import _thread
import contextvars
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from simkit.capture.http import compat
from simkit.capture.http.installing import Installation, Replacement, Row
from simkit.core.context_values import Inside
from simkit.core.raw_threads import start_raw_thread
from simkit.providers.mcp import ServerEnded

_Process: TypeAlias = subprocess.Popen[Any]
_Pipes: TypeAlias = tuple[int, int, int]
_READ: Final = 65_536
_ENDS_S: Final = 2.0
"""How long the end of a process is waited for."""
_REAL_ENDS_S: Final = 10.0
"""The same for a real server, which tidies up: before that, no virtual time passes."""
PATIENCE_S = 60.0
"""How long a real server may be silent, of real time, that owes an answer; `npx` loads it first."""
_CHILD: Final = (
    "import sys\n"
    "text = sys.stdin.buffer.read()\n"
    "if text: sys.stderr.buffer.write(text + b'\\n'); sys.exit(1)"
)
"""Ends with its input; a server that fails says why, and ends with 1."""
_LAST: Final = 2_000
"""The number of bytes of a real server's errors that are kept for messages."""


class Observed(NamedTuple):
    """The consequences of a line of a real server."""

    is_for_client: bool = True
    """Whether the client gets it."""
    nexts: tuple[bytes, ...] = ()
    """The lines that the server gets now."""


class Answering:
    """A server of the scenario, as one client talks to it: one that never ends by itself."""

    fails = ""
    """The text that it prints before it ends at its start; empty for one that starts."""
    is_real: bool = False
    """Whether the command is run."""

    @property
    def is_asked(self) -> bool:
        """Whether the real server owes an answer."""
        return False

    def answer(self, line: bytes) -> bytes | None:
        """Return the lines that answer one of the client; None if the real server is to get it.

        Raise ServerEnded if the server ends instead.
        """
        raise NotImplementedError

    def outlast(self, say: Callable[[bytes], None]) -> None:
        """Let clients wait for what is never answered, as long as anything goes on."""

    def observe(self, line: bytes) -> Observed:
        """Observe a line of the real server."""
        return Observed()

    def end(self, how: str, last: str) -> bytes:
        """Observe how the real server has ended, and the last lines of its errors.

        Return the lines that tell clients that wait.
        """
        return b""


class _Connection:
    """One started server: the ends of its pipes, and the thread that answers."""

    def __init__(
        self, server: Answering, reads: int, writes: int, lifeline: int, process: _Process
    ) -> None:
        """``reads`` and ``writes`` are its pipes; its process ends when ``lifeline`` is closed."""
        self._process, self.pid = process, process.pid
        self._server, self._reads, self._writes, self._lifeline = server, reads, writes, lifeline
        self._lock = _thread.allocate_lock()
        self._wakes, self._wake = os.pipe()
        self.is_over = False
        self.read_at: tuple[int, ...] = ()
        """The pipes at which its client reads."""
        self._waiting: dict[int, bytes] = {}
        """Pipe to the beginning of a line."""

    def start(self) -> None:
        """Answer from now on."""
        # Outside the run, whose threads are waited for, and wait for their turn.
        start_raw_thread(self._serve, ())

    def is_busy(self) -> bool:
        """Return whether a line waits for its answer, or its process ends."""
        return self._lock.locked() or (not self.is_over and _is_readable(self._reads))

    def settle(self) -> None:
        """Wait until nothing waits for an answer: a client that asks at once would see chance."""
        while self.is_busy():
            _pause()

    def _serve(self) -> None:
        while True:
            ready, _, _ = select.select([self._reads, self._wakes], [], [])
            if self._wakes in ready:
                break
            with self._lock:
                lines = self._lines(self._reads)
                try:
                    for line in lines or ():
                        _write(self._writes, self._server.answer(line) or b"")
                        self._server.outlast(partial(_write, self._writes))
                except ServerEnded as end:
                    _write(self._lifeline, str(end).encode())
                    lines = None
                if lines is None:
                    self._end()
                    break
        with self._lock:
            self._end()
            os.close(self._wakes)

    def _lines(self, pipe: int) -> list[bytes] | None:
        """Read the whole lines that a pipe has now; None at its end."""
        data = os.read(pipe, _READ)
        *lines, self._waiting[pipe] = (self._waiting.get(pipe, b"") + data).split(b"\n")
        return [line for line in lines if line.strip()] if data else None

    def _end(self) -> None:
        """Close the pipes, and let the process end; wait for that, but not for ever."""
        if self.is_over:
            return
        for each in (self._reads, self._writes, self._lifeline):
            os.close(each)
        self._ended()
        self.is_over = True

    def _ended(self) -> str:
        """Wait until the process has ended, but not for ever; return how it did."""
        until, code = time.perf_counter() + _ENDS_S, self._process.returncode
        while code is None and time.perf_counter() < until:
            with suppress(ChildProcessError):  # Somebody else has waited for it, and will say so.
                if end := os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    code = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
                    break
            _pause()
            code = self._process.returncode
        if code is None:
            return "an unknown exit code"
        return f"exit code {code}" if code >= 0 else f"signal {-code}"

    def close(self) -> None:
        """End the thread, and the process."""
        with suppress(OSError):
            os.close(self._wake)


class _Relay(_Connection):
    """A real server that runs: what its client says goes to it, and back, through here."""

    def __init__(self, server: Answering, client: _Pipes, child: _Pipes, process: _Process) -> None:
        """``client`` and ``child`` are the pipes for input, output and errors on either side."""
        super().__init__(server, client[0], client[1], child[0], process)
        self._client_errors, (_, self._from_child, self._errors) = client[2], child
        self._last = b""
        self._is_ending = False

    def is_busy(self) -> bool:
        """Return whether somebody waits for an answer, or the process ends."""
        if self.is_over:
            return self._lock.locked()
        return super().is_busy() or self._server.is_asked or self._is_ending

    def _serve(self) -> None:
        open_pipes = {self._reads, self._wakes, self._from_child, self._errors}
        silence, patience_s, kills = "", None, [signal.SIGKILL, signal.SIGTERM]
        while self._from_child in open_pipes:
            waits = patience_s is None and self._server.is_asked
            ready, _, _ = select.select([*open_pipes], [], [], PATIENCE_S if waits else patience_s)
            with self._lock:
                if not ready and waits:
                    silence = f"no answer for {PATIENCE_S:g} s, "
                    os.kill(self.pid, signal.SIGKILL)
                    open_pipes.clear()  # A child of its own may hold them open.
                elif not ready:  # It does not end with its input: its client has to end it.
                    self.is_over = True
                    patience_s = _ENDS_S if self._wakes not in open_pipes and kills else None
                    if patience_s is not None:
                        os.kill(self.pid, kills.pop())
                for pipe in ready:
                    if not self._take(pipe):
                        open_pipes.discard(pipe)
                        if pipe in (self._reads, self._wakes) and not self._is_ending:
                            self._is_ending, patience_s = True, _REAL_ENDS_S
                            os.close(self._lifeline)
        self._finish(silence, open_pipes)

    def _finish(self, silence: str, open_pipes: set[int]) -> None:
        """Read the last errors, tell how the process has ended, and close the pipes."""
        with self._lock:
            while self._errors in open_pipes and self._take(self._errors):
                pass
            if not self._is_ending:
                os.close(self._lifeline)
            self._server.end(silence + self._ended(), self._last.decode(errors="replace").strip())
            self.is_over = True
            for each in (
                *(self._reads, self._writes, self._from_child, self._errors),
                *(self._client_errors, self._wakes),
            ):
                os.close(each)

    def _take(self, pipe: int) -> bool:
        """Pass on what a pipe has; return False at its end."""
        if pipe == self._wakes:
            return False
        if pipe == self._errors:
            data = os.read(pipe, _READ)
            _write(self._client_errors, data)
            self._last = (self._last + data)[-_LAST:]
            return bool(data)
        lines = self._lines(pipe)
        for line in lines or ():
            if pipe == self._from_child:
                observed = self._server.observe(line)
                _write(self._writes, line + b"\n" if observed.is_for_client else b"")
                _write(self._lifeline, b"".join(each + b"\n" for each in observed.nexts))
            elif (answer := self._server.answer(line)) is not None:
                _write(self._writes, answer)
            else:
                _write(self._lifeline, line + b"\n")
        return lines is not None


def _write(pipe: int, data: bytes) -> None:
    """Write all data; nothing if the other side has closed."""
    with suppress(OSError):
        while data:
            data = data[os.write(pipe, data) :]


def _pause() -> None:
    """Let a millisecond pass, of real time."""
    select.select([], [], [], 0.001)


def _is_readable(pipe: int) -> bool:
    try:
        return bool(select.select([pipe], [], [], 0)[0])
    except OSError:  # It has been closed meanwhile.
        return False


class StdioServers:
    """The servers that one run starts."""

    def __init__(self, started_by: Callable[[Sequence[str]], Answering | None]) -> None:
        """``started_by`` returns the server that a command line starts; None for others."""
        self.started_by = started_by
        self.connections: list[_Connection] = []

    def are_busy(self) -> bool:
        """Return whether one of them has something to answer."""
        return any(connection.is_busy() for connection in self.connections)

    def pipes(self) -> list[int]:
        """Return the pipes at which their clients read."""
        open_ones = (each for each in self.connections if not each.is_over)
        return [pipe for connection in open_ones for pipe in connection.read_at]

    def close(self) -> None:
        """End all of them."""
        for connection in self.connections:
            connection.close()


_servers: Final = contextvars.ContextVar[StdioServers | None]("simkit_stdio", default=None)


def stdio_servers_of_run(servers: StdioServers | None) -> Inside[StdioServers]:
    """Let processes that are started in this context be the scenario's servers."""
    return Inside(_servers, servers)


def scripted_server(words: Any) -> Answering | None:
    """Return the server of the scenario that a command starts; None for others."""
    servers = _servers.get()
    if servers is None:
        return None
    command = [words] if isinstance(words, (str, bytes, os.PathLike)) else [*words]
    return servers.started_by([os.fsdecode(word) for word in command])


_SHELL: Final = 8
_PIPES: Final = slice(9, 15)
_ENV: Final = 5
"""The indices of ``shell``, the pipes and ``env`` among the arguments of `Popen._execute_child`."""


def _execute_child(before: Replacement) -> Replacement:
    """Replace `Popen._execute_child` of CPython 3.11 to 3.14, where all ways to a process meet."""

    def _execute_child(self: _Process, words: Any, *rest: Any) -> None:
        servers, server = _servers.get(), scripted_server(words)
        stdin, _, _, stdout, *_ = rest[_PIPES]
        if servers is None or server is None or stdin == -1 or stdout == -1:
            before(self, words, *rest)
            return
        # Outside the run: the process is no effect of its code.
        connection = contextvars.Context().run(_started, before, server, self, words, rest)
        if connection is not None:
            connection.read_at = rest[_PIPES][2], rest[_PIPES][4]
            servers.connections.append(connection)
            connection.start()

    return _execute_child


def _started(
    before: Replacement, server: Answering, process: _Process, words: Any, rest: Any
) -> _Connection | None:
    """Start a server, or the small process in its place, with pipes that lead here.

    Return None for a declared one that fails at its start.
    """
    stdin, stdin_of_client, stdout_of_client, stdout, errors_of_client, errors = rest[_PIPES]
    (gets, to_child), (from_child, says), (child_errors, warns) = (os.pipe() for _ in range(3))
    mine = to_child, from_child, child_errors
    environment = os.environ if rest[_ENV] is None else rest[_ENV]
    replaced = [*rest]
    replaced[_ENV] = {"PYTHONHASHSEED": "0", **environment}
    if not server.is_real:
        # The program is Python, with nothing done before, in this folder.
        words = [sys.executable, "-I", "-S", "-c", _CHILD]
        replaced = [None, None, rest[2], (), None, *rest[5:]]
        replaced[_SHELL] = False
    last = warns if server.is_real else errors
    replaced[_PIPES] = gets, stdin_of_client, stdout_of_client, says, errors_of_client, last
    try:
        before(process, words, *replaced)
        client = os.dup(stdin), os.dup(stdout), os.dup(2 if errors == -1 else errors)
        if server.is_real:
            return _Relay(server, client, mine, process)
        _close_all(client[2], *mine[1:])
        if not server.fails:
            return _Connection(server, *client[:2], to_child, process)
        _write(to_child, server.fails.encode())
        _close_all(to_child, *client[:2])
        return None
    except BaseException:
        _close_all(*mine)
        raise
    finally:
        # Python closes the child's ends only where it has made the pipes.
        _close_all(
            gets if stdin_of_client == -1 else stdin,
            says if stdout_of_client == -1 else stdout,
            errors if server.is_real and errors_of_client != -1 else warns,
        )


def _asking(before: Replacement) -> Replacement:
    """Replace a way to ask whether a process has ended."""

    def ask(self: _Process, *args: Any, **kwargs: Any) -> Any:
        servers = _servers.get()
        for connection in servers.connections if servers is not None else ():
            if connection.pid == self.pid:
                connection.settle()
        return before(self, *args, **kwargs)

    return ask


def _close_all(*descriptors: int) -> None:
    for each in descriptors:
        with suppress(OSError):
            os.close(each)


def _rows() -> tuple[Row, ...]:
    if sys.platform == "win32":
        return ()
    start, *questions = compat.process_slots()
    return ((*start, _execute_child), *((*slot, _asking) for slot in questions))


watching_stdio: Final = Installation(_rows)
"""A context manager that lets processes be servers of scenarios."""
