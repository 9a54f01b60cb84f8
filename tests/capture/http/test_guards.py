from __future__ import annotations

import _thread
import asyncio
import contextvars
import dataclasses
import datetime
import logging
import os
import pickle
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
from _thread import start_new_thread as start_by_name
from asyncio import sleep as nap_by_name
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep as sleep_by_name
from time import time as time_by_name
from types import ModuleType
from typing import Any
from uuid import uuid4

import pytest

from simkit.capture.http.guards import Guard
from simkit.core.errors import NetworkRefused


def effects_of(function: Callable[[], Any]) -> list[str]:
    """The names of the effects that the function is reported for, in order."""
    texts: list[str] = []
    with Guard(lambda effect, where: texts.append(effect)):
        function()
    return texts


@dataclasses.dataclass
class Ticket:
    number: uuid.UUID = dataclasses.field(default_factory=uuid4)


def library(code: str) -> ModuleType:
    """A module that pretends to be installed."""
    module = ModuleType("somelibrary.api")
    file = str(Path(os.__file__).parent / "site-packages" / "somelibrary" / "api.py")
    exec(compile(code, file, "exec"), vars(module))
    return module


@pytest.mark.parametrize(
    ("function", "effect"),
    [
        (lambda: os.system(""), "process"),
        (lambda: sleep_by_name(0.001), "sleep"),
        (lambda: subprocess.run([sys.executable, "-c", ""], check=True), "process"),
    ],
)
def test_effect_of_user_code_is_reported(function: Callable[[], Any], effect: str) -> None:
    assert effects_of(function) == [effect]


@pytest.mark.parametrize(
    "function",
    [
        lambda: (time.time(), datetime.datetime.now(tz=datetime.UTC), time_by_name(), Ticket()),
        lambda: (random.random(), random.Random(), secrets.token_hex(), os.urandom(4)),
        lambda: logging.getLogger("quiet").warning("the library reads the clock"),
        lambda: asyncio.run(asyncio.sleep(0)),
        lambda: threading.Lock().acquire(),
    ],
    ids=["clocks", "chance", "logging", "asyncio", "a lock"],
)
def test_what_reaches_nothing_outside_is_not_reported(function: Callable[[], Any]) -> None:
    assert effects_of(function) == []


def test_place_is_the_users_line_wherever_that_is_run_from(monkeypatch: pytest.MonkeyPatch) -> None:
    def now() -> int:
        return os.system("")

    line = now.__code__.co_firstlineno + 1
    name = "test_place_is_the_users_line_wherever_that_is_run_from.<locals>.now"
    pairs: list[tuple[str, str]] = []
    monkeypatch.chdir(Path(__file__).parents[2])
    with Guard(lambda *effect: pairs.append(effect)):
        now()
    monkeypatch.chdir(Path(os.__file__).parent)
    with Guard(lambda *effect: pairs.append(effect)):
        now()

    assert pairs == [
        ("process", f"tests/capture/http/test_guards.py:{line} in {name}"),
        ("process", f"tests/capture/http/test_guards.py:{line} in {name}"),
    ]


def test_each_line_is_reported_once_a_guard() -> None:
    def twice() -> None:
        for _ in range(2):
            os.system("")
        os.system("")

    assert effects_of(twice) == ["process", "process"]


def test_time_and_chance_are_real() -> None:
    before = time.time()
    random.seed(7)
    expected = random.random()
    random.seed(7)

    with Guard(lambda effect, where: None):
        assert time.time() >= before
        assert random.random() == expected


def test_installed_code_is_user_code_where_the_function_is_at_home() -> None:
    installed = library("import os\ndef now(): return os.system('')")
    pairs: list[tuple[str, str]] = []

    for home in ("somelibrary", "some"):
        with Guard(lambda *effect: pairs.append(effect), home=home, trusts_libraries=True):
            installed.now()

    assert pairs == [("process", "somelibrary/api.py:2 in now")]


