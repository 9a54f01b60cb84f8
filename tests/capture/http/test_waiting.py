from __future__ import annotations

import asyncio

import aiohttp
import httpx
import httpx2
import pytest
import requests

from simkit.capture.http.connections import shortened
from simkit.capture.http.guards import guarded
from simkit.providers.http import HttpResponse
from tests.capture.http.gates import EVENTS, answering

URL = "https://api.example.com/v1/things"
HOUR_MS = 3_600_000
SLOW = HttpResponse(200, EVENTS, (b"a", b"b"), waits_ms=(0, HOUR_MS))


@pytest.mark.parametrize(
    ("wait_ms", "timeout_s", "expected"),
    [(5, None, (0.005, True)), (5, 1.0, (0.005, True)), (5_000, 1.0, (1.0, False))],
)
def test_wait_ends_when_the_clients_patience_does(
    wait_ms: int, timeout_s: float | None, expected: tuple[float, bool]
) -> None:
    assert shortened(wait_ms, timeout_s) == expected


def test_hour_costs_nothing_inside_a_guard() -> None:
    async def by_aiohttp() -> bytes:
        timeout = aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(URL) as response,
        ):
            return await response.read()

    with answering(SLOW), guarded(lambda effect, where: None):
        assert httpx.get(URL, timeout=None, verify=False).content == b"ab"
        assert requests.get(URL).content == b"ab"
        assert asyncio.run(by_aiohttp()) == b"ab"


@pytest.mark.parametrize("timeout_s", [0.01, 60])
def test_client_that_would_not_wait_so_long_times_out(timeout_s: float) -> None:
    """Really after ten milliseconds; after a minute only inside the guard."""

    async def by_httpx2() -> bytes:
        async with httpx2.AsyncClient(timeout=timeout_s, verify=False) as client:
            return bytes((await client.get(URL)).content)

    async def by_aiohttp() -> bytes:
        timeout = aiohttp.ClientTimeout(sock_read=timeout_s)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(URL) as response,
        ):
            return await response.read()

    def check() -> None:
        with pytest.raises(httpx.ReadTimeout):
            httpx.get(URL, timeout=timeout_s, verify=False)
        with pytest.raises(httpx2.ReadTimeout):
            asyncio.run(by_httpx2())
        with pytest.raises(requests.ConnectionError, match="Read timed out"):
            requests.get(URL, timeout=timeout_s)
        with pytest.raises(aiohttp.SocketTimeoutError):
            asyncio.run(by_aiohttp())

    with answering(SLOW):
        if timeout_s == 60:
            with guarded(lambda effect, where: None):
                check()
        else:
            check()
