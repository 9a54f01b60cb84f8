"""Ways by which code reaches another process or the network, one function each."""

from __future__ import annotations

import _socket
import asyncio
import atexit
import contextlib
import ctypes
import http.client
import importlib
import multiprocessing.util
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

TRUE = [sys.executable, "-c", ""]
WHERE = ("127.0.0.1", 9)
URL = "http://127.0.0.1:9/"


def nothing(*_: object) -> None:
    """Is what a child does."""


def _forked() -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)


def _spawned(context: str) -> Callable[[], None]:
    def start() -> None:
        process = multiprocessing.get_context(context).Process(target=nothing)
        process.start()
        process.join()

    return start


def _in_pool() -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        pool.submit(nothing).result()


async def _asyncio_exec() -> None:
    process = await asyncio.create_subprocess_exec(*TRUE)
    await process.wait()


async def _asyncio_shell() -> None:
    process = await asyncio.create_subprocess_shell("true")
    await process.wait()


async def _asyncio_connects() -> None:
    await asyncio.open_connection(*WHERE)


def _popen() -> None:
    with subprocess.Popen(TRUE) as process:
        process.wait()


def _os_popen() -> None:
    with os.popen("true") as pipe:
        pipe.read()


def _in_thread(work: Callable[[], Any]) -> Callable[[], None]:
    def start() -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    return start


def _timed() -> None:
    timer = threading.Timer(0.01, lambda: subprocess.run(TRUE, check=False))
    timer.start()
    timer.join()


def _pooled() -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: subprocess.run(TRUE, check=False)).result()


PROCESSES: dict[str, Callable[[], Any]] = {
    "subprocess.run": lambda: subprocess.run(TRUE, check=False),
    "subprocess.call": lambda: subprocess.call(TRUE),
    "subprocess.check_call": lambda: subprocess.check_call(TRUE),
    "subprocess.check_output": lambda: subprocess.check_output(TRUE),
    "subprocess.getoutput": lambda: subprocess.getoutput("true"),
    "subprocess.getstatusoutput": lambda: subprocess.getstatusoutput("true"),
    "subprocess.Popen": _popen,
    "os.system": lambda: os.system("true"),
    "os.popen": _os_popen,
    "os.spawnv": lambda: os.spawnv(os.P_WAIT, sys.executable, TRUE),
    "os.spawnl": lambda: os.spawnl(os.P_WAIT, sys.executable, *TRUE),
    "os.posix_spawn": lambda: os.waitpid(os.posix_spawn(sys.executable, TRUE, {}), 0),
    "os.fork": _forked,
    "asyncio.create_subprocess_exec": _asyncio_exec,
    "asyncio.create_subprocess_shell": _asyncio_shell,
    "multiprocessing fork": _spawned("fork"),
    "ProcessPoolExecutor": _in_pool,
    "threading.Thread": _in_thread(lambda: subprocess.run(TRUE, check=False)),
    "threading.Timer": _timed,
    "ThreadPoolExecutor": _pooled,
}
NATIVE: dict[str, Callable[[], Any]] = {"ctypes": lambda: ctypes.CDLL(None)}


def _raw(kind: int, send: Callable[[Any], Any]) -> Callable[[], None]:
    def reach() -> None:
        sock = _socket.socket(socket.AF_INET, kind)
        with contextlib.closing(sock):
            send(sock)

    return reach


def _datagram(send: Callable[[socket.socket], Any]) -> Callable[[], None]:
    def reach() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            send(sock)

    return reach


def _connects() -> None:
    with socket.socket() as sock:
        sock.connect_ex(WHERE)


def _http_client() -> None:
    with contextlib.closing(http.client.HTTPConnection(*WHERE)) as connection:
        connection.request("GET", "/")
        connection.getresponse()


NETWORK: dict[str, Callable[[], Any]] = {
    "socket.create_connection": lambda: socket.create_connection(WHERE),
    "socket.connect_ex": _connects,
    "socket.getaddrinfo": lambda: socket.getaddrinfo("example.invalid", 80),
    "socket.gethostbyname": lambda: socket.gethostbyname("example.invalid"),
    "UDP sendto": _datagram(lambda sock: sock.sendto(b"x", WHERE)),
    "UDP sendmsg": _datagram(lambda sock: sock.sendmsg([b"x"], [], 0, WHERE)),
    "UDP connect": _datagram(lambda sock: sock.connect(WHERE)),
    "_socket.connect": _raw(socket.SOCK_STREAM, lambda sock: sock.connect(WHERE)),
    "_socket.connect_ex": _raw(socket.SOCK_STREAM, lambda sock: sock.connect_ex(WHERE)),
    "_socket.sendto": _raw(socket.SOCK_DGRAM, lambda sock: sock.sendto(b"x", WHERE)),
    "_socket.sendmsg": _raw(socket.SOCK_DGRAM, lambda sock: sock.sendmsg([b"x"], [], 0, WHERE)),
    "asyncio.open_connection": _asyncio_connects,
    "urllib": lambda: urllib.request.urlopen("http://127.0.0.1:9/"),
    "http.client": _http_client,
}


def _curl(ask: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: ask(importlib.import_module("curl_cffi"))


def _primp(ask: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: ask(importlib.import_module("primp"))


async def _curl_awaited(curl_cffi: Any) -> None:
    async with curl_cffi.AsyncSession() as session:
        await session.get(URL)


async def _primp_awaited(primp: Any) -> None:
    await primp.AsyncClient().get(URL)


CLIENTS: dict[str, Callable[[], Any]] = {
    "curl_cffi": _curl(lambda curl: curl.get(URL)),
    "curl_cffi session": _curl(lambda curl: curl.Session().post(URL, data="x")),
    "curl_cffi stream": _curl(lambda curl: curl.Session().get(URL, stream=True)),
    "curl_cffi async": _curl(_curl_awaited),
    "primp": _primp(lambda primp: primp.get(URL)),
    "primp client": _primp(lambda primp: primp.Client().request("GET", url=URL)),
    "primp async": _primp(_primp_awaited),
}
"""Clients that connect where Python sees nothing."""

OVER = threading.Event()


def _reaches() -> None:
    socket.create_connection(WHERE).close()


def _when_over() -> None:
    OVER.wait()
    _reaches()


LATER: dict[str, Callable[[], Any]] = {
    "thread": lambda: threading.Thread(target=_when_over).start(),
    "at exit": lambda: atexit.register(_reaches),
    "signal": lambda: signal.signal(signal.SIGTERM, lambda *_: _reaches()),
    "end of threads": lambda: threading._register_atexit(_reaches),  # type: ignore[attr-defined]
    "end of children": lambda: multiprocessing.util.Finalize(None, _reaches, exitpriority=1),
}


async def run(text: str) -> str:
    """Goes the way that the user names."""
    result = {**PROCESSES, **NATIVE, **NETWORK, **CLIENTS, **LATER}[text]()
    if asyncio.iscoroutine(result):
        await result
    return "done"
