"""A travel desk of three agents on the plain OpenAI client. Nothing here knows of simkit."""

from __future__ import annotations

import json
from typing import Any

from openai import OpenAI

client = OpenAI()
MODEL = "gpt-5-mini"


def find_flights(to: str, day: str) -> dict[str, Any]:
    """Looks flights up in the airline's system."""
    raise ConnectionError("the airline's system is not reachable from here")


def book_hotel(city: str, nights: int) -> str:
    """Books a room."""
    return f"booked {nights} nights in {city}"


TOOLS = {"find_flights": find_flights, "book_hotel": book_hotel}


def _tool(name: str, description: str, **properties: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(properties),
    }
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


AGENTS: dict[str, dict[str, Any]] = {
    "triage": {
        "instructions": "You are the triage agent of a travel desk. Pass the traveller on.",
        "tools": [
            _tool("to_flights", "Passes the traveller to flights.", destination="string"),
            _tool("to_hotels", "Passes the traveller to hotels.", city="string"),
        ],
    },
    "flights": {
        "instructions": "You are the flight agent. Known so far: {facts}",
        "tools": [_tool("find_flights", "Finds flights.", to="string", day="string")],
    },
    "hotels": {
        "instructions": "You are the hotel agent. Known so far: {facts}",
        "tools": [_tool("book_hotel", "Books a room.", city="string", nights="integer")],
    },
}


class Desk:
    """One traveller's conversation."""

    def __init__(self) -> None:
        self.history: list[dict[str, Any]] = []
        self.facts: dict[str, Any] = {}

    def ask(self, text: str) -> str:
        """Answers the traveller."""
        self.history.append({"role": "user", "content": text})
        name = "triage"
        while True:
            reply, passed_to = self._run(name)
            if passed_to is None:
                self.history.append({"role": "assistant", "content": reply})
                return reply
            name = passed_to

    def _run(self, name: str) -> tuple[str, str | None]:
        agent = AGENTS[name]
        instructions = agent["instructions"].format(facts=json.dumps(self.facts))
        messages = [{"role": "system", "content": instructions}, *self.history]
        while True:
            completion = client.chat.completions.create(
                model=MODEL, messages=messages, tools=agent["tools"], temperature=0
            )
            message = completion.choices[0].message
            if not message.tool_calls:
                return message.content or "", None
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls:
                args = json.loads(call.function.arguments)
                if call.function.name.startswith("to_"):
                    # What triage said stays behind: the specialist sees the user's words.
                    self.facts.update(args)
                    return "", call.function.name.removeprefix("to_")
                result = TOOLS[call.function.name](**args)
                messages.append(
                    {"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)}
                )
