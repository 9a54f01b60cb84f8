"""A weather desk that speaks chat completions by hand, through three HTTP libraries."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import aiohttp
import requests
from weather_desk import CITY, FUNCTIONS, REPORT

URL = "https://llm.example.test/v1/chat/completions"
TOOLS = [{"type": "function", "function": {"name": name, "parameters": CITY}} for name in FUNCTIONS]


def _body(text: str) -> dict[str, Any]:
    messages = [
        {"role": "system", "content": "You know the weather."},
        {"role": "user", "content": text},
    ]
    body = {"model": "gpt-5-mini", "messages": messages, "tools": TOOLS, "temperature": 0.5}
    if text.startswith("As data"):
        named = {"name": "report", "schema": REPORT}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    return body


def _answered(body: dict[str, Any], completion: dict[str, Any]) -> Any:
    """Returns the reply; None where tools were called and the model is to be asked again."""
    message = completion["choices"][0]["message"]
    body["messages"].append(message)
    calls = message.get("tool_calls") or ()
    for call in calls:
        function = call["function"]
        result = FUNCTIONS[function["name"]](**json.loads(function["arguments"]))
        data = {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)}
        body["messages"].append(data)
    if calls:
        return None
    content = message["content"]
    return json.loads(content) if "response_format" in body else content


def _ask(text: str, ask: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    body, reply = _body(text), None
    while reply is None:
        reply = _answered(body, ask(body))
    return reply


def by_requests(text: str) -> Any:
    """Answers the user."""

    def ask(body: dict[str, Any]) -> dict[str, Any]:
        response = requests.post(URL, json=body, timeout=5)
        response.raise_for_status()
        data: dict[str, Any] = response.json()
        return data

    return _ask(text, ask)


def by_urllib(text: str) -> Any:
    """Answers the user."""

    def ask(body: dict[str, Any]) -> dict[str, Any]:
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(URL, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=5) as response:
                data: dict[str, Any] = json.load(response)
        except urllib.error.HTTPError as problem:
            problem.close()
            raise
        return data

    return _ask(text, ask)


async def by_aiohttp(text: str) -> Any:
    """Answers the user."""
    body, reply = _body(text), None
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        while reply is None:
            async with session.post(URL, json=body) as response:
                reply = _answered(body, await response.json())
    return reply
