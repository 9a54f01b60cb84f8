"""A weather desk on Anthropic's messages: sync and async, plain and streamed."""

from __future__ import annotations

import json
from typing import Any

from anthropic import Anthropic, AsyncAnthropic
from weather_desk import CITY, DESCRIPTIONS, FUNCTIONS, REPORT

client, async_client = Anthropic(), AsyncAnthropic()

TOOLS = [
    {"name": name, "description": text, "input_schema": CITY} for name, text in DESCRIPTIONS.items()
]


def _body(text: str) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": "claude-sonnet-5",
        "max_tokens": 500,
        "system": "You know the weather.",
        "messages": [{"role": "user", "content": text}],
        "tools": TOOLS,
    }
    if text.startswith("As data"):
        # A tool that must be called: how structured output is asked of every version.
        body["tools"] = [{"name": "report", "description": "Reports.", "input_schema": REPORT}]
        body["tool_choice"] = {"type": "tool", "name": "report"}
    return body


def _answered(body: dict[str, Any], message: Any) -> Any:
    """Returns the reply; None where tools were called and the model is to be asked again."""
    calls = [block for block in message.content if block.type == "tool_use"]
    if not calls:
        return "".join(block.text for block in message.content if block.type == "text")
    if calls[0].name == "report":
        return calls[0].input
    blocks = [block.model_dump(exclude_none=True) for block in message.content]
    results = [
        {
            "type": "tool_result",
            "tool_use_id": call.id,
            "content": json.dumps(FUNCTIONS[call.name](**call.input)),
        }
        for call in calls
    ]
    body["messages"].append({"role": "assistant", "content": blocks})
    body["messages"].append({"role": "user", "content": results})
    return None


def sync(text: str) -> Any:
    """Answers the user."""
    body, reply = _body(text), None
    while reply is None:
        reply = _answered(body, client.messages.create(**body))
    return reply


def sync_streamed(text: str) -> Any:
    """Answers the user."""
    body, reply = _body(text), None
    while reply is None:
        with client.messages.stream(**body) as stream:
            reply = _answered(body, stream.get_final_message())
    return reply


async def asynchronous(text: str) -> Any:
    """Answers the user."""
    body, reply = _body(text), None
    while reply is None:
        reply = _answered(body, await async_client.messages.create(**body))
    return reply


async def async_streamed(text: str) -> Any:
    """Answers the user."""
    body, reply = _body(text), None
    while reply is None:
        async with async_client.messages.stream(**body) as stream:
            reply = _answered(body, await stream.get_final_message())
    return reply
