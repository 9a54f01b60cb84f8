"""Every way to send a request that a gate decides about, in one shape.

``verify=False``, because loading certificates takes longer than all the rest.
"""

from __future__ import annotations

import asyncio
import http.client
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import httpx
import httpx2
import requests
import urllib3

Pieces = list[bytes]
"""A body in the pieces in which it arrived."""

SENT_MESSAGES: Final = b'{"a": 1}'


def by_httpx(url: str, library: Any = httpx, most: int = 99) -> Pieces:
    with (
        library.Client(verify=False) as client,
        client.stream("POST", url, content=SENT_MESSAGES) as response,
    ):
        return first(most, response.iter_bytes())


def by_httpx2(url: str, most: int = 99) -> Pieces:
    return by_httpx(url, httpx2, most)


def by_requests(url: str, most: int = 99) -> Pieces:
    with (
        requests.Session() as session,
        session.post(url, data=SENT_MESSAGES, stream=True) as response,
    ):
        return first(most, response.iter_content(None))


def by_urllib3(url: str, most: int = 99) -> Pieces:
    with urllib3.PoolManager(retries=False) as pool:
        response = pool.request("POST", url, body=SENT_MESSAGES, preload_content=False)
        try:
            return first(most, response.stream())
        finally:
            response.close()


def by_urllib(url: str, most: int = 99) -> Pieces:
    with urllib.request.urlopen(url, data=SENT_MESSAGES) as response:
        return first(most, iter(response.read1, b""))


def by_http_client(url: str, most: int = 99) -> Pieces:
    address = urlsplit(url)
    is_safe = address.scheme == "https"
    connects = http.client.HTTPSConnection if is_safe else http.client.HTTPConnection
    connection = connects(address.netloc)
    try:
        connection.request("POST", address.path, SENT_MESSAGES)
        with connection.getresponse() as response:
            return first(most, iter(response.read1, b""))
    finally:
        connection.close()


async def by_httpx_async(url: str, library: Any = httpx, most: int = 99) -> Pieces:
    async with (
        library.AsyncClient(verify=False) as client,
        client.stream("POST", url, content=SENT_MESSAGES) as response,
    ):
        return await first_async(most, response.aiter_bytes())


async def by_httpx2_async(url: str, most: int = 99) -> Pieces:
    return await by_httpx_async(url, httpx2, most)


async def by_aiohttp(url: str, most: int = 99) -> Pieces:
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=SENT_MESSAGES) as response,
    ):
        return await first_async(most, response.content.iter_any())


def first(most: int, pieces: Iterator[bytes]) -> Pieces:
    return [piece for _, piece in zip(range(most), pieces, strict=False)]


async def first_async(most: int, pieces: AsyncIterator[bytes]) -> Pieces:
    result: Pieces = []
    async for piece in pieces:
        result.append(piece)
        if len(result) == most:
            break
    return result


def in_loop(by: Callable[..., Any]) -> Callable[..., Pieces]:
    """The same, from code that is not asynchronous."""

    def send(url: str, **options: Any) -> Pieces:
        pieces: Pieces = asyncio.run(by(url, **options))
        return pieces

    return send


BLOCKING: Final[dict[str, Callable[..., Pieces]]] = {
    "httpx": by_httpx,
    "httpx2": by_httpx2,
    "requests": by_requests,
    "urllib3": by_urllib3,
    "urllib": by_urllib,
    "http.client": by_http_client,
}
ASYNC: Final[dict[str, Callable[..., Any]]] = {
    "httpx async": by_httpx_async,
    "httpx2 async": by_httpx2_async,
    "aiohttp": by_aiohttp,
}
ALL: Final = {**BLOCKING, **{name: in_loop(by) for name, by in ASYNC.items()}}
"""Each client's name, and how it posts ``SENT``: returns at most ``most`` pieces of the body."""


@asynccontextmanager
async def shared(library: str) -> AsyncIterator[Callable[[str], Awaitable[bytes]]]:
    """How to post with one client that several sessions share."""
    if library == "aiohttp":
        async with aiohttp.ClientSession() as session:

            async def post(url: str) -> bytes:
                async with session.post(url, data=SENT_MESSAGES) as response:
                    return await response.read()

            yield post
    else:
        async with {"httpx": httpx, "httpx2": httpx2}[library].AsyncClient(verify=False) as client:

            async def post_httpx(url: str) -> bytes:
                body: bytes = (await client.post(url, content=SENT_MESSAGES)).content
                return body

            yield post_httpx