def test_sleeping_takes_no_time_whoever_sleeps() -> None:
    installed = library("import time\ndef retry(): time.sleep(3600)")

    async def naps() -> None:
        await asyncio.sleep(3600)
        await nap_by_name(3600)

    def sleepy() -> None:
        time.sleep(3600)
        sleep_by_name(3600)
        installed.retry()
        asyncio.run(naps())

    started = time.monotonic()
    effects = effects_of(sleepy)

    assert effects == ["sleep"] * 5
    assert time.monotonic() - started < 60


def test_a_sleep_by_name_is_heard_of_in_trusted_code_and_no_effect() -> None:
    slept: list[float] = []
    pairs: list[tuple[str, str]] = []

    with Guard(lambda *effect: pairs.append(effect), slept=slept.append, trusts_libraries=True):
        sleep_by_name(1.5)
        asyncio.run(nap_by_name(2))

    assert (slept, pairs) == ([1.5, 2], [])


@pytest.mark.parametrize("seconds", [-1, float("nan"), "long", None])
def test_a_sleep_of_no_duration_raises_what_it_always_does(seconds: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as real:
        time.sleep(seconds)

    with (
        Guard(lambda *effect: None, slept=lambda seconds: None),
        pytest.raises((TypeError, ValueError)) as raised,
    ):
        time.sleep(seconds)

    assert repr(raised.value) == repr(real.value)


def refused(function: Callable[[], Any]) -> tuple[str, list[str]]:
    """The refusal's text, and the effects reported."""
    texts: list[str] = []
    with Guard(lambda effect, where: texts.append(effect)), pytest.raises(NetworkRefused) as no:
        function()
    return str(no.value), texts


def connect(address: tuple[str, int], how: str = "connect") -> None:
    with socket.socket() as door:
        getattr(door, how)(address)


async def open_connection(host: str, port: int) -> None:
    await asyncio.open_connection(host, port)


async def sock_connect(host: str, port: int) -> None:
    with socket.socket() as door:
        door.setblocking(False)
        await asyncio.get_running_loop().sock_connect(door, (host, port))


def send_datagram(host: str, port: int) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as door:
        door.sendto(b"x", (host, port))


@pytest.mark.parametrize(
    ("function", "output"),
    [
        (lambda: connect(("192.0.2.1", 443)), "192.0.2.1:443"),
        (lambda: connect(("127.0.0.1", 9), "connect_ex"), "127.0.0.1:9"),
        (lambda: socket.create_connection(("example.com", 443)), "example.com:443"),
        (lambda: socket.gethostbyname("example.com"), "example.com"),
        (lambda: send_datagram("127.0.0.1", 9), "127.0.0.1:9"),
        (lambda: asyncio.run(open_connection("example.com", 80)), "example.com:80"),
        (lambda: asyncio.run(sock_connect("127.0.0.1", 9)), "127.0.0.1:9"),
    ],
)
def test_network_is_refused_naming_host_and_port(function: Callable[[], Any], output: str) -> None:
    assert refused(function) == (
        f"a user's function reached for the network, {output}, which is refused. "
        "Stub the tool with `tool_results`, or pass the data in.",
        ["network"],
    )


def test_network_is_refused_where_a_library_connects() -> None:
    installed = library(
        "import socket\ndef fetch(): return socket.create_connection(('example.com', 80))"
    )

    assert refused(lambda: installed.fetch())[1] == ["network"]


def test_refusal_survives_pickle() -> None:
    refusal = pickle.loads(pickle.dumps(NetworkRefused("no", "example.com", 443)))

    assert (str(refusal), refusal.host, refusal.port) == ("no", "example.com", 443)


def test_thread_is_reported_and_what_it_does_is_guarded() -> None:
    def in_thread() -> None:
        with ThreadPoolExecutor() as pool:
            pool.submit(time.sleep, 3600).result()
            pool.submit(connect, ("127.0.0.1", 9)).result()

    assert refused(in_thread)[1] == ["thread"]


def test_guard_acts_in_its_own_thread_only() -> None:
    texts: list[str] = []
    entered, event = threading.Event(), threading.Event()

    def run_elsewhere() -> None:
        entered.wait()
        with socket.create_server(("127.0.0.1", 0)) as server:
            connect(server.getsockname())
        time.sleep(0.001)
        time.time()
        event.set()

    other = threading.Thread(target=run_elsewhere)
    other.start()
    with Guard(lambda effect, where: texts.append(effect)):
        entered.set()
        event.wait()
    other.join()

    assert texts == []


def test_guards_may_be_nested_and_the_inner_one_hears() -> None:
    outer: list[str] = []
    inner: list[str] = []

    with Guard(lambda effect, where: outer.append(effect)):
        with Guard(lambda effect, where: inner.append(effect)):
            time.sleep(3600)
            os.system("")
        os.system("")

    assert (outer, inner) == (["process"], ["sleep", "process"])


def test_guards_of_tasks_that_overlap_hear_their_own() -> None:
    texts_by_name: dict[str, list[str]] = {"a": [], "b": []}

    async def task(name: str, effect: Callable[[], Any]) -> None:
        with Guard(lambda effect, where: texts_by_name[name].append(effect)):
            await asyncio.sleep(0)
            effect()
            await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(task("a", lambda: time.sleep(1)), task("b", lambda: os.system("")))

    asyncio.run(both())

    assert texts_by_name == {"a": ["sleep"], "b": ["process"]}


def replaceable() -> list[Any]:
    """Everything that a guard replaces, as it is now."""
    return [
        *(repr(time.sleep), asyncio.sleep.__code__, threading.Thread.start),
        *(socket.getaddrinfo, socket.gethostbyname, dict(vars(socket.socket))),
        asyncio.BaseEventLoop.create_connection,
    ]


def test_everything_is_put_back_even_after_an_error() -> None:
    before = replaceable()
    inside: list[list[Any]] = []

    def broken() -> None:
        with Guard(lambda effect, where: None), Guard(lambda effect, where: None):
            inside.append(replaceable())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()

    assert replaceable() == before
    assert all(new != old for new, old in zip(inside[0], before, strict=True))


@pytest.mark.parametrize("trusts_libraries", [False, True])
def test_no_call_of_user_code_costs_more(trusts_libraries: bool) -> None:
    """Profilers and tracers slow every call down, and a thread has room for one only."""
    before = sys.getprofile(), sys.gettrace()

    with Guard(lambda effect, where: None, trusts_libraries=trusts_libraries):
        inside = sys.getprofile(), sys.gettrace()

    assert inside == before


def test_thread_without_an_object_is_reported_where_it_is_started() -> None:
    pairs: list[tuple[str, str]] = []
    event = threading.Event()

    def begin() -> None:
        _thread.start_new_thread(event.set, ())

    line = begin.__code__.co_firstlineno + 1
    with Guard(lambda *effect: pairs.append(effect)):
        begin()
    event.wait()

    name = "test_thread_without_an_object_is_reported_where_it_is_started"
    where = f"tests/capture/http/test_guards.py:{line} in {name}.<locals>.begin"
    assert pairs == [("thread", where)]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.11 does not tell of raw threads")
def test_thread_without_an_object_is_reported_under_the_name_it_was_imported_by() -> None:
    texts: list[str] = []
    event = threading.Event()

    with Guard(lambda effect, where: texts.append(effect), trusts_libraries=True):
        start_by_name(event.set, ())
        threading.Thread(target=int).start()  # A thread with an object takes turns.
    event.wait()

    assert texts == ["thread"]


@pytest.mark.parametrize(("trusts_libraries", "effects"), [(False, ["process"]), (True, [])])
def test_process_of_a_library_counts_where_libraries_are_not_trusted(
    trusts_libraries: bool, effects: list[str]
) -> None:
    installed = library("import os\ndef probe(): return os.system('')")
    texts: list[str] = []

    with Guard(lambda effect, where: texts.append(effect), trusts_libraries=trusts_libraries):
        installed.probe()

    assert texts == effects


def test_report_may_raise_through_the_users_code() -> None:
    class Stop(Exception):
        pass

    def stop(effect: str, where: str) -> None:
        raise Stop

    with pytest.raises(Stop), Guard(stop):
        os.system("")


def test_task_that_outlives_its_guard_reports_nothing() -> None:
    texts: list[str] = []
    with Guard(lambda effect, where: texts.append(effect)):
        left = contextvars.copy_context()

    left.run(lambda: os.system(""))

    assert texts == []
