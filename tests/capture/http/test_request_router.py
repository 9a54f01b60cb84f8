from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import aiohttp
import httpx
import httpx2
import pytest
import requests

from simkit.capture.http.connections import shortened
from simkit.capture.http.guards import Guard
from simkit.capture.http.request_router import (
    AllowedHosts,
    Forward,
    RequestRouter,
    current_router,
    forwarding,
    leave,
    passing_through,
)
from simkit.core.errors import RunHalted
from simkit.providers.http import HttpRequest, HttpResponse
from tests.capture.http.gates import EVENTS, Always, answering

REQUEST = HttpRequest("GET", "https://api.example.com/x")


def gate() -> RequestRouter:
    return Always(Forward(None))


def test_inner_gate_holds_until_it_is_left() -> None:
    outer, inner = gate(), gate()
    gates = [current_router(REQUEST)]
    with passing_through(outer):
        gates.append(current_router(REQUEST))
        with passing_through(inner):
            gates.append(current_router(REQUEST))
        gates.append(current_router(REQUEST))
    gates.append(current_router(REQUEST))

    assert gates == [None, outer, inner, outer, None]


def test_forwarded_request_meets_no_gate() -> None:
    with passing_through(gate()), forwarding():
        assert current_router(REQUEST) is None


def test_context_that_left_belongs_to_the_only_gate_or_to_none() -> None:
    only = gate()
    with passing_through(only):
        context = contextvars.copy_context()
        context.run(leave)
        assert context.run(current_router, REQUEST) is only
        with passing_through(gate()), pytest.raises(RunHalted, match="none of the 2 scenarios"):
            context.run(current_router, REQUEST)


def test_worker_that_a_guarded_session_started_serves_another_session_by_no_wrong_gate() -> None:
    with ThreadPoolExecutor(1) as pool, passing_through(gate()):
        with Guard(lambda effect, where: None):
            pool.submit(bool).result()
        with passing_through(gate()), pytest.raises(RunHalted):
            pool.submit(current_router, REQUEST).result()


def test_thread_goes_through_the_gate_of_the_context_it_is_given() -> None:
    mine, other = gate(), gate()
    gates: list[RequestRouter | None] = []
    with passing_through(other), passing_through(mine):
        context = contextvars.copy_context()
        thread = threading.Thread(target=lambda: gates.append(context.run(current_router, REQUEST)))
        thread.start()
        thread.join()

    assert gates == [mine]


def test_what_is_no_host_is_refused_before_the_gate_opens() -> None:
    with pytest.raises(ValueError, match="is no host"), passing_through(gate(), ["a b*"]):
        pytest.fail("it opened")

    assert current_router(REQUEST) is None


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
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(URL) as response:
            return await response.read()

    with answering(SLOW), Guard(lambda effect, where: None):
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
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(URL) as response:
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
            with Guard(lambda effect, where: None):
                check()
        else:
            check()


@pytest.mark.parametrize(
    ("rule", "host", "port"),
    [
        ("example.com", "example.com", 443),
        ("Example.com", "EXAMPLE.com.", None),
        ("example.com:5432", "example.com", 5432),
        ("example.com:5432", "example.com", None),
        ("*.example.com", "db.eu.example.com", 1),
        ("127.0.0.1", "127.0.0.1", 8080),
        ("::1", "::1", 8080),
        ("[::1]:8080", "::1", 8080),
        ("/run/Database.sock", "/run/Database.sock", None),
    ],
)
def test_host_that_fits_a_rule_is_allowed(rule: str, host: str, port: int | None) -> None:
    assert AllowedHosts([rule]).allow(host, port)


@pytest.mark.parametrize(
    ("rule", "host", "port"),
    [
        ("example.com", "www.example.com", 443),
        ("example.com", "badexample.com", 443),
        ("*.example.com", "example.com", 443),
        ("*.example.com", "badexample.com", 443),
        ("example.com:5432", "example.com", 443),
        ("[::1]:8080", "::1", 443),
        ("localhost", "127.0.0.1", 80),
        ("/run/Database.sock", "/run/database.sock", None),
    ],
)
def test_host_that_fits_no_rule_is_not(rule: str, host: str, port: int | None) -> None:
    assert not AllowedHosts([rule]).allow(host, port)


def test_address_is_allowed_as_the_name_that_it_was_found_for() -> None:
    allowed = AllowedHosts(["db.example.com:5432"])
    allowed.learn("db.example.com", ["192.0.2.1"])

    assert allowed.allow("192.0.2.1", 5432)
    assert not allowed.allow("192.0.2.1", 443)
    assert not allowed.allow("192.0.2.2", 5432)


@pytest.mark.parametrize("rule", ["", "*", "*.", "a*.example.com", "example.com:https", ":80"])
def test_what_is_no_host_is_refused(rule: str) -> None:
    with pytest.raises(ValueError, match="is no host") as raised:
        AllowedHosts([rule])

    assert str(raised.value) == (
        f"`{rule}` is no host: write `example.com`, `*.example.com`, `example.com:5432`, or the "
        "path of a unix socket"
    )
