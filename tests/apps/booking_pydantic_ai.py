"""The booking desk on PydanticAI."""

from __future__ import annotations

from typing import Any

from booking_tasks import TASKS
from booking_tools import PROMPT, THREADS, begin, charged
from pydantic_ai import Agent


def _desk(functions: tuple[Any, ...]) -> Agent:
    model = "openai-chat:gpt-5-mini"
    return Agent(model, name="desk", instructions=PROMPT, tools=[*functions])


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
