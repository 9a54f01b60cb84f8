"""What each weather desk of the matrix has: two tools, and a report as data."""

from __future__ import annotations

import json
from typing import Any

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
REPORT = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
DESCRIPTIONS = {"weather": "Tells the weather.", "clock": "Tells the time."}


def weather(city: str) -> dict[str, Any]:
    """Tells the weather."""
    return {"city": city, "sky": "grey"}


def clock(city: str) -> str:
    """Tells the time."""
    return f"noon in {city}"


FUNCTIONS = {"weather": weather, "clock": clock}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": text, "parameters": CITY}}
    for name, text in DESCRIPTIONS.items()
]


def chat_body(model: str, text: str) -> dict[str, Any]:
    """Returns the body of a request for a chat completion."""
    messages = [
        {"role": "system", "content": "You know the weather."},
        {"role": "user", "content": text},
    ]
    body = {"model": model, "messages": messages, "tools": TOOLS, "temperature": 0.5}
    if text.startswith("As data"):
        named = {"name": "report", "schema": REPORT, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    return body


def chat_reply(body: dict[str, Any], message: Any) -> Any:
    """Returns the reply; None where tools were called and the model is to be asked again."""
    body["messages"].append(message.model_dump(exclude_none=True, exclude={"parsed"}))
    for call in message.tool_calls or ():
        result = FUNCTIONS[call.function.name](**json.loads(call.function.arguments))
        data = {"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)}
        body["messages"].append(data)
    if message.tool_calls:
        return None
    return json.loads(message.content) if "response_format" in body else message.content
