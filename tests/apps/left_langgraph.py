"""Streams of LangGraph that are left before their end."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI


def look_up(word: str) -> str:
    """Looks a word up."""
    return f"{word} is known."


clerk = create_agent(
    ChatOpenAI(model="gpt-5"), [look_up], name="clerk", system_prompt="You are clerk."
)


def steps(text: str) -> Any:
    """Yields what each step adds."""
    return clerk.astream({"messages": [("user", text)]}, stream_mode="updates")


async def left_at_work(text: str) -> str:
    """Its tool is about to be carried out."""
    async with aclosing(steps(text)) as stream:
        async for _ in stream:
            break
    return "Left."


async def left_behind_the_answer(text: str) -> str:
    """All steps were read."""
    async with aclosing(steps(text)) as stream:
        async for _ in stream:
            pass
    return "Left."
