"""Code that reads what a model calls and answers no call: four designs on the plain client."""

from __future__ import annotations

import json
from typing import Any

from openai import OpenAI

client = OpenAI()


def look_up(topic: str) -> str:
    """Finds something out."""
    return f"{topic}: found"


def _tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def _say(system: str, reply: list[Any], *tools: str) -> Any:
    offered: Any = {"tools": [_tool(name) for name in tools]} if tools else {}
    completion = client.chat.completions.create(
        model="gpt-5-mini", messages=[{"role": "system", "content": system}, *reply], **offered
    )
    return completion.choices[0].message


def _args(call: Any) -> Any:
    return json.loads(call.function.arguments)


def ends_on_a_tool(text: str) -> str:
    """The model says by a call that the work is done, and what came of it."""
    (call,) = _say("You write.", [{"role": "user", "content": text}], "done").tool_calls
    return str(_args(call)["summary"])


def routes_by_a_tool(text: str) -> str:
    """One model names by a call who answers; the call is dropped."""
    rows = [{"role": "user", "content": text}]
    (call,) = _say("You route.", rows, "route").tool_calls
    return str(_say(f"You are {_args(call)['to']}.", rows).content)


def tells_results_as_text(text: str) -> str:
    """What a call finds out is told by the user, as models without tools are told it."""
    values: list[Any] = [{"role": "user", "content": text}]
    while True:
        message = _say("You find.", values, "look_up")
        if not message.tool_calls:
            return str(message.content)
        for call in message.tool_calls:
            result = look_up(**_args(call))
            values.append({"role": "user", "content": f"{call.function.name} says: {result}"})


def answers_by_the_last_tool(text: str) -> str:
    """Calls are answered until one of them is the answer."""
    values: list[Any] = [{"role": "user", "content": text}]
    while True:
        message = _say("You answer.", values, "look_up", "answer")
        values.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            if call.function.name == "answer":
                return str(_args(call)["text"])
            result = look_up(**_args(call))
            values.append({"role": "tool", "tool_call_id": call.id, "content": result})


def forgets_the_tool(text: str) -> str:
    """Takes a model's first words for the reply, though it wants to look something up: wrong."""
    return str(_say("You find.", [{"role": "user", "content": text}], "look_up").content or "")
