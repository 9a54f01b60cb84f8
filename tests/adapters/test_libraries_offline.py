"""A library that asks a host by itself finds no network; what it does not survive ends the run."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from simkit import load, simulate
from simkit.trace.events import UncontrolledEffect
from tests.adapters.running import run_app
from tests.building import Ran

LIBRARY = """
import asyncio, http.client, socket, threading, urllib.request


def by_urllib(url):
    urllib.request.urlopen(url).read()


def by_http_client(url):
    connection = http.client.HTTPConnection("example.test", 80)
    connection.request("GET", "/")
    connection.getresponse()


def by_httpx(url):
    import httpx
    httpx.get(url)


def by_httpx_awaited(url):
    import httpx

    async def ask():
        async with httpx.AsyncClient() as client:
            await client.get(url)

    asyncio.run(ask())


def by_requests(url):
    import requests
    requests.get(url)


def by_aiohttp(url):
    import aiohttp

    async def ask():
        async with aiohttp.ClientSession() as session:
            await session.get(url)

    asyncio.run(ask())


def by_socket(url):
    socket.create_connection(("example.test", 80))


def by_datagram(url):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", ("192.0.2.7", 8125))


def in_thread(url):
    thread = threading.Thread(target=swallow, args=(by_urllib, url))
    thread.start()
    thread.join()


def swallow(ask, url="http://example.test/version"):
    try:
        ask(url)
    except Exception:
        return "offline"


class Wrapped(Exception):
    pass


def wrap(ask, url="http://example.test/version"):
    try:
        ask(url)
    except Exception as problem:
        raise Wrapped("no answer") from problem


def call(function):
    return function()
"""
APP = """
import asyncio, urllib.request
import lib_telemetry as library


def survived(text):
    return library.swallow(getattr(library, text)) or "asked"


def caught(text):
    try:
        getattr(library, text)("http://example.test/version")
    except Exception:
        return "caught"


def wrapped(text):
    library.wrap(getattr(library, text))


def wrapped_and_caught(text):
    try:
        library.wrap(getattr(library, text))
    except library.Wrapped:
        return "caught"


def in_executor(text):
    try:
        asyncio.run(asyncio.to_thread(library.wrap, getattr(library, text)))
    except library.Wrapped:
        return "caught"


def called_back(text):
    return library.call(lambda: library.swallow(urllib.request.urlopen))


def own(text):
    try:
        urllib.request.urlopen("http://example.test/version")
    except Exception:
        return "caught"


def own_by_library(text):
    return library.call(lambda: own(text))


def model(text):
    return library.swallow(library.by_urllib, "https://api.openai.com/v1/files")


def tool(text):
    return search(text)


search = library.swallow_search = lambda text: library.swallow(library.by_urllib)
"""
WAYS = [line[4:].partition("(")[0] for line in LIBRARY.splitlines() if line.startswith("def by_")]


@pytest.fixture(autouse=True)
def _modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "lib_telemetry.py").write_text(dedent(LIBRARY), encoding="utf-8")
    (tmp_path / "offline_app.py").write_text(dedent(APP), encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    for name in ("lib_telemetry", "offline_app"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()


def ran(folder: Path, function: str, text: str, more: str = "") -> Ran:
    return run_app(
        f"offline_app:{function}", f"app: {{path: [.]{more}}}\nturns: [{{user: {text}}}]", folder
    )


def error_of(outcome: Ran) -> str:
    error = outcome.view.error
    return "" if error is None else f"{error.type}: {error.message}"


@pytest.mark.parametrize("way", [*WAYS, "in_thread"])
def test_what_a_library_asks_by_itself_finds_no_network(tmp_path: Path, way: str) -> None:
    outcome = ran(tmp_path, "survived", way)

    assert outcome.turn().reply == ("asked" if way == "in_thread" else "offline")
    assert (error_of(outcome), outcome.judgement.findings) == ("", ())
    assert outcome.events(UncontrolledEffect) == []


def test_a_warning_says_which_library_asked_which_host(tmp_path: Path) -> None:
    text = "version: 1\nscenario: a\npipeline: offline_app:survived\napp: {path: [.]}\n"
    turns = "turns: [{user: by_httpx}, {user: by_urllib}]\n"
    (tmp_path / "a.scenario.yaml").write_text(text + turns, encoding="utf-8")
    off = "lints: {RUN-02: known}\n"
    (tmp_path / "b.scenario.yaml").write_text(text + off + turns, encoding="utf-8")
    cases = [case for name in "ab" for case in load(tmp_path / f"{name}.scenario.yaml")]

    texts = [[w.what for w in simulate(case).judgement.warnings] for case in cases]

    cause = "`lib_telemetry` asked example.test: there is no network"
    assert texts == [[f"{cause}, and the run went on without it"], []]


@pytest.mark.parametrize("function", ["caught", "wrapped", "wrapped_and_caught", "in_executor"])
@pytest.mark.parametrize("way", WAYS)
def test_a_library_that_does_not_survive_it_ends_the_run(
    tmp_path: Path, way: str, function: str
) -> None:
    error = error_of(ran(tmp_path, function, way))

    assert error.startswith("NetworkRefused: ")
    assert "example.test" in error or "192.0.2.7" in error


@pytest.mark.parametrize("function", ["own", "own_by_library", "model"])
def test_user_code_and_requests_to_models_end_the_run(tmp_path: Path, function: str) -> None:
    assert error_of(ran(tmp_path, function, "hi")).startswith("NetworkRefused: ")


def test_a_tool_that_asks_ends_the_run_whichever_library_it_is_of(tmp_path: Path) -> None:
    tools = ", tools: {search: offline_app:search}"

    assert error_of(ran(tmp_path, "tool", "hi", tools)).startswith("NetworkRefused: ")
    assert error_of(ran(tmp_path, "tool", "hi")) == ""
