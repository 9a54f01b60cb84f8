"""Ways of doing three things side by side, which take 2, 1 and 2 seconds."""

from __future__ import annotations

import asyncio
import operator
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Send

TASKS = (("a", 2.0), ("b", 1.0), ("c", 2.0))


class Work(TypedDict, total=False):
    task: tuple[str, float]
    ended: Annotated[list[str], operator.add]


class Watch:
    """Notes what begins and ends, and when, in seconds since it was started."""

    def __init__(self) -> None:
        self.began, self.notes = time.monotonic(), list[str]()

    def note(self, subject: str) -> None:
        self.notes.append(f"{subject} {time.monotonic() - self.began:.1f}")

    def work(self, name: str, seconds: float) -> dict[str, Any]:
        self.note(f"{name} begins")
        time.sleep(seconds)
        self.note(f"{name} ends")
        return {"ended": [name]}

    async def work_in_loop(self, name: str, seconds: float) -> dict[str, Any]:
        self.note(f"{name} begins")
        await asyncio.sleep(seconds)
        self.note(f"{name} ends")
        return {"ended": [name]}

    def report(self) -> str:
        return "; ".join(self.notes)


async def gathered(text: str) -> str:
    watch = Watch()
    await asyncio.gather(*(watch.work_in_loop(*task) for task in TASKS))
    return watch.report()


async def loop_and_threads(text: str) -> str:
    watch = Watch()
    *others, last = TASKS
    in_thread = (asyncio.to_thread(watch.work, *task) for task in others)
    await asyncio.gather(*in_thread, watch.work_in_loop(*last))
    return watch.report()


def in_threads(text: str) -> str:
    watch = Watch()
    threads = [threading.Thread(target=watch.work, args=task) for task in TASKS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return watch.report()


def in_pool(text: str) -> str:
    watch = Watch()
    with ThreadPoolExecutor() as pool:
        [*pool.map(lambda task: watch.work(*task), TASKS)]
    return watch.report()


def _of(work: Callable[..., Any], task: tuple[str, float]) -> Callable[..., Any]:
    async def node_in_loop(state: Work) -> dict[str, Any]:
        return dict(await work({"task": task}))

    def node(state: Work) -> dict[str, Any]:
        return dict(work({"task": task}))

    return node_in_loop if asyncio.iscoroutinefunction(work) else node


def _graph(work: Callable[..., Any], is_sent: bool) -> Any:
    graph = StateGraph(Work)
    if is_sent:
        graph.add_node("worker", work)
        sends = [Send("worker", {"task": task}) for task in TASKS]
        graph.add_conditional_edges(START, lambda state: sends, ["worker"])
        return graph.compile()
    for task in TASKS:
        graph.add_node(task[0], _of(work, task))
        graph.add_edge(START, task[0])
        graph.add_edge(task[0], END)
    return graph.compile()


def nodes(text: str) -> str:
    watch = Watch()
    _graph(lambda state: watch.work(*state["task"]), False).invoke({})
    return watch.report()


def sends(text: str) -> str:
    watch = Watch()
    _graph(lambda state: watch.work(*state["task"]), True).invoke({})
    return watch.report()


async def nodes_in_loop(text: str) -> str:
    watch = Watch()

    async def work(state: Work) -> dict[str, Any]:
        return await watch.work_in_loop(*state["task"])

    await _graph(work, False).ainvoke({})
    return watch.report()


async def sends_in_loop(text: str) -> str:
    watch = Watch()

    async def work(state: Work) -> dict[str, Any]:
        return await watch.work_in_loop(*state["task"])

    await _graph(work, True).ainvoke({})
    return watch.report()


def tools(text: str) -> str:
    watch = Watch()

    @tool
    def work(name: str, seconds: float) -> str:
        """Work."""
        return str(watch.work(name, seconds))

    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([work]))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    calls = [
        {"name": "work", "args": {"name": name, "seconds": seconds}, "id": name}
        for name, seconds in TASKS
    ]
    graph.compile().invoke({"messages": [AIMessage("", tool_calls=calls)]})
    return watch.report()


def chains(text: str) -> str:
    watch = Watch()

    def node(state: Work) -> dict[str, Any]:
        steps = {
            task[0]: RunnableLambda(lambda given, task=task: watch.work(*task)) for task in TASKS
        }
        RunnableParallel(steps).invoke({})
        return {"ended": []}

    graph = StateGraph(Work)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    graph.compile().invoke({})
    return watch.report()


async def for_ever(text: str) -> str:
    watch = Watch()
    background = asyncio.create_task(asyncio.sleep(float("inf")))
    await watch.work_in_loop("a", 1)
    background.cancel()
    return watch.report()


WAYS = (
    gathered, in_threads, in_pool, nodes, sends, nodes_in_loop, sends_in_loop,
    tools, chains,
)  # fmt: skip
