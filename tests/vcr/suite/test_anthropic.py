import asyncio

import anthropic
import pytest
from desk import BASE, HEADERS, QUESTION, SYSTEM

pytestmark = pytest.mark.vcr
SETTINGS = {"base_url": BASE, "max_retries": 0, "default_headers": HEADERS}
DATA = {
    "model": "claude-x",
    "max_tokens": 100,
    "system": SYSTEM,
    "messages": [{"role": "user", "content": QUESTION}],
}


def test_message():
    answer = anthropic.Anthropic(**SETTINGS).messages.create(**DATA)

    assert answer.content[0].text == "It is cold."


def test_message_streamed():
    with anthropic.Anthropic(**SETTINGS).messages.stream(**DATA) as stream:
        assert list(stream.text_stream) == ["It is ", "cold."]


def test_message_asynchronously():
    async def ask():
        async with anthropic.AsyncAnthropic(**SETTINGS) as client:
            return (await client.messages.create(**DATA)).content[0].text

    assert asyncio.run(ask()) == "It is cold."
