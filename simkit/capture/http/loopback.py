"""A small HTTP server on the loopback interface, answered by a handler.

h11 does the framing. An answer is sent piece by piece; a planned cut or silence happens on the
connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import ipaddress
import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import IO, Any, Final
from urllib.parse import urlsplit

import msgspec

from simkit.capture.http.processes import HOST
from simkit.capture.http.request_router import Decision, Forward, Owner, owned_by
from simkit.core.errors import ProgramFailed, ScriptBroken, Unsupported
from simkit.core.requirements import install_command
from simkit.providers.http import Headers, HttpRequest, HttpResponse, NoResponse

try:
    import h11
except ModuleNotFoundError:  # An extra: code without a server imports this module, too.
    h11 = None  # type: ignore[assignment]

BODY_MAX: Final = 256 * 1024 * 1024
"""Bytes of a request; a larger one is refused with status 413."""
_READ: Final = 65_536
_LINGER_S: Final = 2.0
"""How long a refused client may go on sending before the connection is cut."""
_JSON: Final = (("content-type", "application/json"),)

Handle = Callable[[HttpRequest], Decision | Awaitable[Decision]]
"""Decides at once, or later; other connections are served meanwhile."""


class _Refused(Exception):
    """A request that is refused before the handler: ``args`` are status and problem."""


class Loopback:
    """The running server, with its address."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._connections: set[asyncio.Task[None]] = set()
        self.url = ""
        """``http://127.0.0.1:49152``."""
        self.problem: Exception | None = None
        """The first exception of the handler; None if there is none."""

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await _Connection(self._decided, reader, writer).run()
        except asyncio.CancelledError:
            writer.transport.abort()  # The server stops: nobody reads the rest.
        except (OSError, h11.ProtocolError):
            pass  # The client has closed.
        finally:
            self._connections.discard(task)
            writer.close()

    async def _decided(self, request: HttpRequest) -> Decision:
        try:
            decision = self._handle(request)
            return await decision if inspect.isawaitable(decision) else decision
        except Exception as problem:
            self.problem = self.problem or problem
            raise _Refused(500, f"simkit failed: {type(problem).__name__}: {problem}") from problem

    async def close(self) -> None:
        """Close every connection, idle or not."""
        for task in (tasks := list(self._connections)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def listening(handle: Handle, port: int = 0) -> AsyncIterator[Loopback]:
    """Serve with ``handle`` until the context is left; port 0 takes any free one. Raise OSError.

    Raise Unsupported without h11.
    """
    if h11 is None:
        raise Unsupported(f"programs need an HTTP server: {install_command('serve')}")
    loopback = Loopback(handle)
    server = await asyncio.start_server(loopback.connected, HOST, port)
    loopback.url = "http://{}:{}".format(*server.sockets[0].getsockname()[:2])
    try:
        yield loopback
    finally:
        server.close()
        await loopback.close()
        await server.wait_closed()


class _Connection:
    """One client's connection, request after request."""

    def __init__(
        self,
        handle: Callable[[HttpRequest], Awaitable[Decision]],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._handle, self._reader, self._writer = handle, reader, writer
        self._http = h11.Connection(h11.SERVER)

    async def run(self) -> None:
        """Serve until the client, or an answer, ends the connection."""
        while True:
            try:
                request = await self._request()
                if request is None:
                    return
                goes_on = await self._answer(request.method, await self._handle(request))
            except _Refused as refused:
                await self._refuse(*refused.args)
                return
            except h11.RemoteProtocolError as problem:
                why = str(problem).partition(": bytearray")[0]
                await self._refuse(problem.error_status_hint, f"no HTTP request: {why}")
                return
            if not goes_on or self._http.our_state is h11.MUST_CLOSE:
                return
            self._http.start_next_cycle()

    async def _request(self) -> HttpRequest | None:
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._send(h11.InformationalResponse(status_code=100, headers=[]))
                self._http.receive_data(await self._reader.read(_READ))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > BODY_MAX:
                    raise _Refused(413, f"a request has at most {BODY_MAX} bytes")
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                return _request_of(head, bytes(body))
            else:
                return None

    async def _answer(self, method: str, decision: Decision) -> bool:
        """Send an answer; return whether the connection stays open."""
        assert not isinstance(decision, Forward), "a loopback server forwards nothing"
        if isinstance(decision, NoResponse):
            if decision.kind == "timeout":
                await self._say_nothing()
            else:
                self._writer.transport.abort()
            return False
        is_whole = len(decision.chunks) < 2 and not decision.ends and not any(decision.waits_ms)
        framing = ("content-length", str(len(decision.body)))
        if not is_whole:
            framing = ("transfer-encoding", "chunked")
        head = h11.Response(status_code=decision.status, headers=[*decision.headers, framing])
        if is_whole:
            body = b"" if method == "HEAD" else decision.body
            await self._send(head, h11.Data(data=body), h11.EndOfMessage())
            return True
        await self._send(head)
        if method != "HEAD":
            await self._stream(decision)
        if decision.ends == "timeout":
            await self._say_nothing()
        if decision.ends:
            return False
        await self._send(h11.EndOfMessage())
        return True

    async def _stream(self, response: HttpResponse) -> None:
        for wait_ms, chunk in response.timed_chunks:
            if wait_ms:
                await asyncio.sleep(wait_ms / 1_000)
            if chunk:
                await self._send(h11.Data(data=chunk))

    async def _send(self, *events: Any) -> None:
        self._writer.write(b"".join(self._http.send(event) or b"" for event in events))
        await self._writer.drain()

    async def _refuse(self, status: int, problem: str) -> None:
        """Send an error about a request, and let the client read it."""
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        body = refusal(problem)
        headers = [*_JSON, ("content-length", str(len(body))), ("connection", "close")]
        await self._send(
            h11.Response(status_code=status, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        self._writer.write_eof()
        # Closing with unread bytes resets the connection, and the client loses the answer.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                await self._say_nothing()

    async def _say_nothing(self) -> None:
        """Read on until the client gives up."""
        while await self._reader.read(_READ):
            pass


def refusal(problem: str) -> bytes:
    """Return the body of a refusal; every provider's client finds the message in it."""
    return msgspec.json.encode({"error": {"type": "simkit", "message": problem}})


def _refuse_strangers(headers: Headers) -> None:
    """Raise _Refused for a page of another site, also under a name that leads to this machine."""
    for name, value in headers:
        if name in ("host", "origin") and not _is_of_this_machine(value):
            problem = f"the request's {name} is {value!r}, and only this machine is answered"
            raise _Refused(403, f"{problem}: send it to http://{HOST}")


def _is_of_this_machine(value: str) -> bool:
    host = ""
    try:
        host = urlsplit(value if "//" in value else f"//{value}").hostname or ""
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        # Names without a dot and below these have no owner on the internet.
        is_name = "." not in host or host.endswith((".localhost", ".internal"))
        return bool(host) and host != "null" and is_name


def _request_of(head: h11.Request, body: bytes) -> HttpRequest:
    headers: Headers = tuple(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers
    )
    target = head.target.decode("latin-1")
    if not target.startswith(("http://", "https://")):
        _refuse_strangers(headers)
        host = next((value for name, value in headers if name == "host"), HOST)
        target = f"http://{host}{target}"
    return HttpRequest(head.method.decode("latin-1"), target, headers, body)


# Programs: a process, and the loopback server that answers its requests.
#
# The program's requests wait until the scenario takes them, one at a time and in the order in which
# they came. Server and program are outside all scenarios' contexts: clocks and sockets are real
# there.


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
        self, command: Sequence[str], folder: str, environment: Callable[[str], Mapping[str, str]]
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
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with listening(self._wait_for_answer) as loopback:
                self._ready.put(loopback.url)
                await self._over.wait()
        except Unsupported as problem:
            self._ready.put(problem)

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
