"""A weather desk on Gemini: sync and async, plain and streamed."""

from __future__ import annotations

import json
from typing import Any

from google import genai
from google.genai import types
from weather_desk import CITY, DESCRIPTIONS, FUNCTIONS, REPORT

client = genai.Client()

TOOLS = [
    types.FunctionDeclaration(name=name, description=text, parameters_json_schema=CITY)
    for name, text in DESCRIPTIONS.items()
]


def _request(text: str) -> dict[str, Any]:
    config: dict[str, Any] = {
        "system_instruction": "You know the weather.",
        "temperature": 0.5,
        "tools": [types.Tool(function_declarations=TOOLS)],
        "automatic_function_calling": types.AutomaticFunctionCallingConfig(disable=True),
    }
    if text.startswith("As data"):
        del config["tools"]
        config["response_mime_type"] = "application/json"
        config["response_json_schema"] = REPORT
    contents = [types.Content(role="user", parts=[types.Part(text=text)])]
    return {
        "model": "gemini-3-flash",
        "contents": contents,
        "config": types.GenerateContentConfig(**config),
    }


def _answered(request: dict[str, Any], parts: list[Any]) -> Any:
    """Returns the reply; None where tools were called and the model is to be asked again."""
    calls = [part.function_call for part in parts if part.function_call]
    if not calls:
        text = "".join(part.text or "" for part in parts)
        return json.loads(text) if request["config"].response_json_schema else text
    results = [
        types.Part(
            function_response=types.FunctionResponse(
                id=call.id, name=call.name, response={"result": FUNCTIONS[call.name](**call.args)}
            )
        )
        for call in calls
    ]
    request["contents"] += [
        types.Content(role="model", parts=parts), types.Content(role="user", parts=results),
    ]  # fmt: skip
    return None


def _parts(response: Any) -> list[Any]:
    return list(response.candidates[0].content.parts or ())


def sync(text: str) -> Any:
    """Answers the user."""
    data, reply = _request(text), None
    while reply is None:
        reply = _answered(data, _parts(client.models.generate_content(**data)))
    return reply


def sync_streamed(text: str) -> Any:
    """Answers the user."""
    data, reply = _request(text), None
    while reply is None:
        chunks = client.models.generate_content_stream(**data)
        reply = _answered(data, [part for chunk in chunks for part in _parts(chunk)])
    return reply


async def asynchronous(text: str) -> Any:
    """Answers the user."""
    data, reply = _request(text), None
    while reply is None:
        reply = _answered(data, _parts(await client.aio.models.generate_content(**data)))
    return reply


async def async_streamed(text: str) -> Any:
    """Answers the user."""
    data, reply = _request(text), None
    while reply is None:
        chunks = await client.aio.models.generate_content_stream(**data)
        parts = [part async for chunk in chunks for part in _parts(chunk)]
        reply = _answered(data, parts)
    return reply
