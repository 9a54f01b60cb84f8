import asyncio
import http.server
import threading

import openai
import pytest
import requests
from desk import BASE, messages
from settings import recorder


def ask():
    client = openai.OpenAI(base_url=f"{BASE}/v1", max_retries=0)
    answer = client.chat.completions.create(model="gpt-5", messages=messages())
    return answer.choices[0].message.content


@pytest.mark.vcr
@pytest.mark.default_cassette("shared.yaml")
def test_a_default_cassette(vcr):
    assert ask() == "It is cold."
    assert vcr._path.endswith("shared.yaml")


@pytest.mark.vcr("shared.yaml", record_mode="none")
def test_a_second_cassette():
    assert ask() == "It is cold."


@pytest.mark.vcr(serializer="json")
def test_a_cassette_in_json():
    assert ask() == "It is cold."


@pytest.mark.vcr(allow_playback_repeats=True)
def test_an_answer_played_again(vcr):
    assert [ask() for _ in range(3)] == ["It is cold."] * 3


@pytest.mark.vcr(ignore_localhost=True)
def test_localhost_is_left_alone(vcr):
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=server.handle_request, daemon=True).start()

    answer = requests.get(f"http://127.0.0.1:{server.server_address[1]}/")
    server.server_close()

    assert (answer.status_code, len(vcr)) == (501, 0)


@recorder.use_cassette
def test_a_decorated_test():
    assert ask() == "It is cold."


@recorder.use_cassette("named")
async def ask_model():
    async with openai.AsyncOpenAI(base_url=f"{BASE}/v1", max_retries=0) as client:
        answer = await client.chat.completions.create(model="gpt-5", messages=messages())
    return answer.choices[0].message.content


def test_a_decorated_coroutine():
    assert asyncio.run(ask_model()) == "It is cold."


def test_a_with_statement():
    with recorder.use_cassette("within") as cassette:
        assert ask() == "It is cold."

    assert len(cassette) == 1
