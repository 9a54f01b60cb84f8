"""A small server on loopback, for what is forwarded."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Iterator

import pytest

from simkit.capture.http.refusals import late_refusals

ZIPPED = gzip.compress(b'{"a": 1}', mtime=0)


class Server:
    """Answers by path, on a thread of its own: /plain, /stream, /gzip, /cut, /rude."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.url = ""
        self.connections = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                fields = dict(
                    line.lower().split(b": ", 1) for line in head.strip().split(b"\r\n")[1:]
                )
                await reader.readexactly(int(fields.get(b"content-length", b"0")))
                path = head.split(b" ")[1].decode()
                await self.respond(path, writer)
                if path in ("/cut", "/rude"):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def respond(self, path: str, writer: asyncio.StreamWriter) -> None:
        if path == "/stream":
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            for number in range(3):
                await writer.drain()
                await asyncio.sleep(0.02)
                writer.write(b"9\r\ndata: %d\n\n\r\n" % number)
            writer.write(b"0\r\n\r\n")
        elif path == "/plain":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nplain")
        elif path == "/gzip":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n")
            writer.write(b"content-length: %d\r\n\r\n" % len(ZIPPED) + ZIPPED)
        elif path == "/cut":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc")
        elif path == "/rude":
            writer.write(b"HTTP/1.1 200 OK\r\n\r\nabc")
        await writer.drain()

    def run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.start())
        ready.set()
        self.loop.run_forever()
        self.turn_around()  # What is accepted begins: a closed server would leave it open.
        self.server.close()
        for writer in self.writers:
            writer.transport.abort()
        tasks = asyncio.all_tasks(self.loop)
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.turn_around()  # What is closed is told so.
        self.loop.close()

    def turn_around(self) -> None:
        """Let the loop do what it does in its next rounds."""
        for _ in range(4):
            self.loop.run_until_complete(asyncio.sleep(0))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server, ready = Server(), threading.Event()
    thread = threading.Thread(target=server.run, args=(ready,))
    thread.start()
    ready.wait()
    yield server
    server.loop.call_soon_threadsafe(server.loop.stop)
    thread.join()


@pytest.fixture(autouse=True)
def take_refusals() -> Iterator[None]:
    """Takes what the gates of a test refuse: no run is there that would."""
    yield
    late_refusals()
