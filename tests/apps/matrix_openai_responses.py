"""A weather desk on OpenAI's Responses: sync and async, plain and streamed."""

from __future__ import annotations

import json
from typing import Any

from openai import AsyncOpenAI, OpenAI
from weather_desk import CITY, DESCRIPTIONS, FUNCTIONS, REPORT

client, async_client = OpenAI(), AsyncOpenAI()

TOOLS = [
    {"type": "function", "name": name, "description": text, "parameters": CITY, "strict": False}
    for name, text in DESCRIPTIONS.items()
]


def _body(text: str) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": "gpt-5-mini",
        "instructions": "You know the weather.",
        "input": [{"role": "user", "content": text}],
        "tools": TOOLS,
        "temperature": 0.5,
    }
    if text.startswith("As data"):
        named = {"type": "json_schema", "name": "report", "schema": REPORT, "strict": True}
        body["text"] = {"format": named}
    return body


def _answered(body: dict[str, Any], response: Any) -> Any:
    """Returns the reply; None where tools were called and the model is to be asked again."""
    calls = [item for item in response.output if item.type == "function_call"]
    body["input"] += [item.model_dump(exclude_none=True) for item in response.output]
    body["input"] += [
        {
            "type": "function_call_output",
            "call_id": call.call_id,
            "output": json.dumps(FUNCTIONS[call.name](**json.loads(call.arguments))),
        }
        for call in calls
    ]
    if calls:
        return None
    return json.loads(response.output_text) if "text" in body else response.output_text


def sync(text: str) -> Any:
    """Answers the user."""
    body, reply = _body(text), None
    while reply is None:
        reply = _answered(body, client.responses.create(**body))
    return reply


def sync_streamed(text: str) -> Any:
    """Answers the user."""
    body, reply = _body(text), None
    while reply is None:
        events = list(client.responses.create(**body, stream=True))
        reply = _answered(body, events[-1].response)
    return reply


async def asynchronous(text: str) -> Any:
    """Answers the user."""
    body, reply = _body(text), None
    while reply is None:
        reply = _answered(body, await async_client.responses.create(**body))
    return reply


async def async_streamed(text: str) -> Any:
    """Answers the user."""
    body, reply = _body(text), None
    while reply is None:
        stream = await async_client.responses.create(**body, stream=True)
        events = [event async for event in stream]
        reply = _answered(body, events[-1].response)
    return reply


class Chained:
    """Sends only what is new, and names the response that it goes on from."""

    def __init__(self) -> None:
        self.last: str | None = None

    def __call__(self, text: str) -> str:
        response = client.responses.create(
            model="gpt-5-mini", instructions="You know the weather.", input=text,
            previous_response_id=self.last,
        )  # fmt: skip
        self.last = response.id
        return response.output_text


def continue_conversation(text: str) -> str:
    """Sends only what is new, and names the conversation that the provider keeps."""
    response = client.responses.create(model="gpt-5-mini", input=text, conversation="conv_1")
    return str(response.output_text)
