"""The booking desk on PydanticAI."""

from __future__ import annotations

from typing import Any

from booking_tools import PROMPT, TASKS, THREADS, begin, charged
from pydantic_ai import Agent
from pydantic_ai.tools import Tool


def _desk(functions: dict[str, Any]) -> Agent:
    tools = [Tool(function, name=name) for name, function in functions.items()]
    return Agent("openai-chat:gpt-5-mini", name="desk", instructions=PROMPT, tools=[*tools])


in_threads, in_tasks = _desk(THREADS), _desk(TASKS)


def threads(text: str) -> str:
    """Tools in threads of a run that blocks."""
    begin()
    in_threads.run_sync(text)
    return charged()


async def tasks(text: str) -> str:
    """Tools that are coroutines."""
    begin()
    await in_tasks.run(text)
    return charged()


async def threads_of_tasks(text: str) -> str:
    """Tools in threads of a run that does not block."""
    begin()
    await in_threads.run(text)
    return charged()
