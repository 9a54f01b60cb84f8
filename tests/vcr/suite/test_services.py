import asyncio
import json
import urllib.request

import aiohttp
import httpx
import pytest
import requests
from desk import BASE, weather

pytestmark = pytest.mark.vcr


def test_requests_and_a_compressed_answer():
    assert weather("Oslo")["degrees"] == 7


def test_requests_follows_a_redirect():
    answer = requests.get(f"{BASE}/moved")

    assert (answer.json()["degrees"], len(answer.history)) == (7, 1)


def test_requests_and_a_picture():
    assert requests.get(f"{BASE}/picture").content.startswith(b"\x89PNG\r\n")


def test_httpx():
    answer = httpx.get(f"{BASE}/find", params={"of": "Oslo", "page": 2})

    assert answer.json() == {"found": ["/find?of=Oslo&page=2"]}


def test_httpx_streamed_asynchronously():
    async def find():
        async with httpx.AsyncClient() as client, client.stream("GET", f"{BASE}/find") as answer:
            return b"".join([part async for part in answer.aiter_bytes()])

    assert json.loads(asyncio.run(find())) == {"found": ["/find"]}


def test_aiohttp():
    async def find():
        data = {"query": "Oslo"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{BASE}/search", json=data) as answer,
        ):
            return await answer.json()

    assert asyncio.run(find()) == {"found": ["Oslo"]}


def test_urllib():
    with urllib.request.urlopen(f"{BASE}/find?of=Oslo") as answer:
        assert json.load(answer) == {"found": ["/find?of=Oslo"]}
