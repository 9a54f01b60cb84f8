from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from simkit.capture.http.guards import Guard
from simkit.capture.http.interception import intercepting
from simkit.capture.http.request_router import Forward, passing_through
from simkit.core.errors import NetworkRefused, RunHalted
from tests.capture.http.conftest import Server
from tests.capture.http.gates import Always

GATE = Always(Forward(None))


def connect(host: str, port: int) -> str:
    """Who is there; closes at once."""
    with socket.create_connection((host, port)) as door:
        return str(door.getpeername()[0])


async def connect_async(host: str, port: int) -> str:
    _, writer = await asyncio.open_connection(host, port)
    peer = str(writer.get_extra_info("peername")[0])
    writer.close()
    await writer.wait_closed()
    return peer


EVERY_WAY: list[Callable[[str, int], Any]] = [
    connect,
    lambda host, port: asyncio.run(connect_async(host, port)),
]


@pytest.fixture
def in_run() -> Iterator[None]:
    with intercepting(), passing_through(GATE):
        yield


@pytest.mark.usefixtures("in_run")
def test_connection_halts_the_run_naming_host_and_stack() -> None:
    def fetch() -> None:
        try:
            connect("example.com", 443)
        except Exception:  # as code that takes it for an outage would
            pytest.fail("the pipeline caught it")

    with pytest.raises(RunHalted) as raised:
        fetch()

    refusal = raised.value.cause
    assert isinstance(refusal, NetworkRefused)
    assert (refusal.host, refusal.port) == ("example.com", 443)
    first, at, then, *_, advice = str(refusal).splitlines()
    assert first == ("the pipeline reached for the network, example.com:443, which is refused.")
    assert at.startswith("  at tests/capture/http/test_connections.py:")
    assert at.endswith(" in connect")
    assert then.endswith(".<locals>.fetch")
    assert advice == (
        "Stub the tool that needs it with `tool_results`, or list it in `allow_hosts`."
    )


@pytest.mark.usefixtures("in_run")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
@pytest.mark.parametrize("way", EVERY_WAY, ids=["blocking", "asyncio"])
def test_loopback_is_refused_too(way: Callable[[str, int], Any], host: str) -> None:
    with pytest.raises(RunHalted) as raised:
        way(host, 9)

    assert isinstance(raised.value.cause, NetworkRefused)
    assert (raised.value.cause.host, raised.value.cause.port) == (host, 9)


@pytest.mark.usefixtures("in_run")
def test_unix_socket_is_refused() -> None:
    with (
        socket.socket(socket.AF_UNIX) as door,
        pytest.raises(RunHalted, match="reached for the network, a unix socket, which"),
    ):
        door.connect("/nowhere.sock")


@pytest.mark.parametrize("way", EVERY_WAY, ids=["blocking", "asyncio"])
@pytest.mark.parametrize("rule", ["127.0.0.1", "127.0.0.1:PORT"])
def test_allowed_host_is_reached(way: Callable[[str, int], str], rule: str, server: Server) -> None:
    port = int(server.url.rpartition(":")[2])
    with intercepting(), passing_through(GATE, [rule.replace("PORT", str(port))]):
        assert way("127.0.0.1", port) == "127.0.0.1"


@pytest.mark.parametrize("way", EVERY_WAY, ids=["blocking", "asyncio"])
def test_allowed_name_is_reached_at_its_address(
    way: Callable[[str, int], str], server: Server
) -> None:
    port = int(server.url.rpartition(":")[2])
    with intercepting(), passing_through(GATE, ["localhost"]):
        assert way("localhost", port) == "127.0.0.1"


def test_thread_without_context_is_refused_what_one_of_the_runs_refuses(server: Server) -> None:
    port = int(server.url.rpartition(":")[2])
    values: list[object] = []

    def connect_elsewhere() -> None:
        try:
            values.append(connect("127.0.0.1", port))
        except RunHalted as halted:
            values.append(type(halted.cause))

    def in_thread() -> None:
        thread = threading.Thread(target=connect_elsewhere)
        thread.start()
        thread.join()

    with intercepting(), passing_through(GATE, ["127.0.0.1"]):
        in_thread()
        with passing_through(GATE):
            in_thread()
    in_thread()

    assert values == ["127.0.0.1", NetworkRefused, "127.0.0.1"]


def test_guarded_function_in_a_run_halts_it() -> None:
    texts: list[str] = []
    with (
        intercepting(),
        passing_through(GATE),
        Guard(lambda effect, where: texts.append(effect)),
        pytest.raises(RunHalted) as raised,
    ):
        connect("example.com", 443)

    assert str(raised.value.cause) == (
        "a user's function reached for the network, example.com:443, which is refused. "
        "Stub the tool with `tool_results`, or pass the data in."
    )
    assert texts == ["network"]


def test_guard_allows_what_it_is_told_to(server: Server) -> None:
    port = int(server.url.rpartition(":")[2])
    texts: list[str] = []
    with Guard(lambda effect, where: texts.append(effect), allow_hosts=["127.0.0.1"]):
        assert connect("127.0.0.1", port) == "127.0.0.1"
        with pytest.raises(NetworkRefused):
            connect("example.com", 443)

    assert texts == ["network"]


@pytest.mark.usefixtures("in_run")
def test_event_loops_work_as_ever() -> None:
    async def work() -> list[object]:
        loop = asyncio.get_running_loop()
        process = await asyncio.create_subprocess_exec("true")
        return [
            await loop.run_in_executor(None, str, "thread"),
            await process.wait(),
            await asyncio.wait_for(asyncio.sleep(0, "slept"), 1),
        ]

    left, right = socket.socketpair()
    with left, right:
        left.sendall(b"pair")
        assert right.recv(4) == b"pair"
    assert asyncio.run(work()) == ["thread", 0, "slept"]
