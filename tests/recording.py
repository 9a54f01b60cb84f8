"""An app on plain HTTP, a provider on this machine's own network, and scenarios that record."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from simkit.capture.http.loopback import listening
from simkit.capture.http.request_router import Decision
from simkit.core.gc_pause import native_ids
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.session.workers import application
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import items_in

APP = '''\
"""A desk of two agents on plain HTTP."""

import json
import os
import urllib.request

SYSTEM = {"clerk": "You are the clerk.", "boss": "You are the boss."}


def ask(agent, text, **more):
    messages = [{"role": "system", "content": SYSTEM[agent]}, {"role": "user", "content": text}]
    body = {"model": "m", "messages": messages, **more}
    request = urllib.request.Request(
        os.environ["PROVIDER"] + "/v1/chat/completions", json.dumps(body).encode(),
        {"content-type": "application/json", "authorization": "Bearer " + os.environ["KEY"]},
    )
    with urllib.request.urlopen(request) as response:
        return json.loads(response.read())["choices"][0]["message"]["content"]


def run(text):
    first = ask("clerk", text)
    return ask("boss", first)


def weather(city):
    """Asks another service."""
    with urllib.request.urlopen(os.environ["PROVIDER"] + "/weather?city=" + city) as response:
        return json.loads(response.read())


def run_with_weather(text):
    return ask("clerk", text + json.dumps(weather("Lisbon")))


calls = []


def stock(item):
    calls.append(item)
    if item == "gold":
        raise LookupError("no gold")
    return {"item": item, "left": 3}


def run_with_stock(text):
    try:
        return ask("clerk", json.dumps(stock(text)))
    except Exception as problem:
        return "failed: " + str(problem)
'''
AGENTS = "agents: {clerk: You are the clerk., boss: You are the boss.}"
SCENARIO = f"""\
version: 1
scenario: the boss hears it
pipeline: desk:run
app: {{path: [.], fresh: true}}
{AGENTS}
cassette: desk
turns: [{{user: hello, expect: {{reply: "boss: clerk: hello"}}}}]
"""


def completion(text: str, **more: Any) -> HttpResponse:
    """Returns what a provider answers."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {"id": "c1", "object": "chat.completion", "choices": [choice], **more}
    return HttpResponse(200, (("content-type", "application/json"),), (json.dumps(body).encode(),))


def echo(request: HttpRequest) -> HttpResponse:
    """Answers with the agent's role and the user's words."""
    if "/chat/completions" not in request.url:
        city = request.url.partition("city=")[2]
        body = json.dumps({"city": city, "sunny": True}).encode()
        return HttpResponse(200, (("content-type", "application/json"),), (body,))
    messages = json.loads(request.body)["messages"]
    role = messages[0]["content"].removeprefix("You are the ").removesuffix(".").split(".")[0]
    return completion(f"{role}: {messages[-1]['content']}")


class Provider:
    """What is asked, and how it is answered."""

    def __init__(self) -> None:
        self.answer: Callable[[HttpRequest], Decision] = echo
        self.requests: list[HttpRequest] = []
        self.url = ""

    def take(self, request: HttpRequest) -> Decision:
        """Answers one request."""
        self.requests.append(request)
        return self.answer(request)


@contextmanager
def provider() -> Iterator[Provider]:
    """Serves a provider from a thread of its own."""
    result = Provider()
    ready, over = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        async with listening(result.take) as server:
            result.url = server.url
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    # A command copies only a process without other threads; no copy needs those of the tests.
    threads = len(native_ids()) - 1
    application._Threads.own += threads
    try:
        yield result
    finally:
        loops[0].call_soon_threadsafe(over.set)
        thread.join()
        application._Threads.own -= threads


@pytest.fixture(scope="module")
def server() -> Iterator[Provider]:
    """A provider for the tests of a module, which import this fixture."""
    with provider() as result:
        yield result


def write(folder: Path, scenario: str = SCENARIO, app: str = APP, name: str = "desk") -> Path:
    """Writes an app and a scenario file."""
    (folder / "desk.py").write_text(app, encoding="utf-8")
    file = folder / f"{name}.scenario.yaml"
    file.write_text(scenario, encoding="utf-8")
    return file


def prepared(file: Path, place: int = 0) -> Prepared:
    """Returns one scenario of a file, read anew."""
    return Library().prepared(items_in(str(file))[place])


@pytest.fixture
def folder(cwd: Path, monkeypatch: pytest.MonkeyPatch, server: Provider) -> Path:
    """A working directory with what the app reads of its surroundings."""
    monkeypatch.setenv("PROVIDER", server.url)
    monkeypatch.setenv("KEY", "sk-test-0123456789abcdef")
    server.requests.clear()
    server.answer = echo
    return cwd
