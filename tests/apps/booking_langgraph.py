"""The booking desk on LangGraph, its tools in threads and in tasks."""

from __future__ import annotations

from typing import Any

from booking_tasks import TASKS
from booking_tools import PROMPT, THREADS, begin, charged
from langchain.agents import create_agent
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI


def _desk(kind: str, functions: tuple[Any, ...]) -> Any:
    tools = [
        StructuredTool.from_function(name=function.__name__, **{kind: function})
        for function in functions
    ]
    model = ChatOpenAI(model="gpt-5-mini", api_key="sk-test")
    return create_agent(model, tools, system_prompt=PROMPT, name="desk")


in_threads, in_tasks = _desk("func", THREADS), _desk("coroutine", TASKS)


def threads(text: str) -> str:
    """Tools in threads of a graph that blocks."""
    begin()
    in_threads.invoke({"messages": [("user", text)]})
    return charged()


async def tasks(text: str) -> str:
    """Tools that are coroutines."""
    begin()
    await in_tasks.ainvoke({"messages": [("user", text)]})
    return charged()


async def threads_of_tasks(text: str) -> str:
    """Tools in threads of a graph that does not block."""
    begin()
    await in_threads.ainvoke({"messages": [("user", text)]})
    return charged()
