"""The booking desk on the ADK, which calls plain functions in its loop."""

from __future__ import annotations

from typing import Any

from booking_tasks import TASKS
from booking_tools import PROMPT, THREADS, begin, charged
from google.adk.agents import LlmAgent
from google.adk.runners import InMemoryRunner
from google.genai import types


def _desk(functions: tuple[Any, ...]) -> LlmAgent:
    model = "gemini-2.5-flash"
    return LlmAgent(name="desk", model=model, instruction=PROMPT, tools=[*functions])


in_loop, in_tasks = _desk(THREADS), _desk(TASKS)


async def _answer(desk: LlmAgent, text: str) -> str:
    begin()
    runner = InMemoryRunner(desk, app_name="booking")
    session = await runner.session_service.create_session(app_name="booking", user_id="u")
    message = types.Content(role="user", parts=[types.Part(text=text)])
    async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=message):
        pass
    return charged()


async def tasks(text: str) -> str:
    """Tools that are coroutines."""
    return await _answer(in_tasks, text)


async def threads_of_tasks(text: str) -> str:
    """Tools that are plain functions."""
    return await _answer(in_loop, text)
