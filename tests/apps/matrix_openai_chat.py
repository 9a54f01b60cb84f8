"""A weather desk on OpenAI's chat completions: sync and async, plain and streamed."""

from __future__ import annotations

import json
from typing import Any

from openai import AsyncOpenAI, OpenAI
from openai.lib.streaming.chat import ChatCompletionStreamState
from weather_desk import CITY, DESCRIPTIONS, FUNCTIONS, REPORT

client, async_client = OpenAI(), AsyncOpenAI()

TOOLS = [
    {"type": "function", "function": {"name": name, "description": text, "parameters": CITY}}
    for name, text in DESCRIPTIONS.items()
]


def _body(text: str) -> dict[str, Any]:
    messages = [
        {"role": "system", "content": "You know the weather."},
        {"role": "user", "content": text},
    ]
    body = {"model": "gpt-5-mini", "messages": messages, "tools": TOOLS, "temperature": 0.5}
    if text.startswith("As data"):
        named = {"name": "report", "schema": REPORT, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    return body


def _answered(body: dict[str, Any], message: Any) -> Any:
    """Returns the reply; None where tools were called and the model is to be asked again."""
    body["messages"].append(message.model_dump(exclude_none=True, exclude={"parsed"}))
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
        reply = _answered(body, client.chat.completions.create(**body).choices[0].message)
    return reply


def sync_streamed(text: str) -> Any:
    """Answers the user."""
    body, reply = _body(text), None
    while reply is None:
        state = ChatCompletionStreamState()
        for chunk in client.chat.completions.create(**body, stream=True):
            state.handle_chunk(chunk)
        reply = _answered(body, state.get_final_completion().choices[0].message)
    return reply


async def asynchronous(text: str) -> Any:
    """Answers the user."""
    body, reply = _body(text), None
    while reply is None:
        completion = await async_client.chat.completions.create(**body)
        reply = _answered(body, completion.choices[0].message)
    return reply


async def async_streamed(text: str) -> Any:
    """Answers the user."""
    body, reply = _body(text), None
    while reply is None:
        state = ChatCompletionStreamState()
        async for chunk in await async_client.chat.completions.create(**body, stream=True):
            state.handle_chunk(chunk)
        reply = _answered(body, state.get_final_completion().choices[0].message)
    return reply
