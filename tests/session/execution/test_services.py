"""What tools ask of services is recorded and replayed beside model calls, in one cassette."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import vcr

from simkit.capture.cassettes import load
from simkit.session.execution.recorded import Recording
from simkit.session.simulate import record, simulate
from simkit.vcr import register, vcr_config
from tests.recording import prepared, write
from tests.vcr.standin import PICTURE, standing_outside

pytestmark = pytest.mark.slow

APP = """\
import asyncio
import json
import os
import urllib.request

import aiohttp
import httpx
import requests


def address():
    return os.environ["PROVIDER"]


def by_requests():
    found = requests.get(address() + "/weather", {"city": "Oslo", "key": "weather-key-77"})
    return found.json()["degrees"]


def by_requests_moved():
    found = requests.get(address() + "/moved")
    return [len(found.history), found.json()["degrees"]]


def by_requests_picture():
    return requests.get(address() + "/picture").content.hex()


def by_httpx():
    return httpx.get(address() + "/find", params={"of": "Oslo"}).json()


def by_httpx_moved():
    return httpx.get(address() + "/moved", follow_redirects=True).json()["degrees"]


def by_httpx_asynchronously():
    async def find():
        async with httpx.AsyncClient() as client:
            return (await client.post(address() + "/search", json={"query": "httpx"})).json()

    return asyncio.run(find())


async def aiohttp_found(method, path, **more):
    async with aiohttp.ClientSession() as session:
        async with session.request(method, address() + path, **more) as answer:
            return await answer.json()


def by_aiohttp():
    return asyncio.run(aiohttp_found("POST", "/search", json={"query": "aiohttp"}))


def by_aiohttp_moved():
    return asyncio.run(aiohttp_found("GET", "/moved"))["degrees"]


def by_urllib():
    with urllib.request.urlopen(address() + "/find?of=urllib") as answer:
        return json.load(answer)


SERVICES = [found for name, found in list(globals().items()) if name.startswith("by_")]


def run(text):
    facts = json.dumps([service() for service in SERVICES])
    messages = [{"role": "system", "content": "You are the clerk."},
                {"role": "user", "content": text + facts}]
    answer = httpx.post(
        address() + "/v1/chat/completions", json={"model": "gpt-5", "messages": messages},
        headers={"authorization": "Bearer sk-test-0123456789abcdef"},
    )
    return answer.json()["choices"][0]["message"]["content"] + facts
"""
FACTS = [
    7, [1, 7], PICTURE.hex(), {"found": ["/find?of=Oslo"]}, 7, {"found": ["httpx"]},
    {"found": ["aiohttp"]}, 7, {"found": ["/find?of=urllib"]},
]  # fmt: skip
SCENARIO = """\
version: 1
scenario: the clerk knows the facts
pipeline: desk:run
app: {path: [.], fresh: true}
agents: {clerk: You are the clerk.}
cassette: desk
turns: [{user: hello, expect: {reply: REPLY}}]
"""
REPLY = "It is cold." + json.dumps(FACTS)
NOW = "2026-01-05T09:00:00Z"
REQUESTS = 13
"""Nine services, of which three send elsewhere, and the model."""


@pytest.fixture
def file(cwd: Path) -> Path:
    return write(cwd, SCENARIO.replace("REPLY", json.dumps(REPLY)), APP)


def test_what_simkit_records_of_services_and_models_is_replayed(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with standing_outside() as texts:
        monkeypatch.setenv("PROVIDER", texts)
        done = record(prepared(file), Recording("once", NOW))
    assert [str(finding.what)[-3000:] for finding in done.outcome.judgement.findings] == []

    assert simulate(prepared(file)).judgement.findings == ()

    items = load("cassettes/desk.yaml").interactions
    assert len(items) == REQUESTS
    assert {(item.agent, item.protocol) for item in items} == {("", ""), ("clerk", "openai-chat")}
    text = Path("cassettes/desk.yaml").read_text(encoding="utf-8")
    assert "weather-key-77" not in text
    # Its cookie is there, and the value of it is not.
    assert set(re.findall(r"session=([^;'\s]*)", text)) == {"[redacted:set_cookie]"}


def test_services_on_hosts_that_are_allowed_are_left_alone(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("cassette:", "allow_hosts: [127.0.0.1]\ncassette:"), "utf-8")

    with standing_outside() as texts:
        monkeypatch.setenv("PROVIDER", texts)
        done = record(prepared(file), Recording("once", NOW))
        again = simulate(prepared(file))

    assert [finding.what for finding in done.outcome.judgement.findings] == []
    assert [finding.what for finding in again.judgement.findings] == []
    items = load("cassettes/desk.yaml").interactions
    assert [(item.agent, item.protocol) for item in items] == [("clerk", "openai-chat")]


@pytest.mark.parametrize("is_configured", [False, True], ids=["vcrpy alone", "simkit.vcr"])
def test_what_vcrpy_records_of_both_is_replayed_by_simkit(
    file: Path, monkeypatch: pytest.MonkeyPatch, is_configured: bool
) -> None:
    options = vcr_config() if is_configured else {}
    recorder = register(vcr.VCR(record_mode="all", **options))
    names: dict[str, object] = {}
    with standing_outside() as texts:
        monkeypatch.setenv("PROVIDER", texts)
        exec(compile(APP, "desk.py", "exec"), names)
        with recorder.use_cassette("cassettes/desk.yaml"):
            assert names["run"]("hello") == REPLY  # type: ignore[operator]

    assert simulate(prepared(file)).judgement.findings == ()

    assert len(load("cassettes/desk.yaml").interactions) == REQUESTS
