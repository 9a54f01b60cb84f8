"""The booking desk on the OpenAI Agents SDK."""

from __future__ import annotations

from typing import Any

from agents import Agent, Runner, function_tool
from booking_tasks import TASKS
from booking_tools import PROMPT, THREADS, begin, charged


def _desk(functions: tuple[Any, ...]) -> Agent:
    tools = [function_tool(function) for function in functions]
    return Agent("desk", instructions=PROMPT, model="gpt-5-mini", tools=[*tools])


in_threads, in_tasks = _desk(THREADS), _desk(TASKS)


def threads(text: str) -> str:
    """Tools in threads of a run that blocks."""
    begin()
    Runner.run_sync(in_threads, text)
    return charged()


async def tasks(text: str) -> str:
    """Tools that are coroutines."""
    begin()
    await Runner.run(in_tasks, text)
    return charged()


async def threads_of_tasks(text: str) -> str:
    """Tools in threads of a run that does not block."""
    begin()
    await Runner.run(in_threads, text)
    return charged()
