"""Ways of waiting 5 seconds for something that takes as long as the user or the scenario says."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from typing import Any

import anyio
from agents import Agent, function_tool
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI, OpenAI
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.models.openai import OpenAIChatModel

# Waits of threads


def giving_up(wait: Callable[[Callable[[], bool], Any], Any]) -> Callable[[str], str]:
    """Return an application whose wait is for a thread that sleeps as the user says."""

    def run(text: str) -> str:
        OpenAI().responses.create(model="gpt-5", input=text)

        def slow() -> bool:
            time.sleep(float(text))
            return True

        with ThreadPoolExecutor() as pool:
            try:
                return "in time" if wait(slow, pool) else "too slow"
            except (TimeoutError, queue.Empty):
                return "too slow"

    return run


def all_completed(slow: Callable[[], bool], pool: Any) -> list[Any]:
    work = [pool.submit(slow), pool.submit(time.sleep, 2)]
    return [future.result() for future in as_completed(work, timeout=5)]


def started(slow: Callable[[], bool], then: Callable[..., Any], *args: Any) -> threading.Thread:
    thread = threading.Thread(target=lambda: (slow(), then(*args)))
    thread.start()
    return thread


def by_queue(slow: Callable[[], bool], pool: Any) -> Any:
    items: queue.Queue[bool] = queue.Queue()
    started(slow, items.put, True)
    return items.get(timeout=5)


def by_event(slow: Callable[[], bool], pool: Any) -> bool:
    happened = threading.Event()
    started(slow, happened.set)
    return happened.wait(5)


def by_semaphore(slow: Callable[[], bool], pool: Any) -> bool:
    free = threading.Semaphore(0)
    started(slow, free.release)
    return free.acquire(timeout=5)


def by_end(slow: Callable[[], bool], pool: Any) -> bool:
    thread = started(slow, bool)
    thread.join(5)
    return not thread.is_alive()


def by_timer(slow: Callable[[], bool], pool: Any) -> bool:
    order: list[str] = []
    late = threading.Timer(5, order.append, ["timer"])
    late.start()
    slow()
    late.cancel()
    return not order


future = giving_up(lambda slow, pool: pool.submit(slow).result(timeout=5))
futures = giving_up(lambda slow, pool: not wait([pool.submit(slow)], timeout=5).not_done)
completion, queued, event = map(giving_up, (all_completed, by_queue, by_event))
semaphore, end, timer = map(giving_up, (by_semaphore, by_end, by_timer))


# Tools


def look(order: str) -> str:
    """Look up an order."""
    raise AssertionError("the scenario answers")


async def look_in_loop(order: str) -> str:
    """Look up an order."""
    raise AssertionError("the scenario answers")


def own(wait: Callable[[], Awaitable[str]]) -> Callable[[str], Awaitable[str]]:
    """Return an application that calls its tool by itself."""

    async def run(text: str) -> str:
        await AsyncOpenAI().responses.create(model="gpt-5", input=text)
        try:
            return await wait()
        except TimeoutError:
            return "too slow"

    return run


async def scoped() -> str:
    with anyio.move_on_after(5):
        return await look_in_loop("A")
    return "too slow"


timeout = own(lambda: asyncio.wait_for(look_in_loop("A"), 5))
scope = own(scoped)
thread = own(lambda: asyncio.wait_for(asyncio.to_thread(look, "A"), 5))

llm = ChatOpenAI(model="gpt-5-mini")


def graph(function: Callable[..., Any]) -> Any:
    agent = create_agent(llm, [tool("look")(function)], name="desk")
    agent.step_timeout = 5
    return agent


def steps(text: str) -> str:
    try:
        return str(graph(look).invoke({"messages": [("user", text)]})["messages"][-1].text)
    except TimeoutError:
        return "too slow"


async def steps_in_loop(text: str) -> str:
    try:
        state = await graph(look_in_loop).ainvoke({"messages": [("user", text)]})
        return str(state["messages"][-1].text)
    except TimeoutError:
        return "too slow"


openai_agents = Agent(
    name="desk", tools=[function_tool(look_in_loop, name_override="look", timeout=5)]
)
pydantic_ai = PydanticAgent(OpenAIChatModel("gpt-5-mini"), name="desk", tool_timeout=5)
pydantic_ai.tool_plain(name="look")(look_in_loop)
