"""A weather desk on LiteLLM: sync and async, plain and streamed."""

from __future__ import annotations

import json
from typing import Any

import litellm
from weather_desk import CITY, DESCRIPTIONS, FUNCTIONS, REPORT

TOOLS = [
    {"type": "function", "function": {"name": name, "description": text, "parameters": CITY}}
    for name, text in DESCRIPTIONS.items()
]


def _body(text: str) -> dict[str, Any]:
    messages = [
        {"role": "system", "content": "You know the weather."},
        {"role": "user", "content": text},
    ]
    body = {"model": "openai/gpt-4o-mini", "messages": messages, "tools": TOOLS, "temperature": 0.5}
    if text.startswith("As data"):
        named = {"name": "report", "schema": REPORT, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    return {**body, "num_retries": 0, "max_retries": 0}


def _answered(body: dict[str, Any], response: Any) -> Any:
    """Returns the reply; None where tools were called and the model is to be asked again."""
    message = response.choices[0].message
    body["messages"].append(message.model_dump(exclude_none=True))
    for call in message.tool_calls or ():
        result = FUNCTIONS[call.function.name](**json.loads(call.function.arguments))
        data = {"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)}
        body["messages"].append(data)
    if message.tool_calls:
        return None
    return json.loads(message.content) if "response_format" in body else message.content


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
