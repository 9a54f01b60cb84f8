"""Applications whose exported traces are imported: clients by hand, agents, graphs."""

from __future__ import annotations

import asyncio
import json
from typing import Any

TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "description": "Looks an order up.",
            "parameters": {
                "type": "object",
                "properties": {"order": {"type": "string"}},
                "required": ["order"],
            },
        },
    }
]


def look_up(order: str) -> str:
    """Looks an order up."""
    return f"{order} was shipped."


class Desk:
    """A client by hand: one agent, a tool, a history over turns."""

    def __init__(self) -> None:
        self.history: list[Any] = [{"role": "system", "content": "You are the desk."}]

    def run(self, text: str) -> str:
        """Answers the user."""
        from openai import OpenAI

        client = OpenAI(max_retries=0)
        self.history.append({"role": "user", "content": text})
        while True:
            message = client.chat.completions.create(
                model="gpt-5-mini", messages=self.history, tools=TOOLS
            ).choices[0].message  # fmt: skip
            self.history.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return message.content or ""
            for call in message.tool_calls:
                result = look_up(**json.loads(call.function.arguments))  # type: ignore[union-attr]
                self.history.append({"role": "tool", "tool_call_id": call.id, "content": result})


def streamed(text: str) -> str:
    """Answers the user, streamed."""
    from openai import OpenAI

    messages: list[Any] = [
        {"role": "system", "content": "You are the desk."}, {"role": "user", "content": text},
    ]  # fmt: skip
    chunks = OpenAI().chat.completions.create(model="gpt-5-mini", messages=messages, stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


async def reviewed(text: str) -> str:
    """Asks two reviewers at once, and an editor afterwards."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI()

    async def ask(system: str, user: str) -> str:
        messages: list[Any] = [
            {"role": "system", "content": system}, {"role": "user", "content": user},
        ]  # fmt: skip
        completion = await client.chat.completions.create(model="gpt-5-mini", messages=messages)
        return completion.choices[0].message.content or ""

    notes = await asyncio.gather(
        ask("You are the lawyer.", text), ask("You are the stylist.", text)
    )
    return await ask("You are the editor.", " ".join(notes))


def forgiving(text: str) -> str:
    """Answers the user, or says that nobody can."""
    import openai

    try:
        return Desk().run(text)
    except openai.APIError:
        return "Nobody is here."
