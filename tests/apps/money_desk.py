"""A desk on the plain OpenAI client that keeps what was said, and uses one tool."""

from __future__ import annotations

import json
from typing import Any

from openai import OpenAI

client = OpenAI()
SYSTEM = {"role": "system", "content": "You are the triage agent."}
OFFER = {"name": "find_order", "parameters": {"type": "object", "properties": {}}}


def find_order(customer: str) -> Any:
    raise ConnectionError("the shop cannot be reached from here")


class Desk:
    def __init__(self) -> None:
        self.history: list[Any] = []

    def chat(self, text: str) -> str:
        self.history.append({"role": "user", "content": text})
        messages = [SYSTEM, *self.history]
        while True:
            completion = client.chat.completions.create(
                model="m", messages=messages, tools=[{"type": "function", "function": OFFER}]
            )
            message = completion.choices[0].message
            if not message.tool_calls:
                self.history.append({"role": "assistant", "content": message.content})
                return message.content or ""
            call: Any = message.tool_calls[0]
            result = json.dumps(find_order(**json.loads(call.function.arguments)))
            messages += [
                message.model_dump(exclude_none=True),
                {"role": "tool", "tool_call_id": call.id, "content": result},
            ]
