"""Streams of the ADK that are left before their end."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.runners import InMemoryRunner
from google.genai import types


def look_up(word: str) -> str:
    """Looks a word up."""
    return f"{word} is known."


clerk = LlmAgent(
    name="clerk", model="gemini-2.5-flash", instruction="You are clerk.", tools=[look_up]
)


def events(text: str) -> Any:
    """Yields what happens in a new session."""
    runner = InMemoryRunner(agent=clerk, app_name="left")
    runner.auto_create_session = True
    content = types.UserContent(text)
    return runner.run_async(user_id="u", session_id="s", new_message=content)


async def left_at_work(text: str) -> str:
    """Its tool is about to be carried out."""
    async with aclosing(events(text)) as stream:
        async for _ in stream:
            break
    return "Left."


async def left_behind_the_answer(text: str) -> str:
    """As users of the ADK leave: with the final response."""
    async with aclosing(events(text)) as stream:
        async for event in stream:
            if event.is_final_response():
                break
    return "Left."
