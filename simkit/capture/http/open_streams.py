"""Responses that stay open: a server says more when its client has said more elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import ClassVar, Final

from simkit.capture.http.request_router import Pauses
from simkit.core.context_values import LOCK
from simkit.providers.http import HttpResponse

_SILENCE_S: Final = 3_600.0
"""How long a client without a timeout waits for a server that never answers."""


class Feed:
    """The pieces of a response that stays open; any thread may push."""

    def __init__(self, pauses: Pauses) -> None:
        self._pauses = pauses
        self._chunks: list[bytes] = []
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self.is_over = False
        self.is_silent = False
        """Whether nothing follows, and the response does not end."""

    def push(self, *chunks: bytes, is_last: bool = False) -> None:
        """Add pieces, and end the response if they are the last ones."""
        with LOCK:
            self._chunks.extend(chunks)
            self.is_over = self.is_over or is_last
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            loop, future = waiting
            with suppress(RuntimeError):  # Its loop is closed.
                loop.call_soon_threadsafe(_end, future)

    def take(self) -> list[bytes]:
        """Return the pieces that are there now, once."""
        with LOCK:
            chunks, self._chunks = self._chunks, []
        return chunks

    async def pieces(self, timeout_s: float | None) -> AsyncIterator[bytes]:
        """Yield the pieces as they come; raise TimeoutError if the server is silent."""
        while True:
            for chunk in self.take():
                yield chunk
            if self.is_silent:
                await self._pauses.sleep_in_loop(timeout_s or _SILENCE_S)
                raise TimeoutError
            loop = asyncio.get_running_loop()
            future = loop.create_future()
            with LOCK:
                if self._chunks:
                    continue
                if self.is_over:
                    return
                self._waiting = loop, future
            await future


def _end(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class OpenResponse(HttpResponse, frozen=True, kw_only=True):
    """A response whose pieces come from a feed.

    A client that cannot wait for them, as code without an event loop, gets those that are there.
    """

    feed: Feed
    is_open: ClassVar[bool] = True

    @property
    def timed_chunks(self) -> Iterator[tuple[int, bytes]]:
        """Return the pieces that are there now."""
        return ((0, chunk) for chunk in self.feed.take())
