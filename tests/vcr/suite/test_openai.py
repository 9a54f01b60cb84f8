import asyncio

import openai
import pytest
from desk import BASE, HEADERS, SYSTEM, ask_with_tools, messages

pytestmark = pytest.mark.vcr
SETTINGS = {"base_url": f"{BASE}/v1", "max_retries": 0, "default_headers": HEADERS}


@pytest.fixture
def client():
    return openai.OpenAI(**SETTINGS)


def test_chat(client):
    answer = client.chat.completions.create(model="gpt-5", messages=messages())

    assert answer.choices[0].message.content == "It is cold."


def test_chat_streamed(client):
    answer = client.chat.completions.create(model="gpt-5", messages=messages(), stream=True)

    assert "".join(event.choices[0].delta.content for event in answer) == "It is cold."


def test_chat_with_a_tool_that_asks_a_service(client):
    assert ask_with_tools(client) == "It is cold."


def test_responses(client):
    answer = client.responses.create(model="gpt-5", instructions=SYSTEM, input="How is Oslo?")

    assert answer.output_text == "It is cold."


def test_responses_streamed(client):
    events = client.responses.create(model="gpt-5", input="How is Oslo?", stream=True)

    assert [event.delta for event in events if event.type.endswith("delta")] == ["It is cold."]


def test_the_same_question_twice(client):
    answers = [client.chat.completions.create(model="gpt-5", messages=messages()) for _ in "ab"]

    assert [answer.id for answer in answers] == ["chatcmpl-1"] * 2


def test_a_provider_that_is_busy(client):
    with pytest.raises(openai.RateLimitError):
        client.chat.completions.create(model="busy", messages=messages())


def test_chat_asynchronously():
    async def ask():
        async with openai.AsyncOpenAI(**SETTINGS) as client:
            answer = await client.chat.completions.create(model="gpt-5", messages=messages())
        return answer.choices[0].message.content

    assert asyncio.run(ask()) == "It is cold."
