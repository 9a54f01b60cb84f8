"""Streams of the OpenAI Agents SDK that are left before their end."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from agents import Agent, Runner, function_tool


@function_tool
def look_up(word: str) -> str:
    """Looks a word up."""
    return f"{word} is known."


clerk = Agent(name="clerk", instructions="You are clerk.", tools=[look_up])


async def left_at_work(text: str) -> str:
    """The SDK stops who is at work if it is asked to, and not otherwise."""
    result = Runner.run_streamed(clerk, text)
    async for event in result.stream_events():
        if event.type == "raw_response_event":
            result.cancel()
    return "Left."


async def left_behind_the_answer(text: str) -> str:
    """Whoever leaves waits for the run, which goes on."""
    result: Any = Runner.run_streamed(clerk, text)
    async with aclosing(result.stream_events()) as events:
        async for _ in events:
            break
    return "Left."
