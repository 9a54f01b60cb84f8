"""The application under test: it asks models for the weather, and services for facts."""

import json
import os

import requests

BASE = os.environ["STAND_IN"]
SYSTEM = os.environ.get("DESK_SYSTEM", "You tell the weather.\nBe brief.")
QUESTION = "How is Oslo?"
HEADERS = {
    "user-agent": os.environ.get("DESK_AGENT", "desk/1"),
    "x-stainless-package-version": os.environ.get("DESK_SDK", "9"),
}
TOOL = {
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def messages():
    rows = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    if os.environ.get("DESK_ORDER") == "other":
        rows = [dict(reversed(message.items())) for message in rows]
    return rows


def weather(city):
    # The key of the weather service stands in its address.
    value = requests.get(f"{BASE}/weather", {"city": city, "key": "weather-key-77"})
    return value.json()


def ask_with_tools(client):
    tools = [{"type": "function", "function": TOOL}]
    request = messages()
    first = client.chat.completions.create(model="gpt-5", messages=request, tools=tools)
    call = first.choices[0].message.tool_calls[0]
    result = weather(**json.loads(call.function.arguments))
    data = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
        ],
    }
    report = {"role": "tool", "tool_call_id": call.id, "content": json.dumps(result["degrees"])}
    last = client.chat.completions.create(
        model="gpt-5", messages=[*request, data, report], tools=tools
    )
    return last.choices[0].message.content
