"""A weather desk on OpenAI's chat completions: sync and async, plain and streamed."""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI, OpenAI
from openai.lib.streaming.chat import ChatCompletionStreamState
from weather_desk import chat_body, chat_reply

client, async_client = OpenAI(), AsyncOpenAI()


def sync(text: str) -> Any:
    """Answers the user."""
    body, reply = chat_body("gpt-5-mini", text), None
    while reply is None:
        reply = chat_reply(body, client.chat.completions.create(**body).choices[0].message)
    return reply


def sync_streamed(text: str) -> Any:
    """Answers the user."""
    body, reply = chat_body("gpt-5-mini", text), None
    while reply is None:
        state = ChatCompletionStreamState()
        for chunk in client.chat.completions.create(**body, stream=True):
            state.handle_chunk(chunk)
        reply = chat_reply(body, state.get_final_completion().choices[0].message)
    return reply


async def asynchronous(text: str) -> Any:
    """Answers the user."""
    body, reply = chat_body("gpt-5-mini", text), None
    while reply is None:
        completion = await async_client.chat.completions.create(**body)
        reply = chat_reply(body, completion.choices[0].message)
    return reply


async def async_streamed(text: str) -> Any:
    """Answers the user."""
    body, reply = chat_body("gpt-5-mini", text), None
    while reply is None:
        state = ChatCompletionStreamState()
        async for chunk in await async_client.chat.completions.create(**body, stream=True):
            state.handle_chunk(chunk)
        reply = chat_reply(body, state.get_final_completion().choices[0].message)
    return reply
