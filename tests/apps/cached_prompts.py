"""Assistants whose requests begin otherwise each time, as public reports describe, each followed by
the mended one: what changes stands behind what stays."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, TypeAlias

import openai

import simkit

STABLE = "You look after a home, room by room, and say what you did in one short sentence. " * 64
"""About 1,300 tokens."""
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Sets the {name} of a room. " * 8,
            "parameters": {"type": "object", "properties": {"room": {"type": "string"}}},
        },
    }
    for name in ("lights", "heating", "blinds")
]


def clock() -> str:
    return f"Current time is {datetime.datetime.now(datetime.UTC):%H:%M:%S}."


Build: TypeAlias = Callable[[list[Any]], dict[str, Any]]
"""Makes messages, tools and model of a request of what was said."""


class Assistant:
    """One conversation."""

    def __init__(self, build: Build) -> None:
        self.build, self.history = build, list[Any]()

    def __call__(self, text: str) -> str:
        """Answer a user, after any number of tool calls."""
        self.history.append({"role": "user", "content": text})
        with simkit.agent("home"):
            while True:
                request = {"model": "gpt-5-mini", **self.build(self.history)}
                message = openai.OpenAI().chat.completions.create(**request).choices[0].message
                self.history.append(message.model_dump(exclude_none=True))
                if not message.tool_calls:
                    return message.content or ""
                self.history += [
                    {"role": "tool", "tool_call_id": call.id, "content": "done"}
                    for call in message.tool_calls
                ]


def system(*texts: str) -> dict[str, str]:
    return {"role": "system", "content": "\n".join(texts)}


def ends_with(history: list[Any], text: str) -> list[Any]:
    """Put what changes behind everything else, in the request only."""
    return [*history, {"role": "user", "content": text}]


def turns_in(history: list[Any]) -> int:
    return sum(message["role"] == "user" for message in history)


def model_at(history: list[Any]) -> str:
    return ("gpt-5-mini", "gpt-5", "gpt-5-mini")[turns_in(history) - 1]


def conversation(build: Build) -> Callable[[], Assistant]:
    """Return what begins a conversation whose requests a function builds."""

    def begin() -> Assistant:
        return Assistant(build)

    return begin


@conversation
def nudge(history: list[Any]) -> dict[str, Any]:
    warned = ("You repeat yourself.",) if turns_in(history) == 2 else ()
    return {"messages": [system(*warned, STABLE), *history]}


@conversation
def nudge_behind(history: list[Any]) -> dict[str, Any]:
    base = [system(STABLE), *history]
    is_due = turns_in(history) == 2
    return {"messages": ends_with(base, "You repeat yourself.") if is_due else base}


@conversation
def scoped(history: list[Any]) -> dict[str, Any]:
    return {"messages": [system("Home.", f"Turn {turns_in(history)}.", STABLE), *history]}


@conversation
def scoped_behind(history: list[Any]) -> dict[str, Any]:
    base = [system("Home.", STABLE), *history]
    return {"messages": ends_with(base, f"Turn {turns_in(history)}.")}


@conversation
def shuffled(history: list[Any]) -> dict[str, Any]:
    first = turns_in(history) % 3
    tools = [*TOOLS[first:], *TOOLS[:first]]
    return {"messages": [system(STABLE), *history], "tools": tools}


@conversation
def ordered(history: list[Any]) -> dict[str, Any]:
    return {"messages": [system(STABLE), *history], "tools": TOOLS}


@conversation
def clock_first(history: list[Any]) -> dict[str, Any]:
    return {"messages": [system(clock(), STABLE), *history]}


@conversation
def clock_behind(history: list[Any]) -> dict[str, Any]:
    return {"messages": ends_with([system(STABLE), *history], clock())}


@conversation
def relevant(history: list[Any]) -> dict[str, Any]:
    is_result = history[-1]["role"] == "tool"
    memory = "<memories>recent</memories>" if is_result else "<memories>alike</memories>"
    tools = TOOLS[::-1] if is_result else TOOLS
    return {"messages": [system(memory, STABLE), *history], "tools": tools}


@conversation
def relevant_behind(history: list[Any]) -> dict[str, Any]:
    base = [system(STABLE), *history]
    return {"messages": ends_with(base, "<memories>alike</memories>"), "tools": TOOLS}


@conversation
def todo_first(history: list[Any]) -> dict[str, Any]:
    todo = {"role": "user", "content": f"To do: {turns_in(history)} of 3."}
    return {"messages": [system("Home."), todo, {"role": "user", "content": STABLE}, *history]}


@conversation
def todo_behind(history: list[Any]) -> dict[str, Any]:
    base = [system("Home."), {"role": "user", "content": STABLE}, *history]
    return {"messages": ends_with(base, f"To do: {turns_in(history)} of 3.")}


@conversation
def rebuilt_prompt(history: list[Any]) -> dict[str, Any]:
    memory = "Memory: none." if turns_in(history) == 1 else "Memory: tea."
    return {"model": model_at(history), "messages": [system(memory, STABLE), *history]}


@conversation
def rebuilt_never(history: list[Any]) -> dict[str, Any]:
    return {"model": model_at(history), "messages": [system("Memory: none.", STABLE), *history]}
