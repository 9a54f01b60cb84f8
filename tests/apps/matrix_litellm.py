"""A weather desk on LiteLLM: sync and async, plain and streamed."""

from __future__ import annotations

from typing import Any

import litellm
from weather_desk import chat_body, chat_reply


def _body(text: str) -> dict[str, Any]:
    return {**chat_body("openai/gpt-4o-mini", text), "num_retries": 0, "max_retries": 0}


def _answered(body: dict[str, Any], response: Any) -> Any:
    return chat_reply(body, response.choices[0].message)


def sync(text: str) -> Any:
    """Answers the user."""
    body, reply = _body(text), None
    while reply is None:
        reply = _answered(body, litellm.completion(**body))
    return reply


def sync_streamed(text: str) -> Any:
    """Answers the user."""
    body, reply = _body(text), None
    while reply is None:
        chunks = list(litellm.completion(**body, stream=True))
        reply = _answered(body, litellm.stream_chunk_builder(chunks))
    return reply


async def asynchronous(text: str) -> Any:
    """Answers the user."""
    body, reply = _body(text), None
    while reply is None:
        reply = _answered(body, await litellm.acompletion(**body))
    return reply


async def async_streamed(text: str) -> Any:
    """Answers the user."""
    body, reply = _body(text), None
    while reply is None:
        chunks = [chunk async for chunk in await litellm.acompletion(**body, stream=True)]
        reply = _answered(body, litellm.stream_chunk_builder(chunks))
    return reply
