"""Three models asked side by side, in the ways in which code does that."""

from __future__ import annotations

import asyncio
import operator
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypedDict

import anthropic
import openai
from langgraph.graph import END, START, StateGraph

NAMES = ("ann", "bob", "cid")


class Work(TypedDict, total=False):
    """A graph's state."""

    ended: Annotated[list[str], operator.add]


def _report(began: float, ended: list[str]) -> str:
    return f"{'; '.join(ended)}; all {time.monotonic() - began:.1f}"


def _body(name: str) -> Any:
    messages = [{"role": "system", "content": f"You are {name}."}, {"role": "user", "content": "?"}]
    return {"model": "gpt-5", "messages": messages}


async def _asked_in_loop(name: str, began: float) -> str:
    await openai.AsyncOpenAI().chat.completions.create(**_body(name))
    return f"{name} {time.monotonic() - began:.1f}"


def _timed(name: str, began: float) -> str:
    openai.OpenAI().chat.completions.create(**_body(name))
    return f"{name} {time.monotonic() - began:.1f}"


async def gathered(text: str) -> str:
    """Tasks of one event loop."""
    began, ended = time.monotonic(), list[str]()

    async def work(name: str) -> None:
        ended.append(await _asked_in_loop(name, began))

    await asyncio.gather(*map(work, NAMES))
    return _report(began, ended)


async def over_anthropic(text: str) -> str:
    """Tasks that use another client."""
    began, ended = time.monotonic(), list[str]()

    async def work(name: str) -> None:
        await anthropic.AsyncAnthropic().messages.create(
            model="claude-sonnet-5", max_tokens=9, system=f"You are {name}.",
            messages=[{"role": "user", "content": "?"}],
        )  # fmt: skip
        ended.append(f"{name} {time.monotonic() - began:.1f}")

    await asyncio.gather(*map(work, NAMES))
    return _report(began, ended)


async def in_threads_of_a_loop(text: str) -> str:
    """Clients that block, in threads of an event loop."""
    began, ended = time.monotonic(), list[str]()

    async def work(name: str) -> None:
        ended.append(await asyncio.to_thread(_timed, name, began))

    await asyncio.gather(*map(work, NAMES))
    return _report(began, ended)


def threads(text: str) -> str:
    """Plain threads."""
    began, ended = time.monotonic(), list[str]()
    started = [
        threading.Thread(target=lambda name=name: ended.append(_timed(name, began)))
        for name in NAMES
    ]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return _report(began, ended)


def pool(text: str) -> str:
    """A pool of threads."""
    began = time.monotonic()
    with ThreadPoolExecutor(3) as workers:
        ended = list(workers.map(lambda name: _timed(name, began), NAMES))
    return _report(began, sorted(ended, key=lambda item: item.rpartition(" ")[2]))


def _graph(node: Callable[[str], Any]) -> Any:
    graph = StateGraph(Work)
    for name in NAMES:
        graph.add_node(f"node_{name}", node(name))
        graph.add_edge(START, f"node_{name}")
        graph.add_edge(f"node_{name}", END)
    return graph.compile()


def parallel_nodes(text: str) -> str:
    """Nodes of a graph in one step."""
    began = time.monotonic()
    graph = _graph(lambda name: lambda state: {"ended": [_timed(name, began)]})
    ended = graph.invoke({"ended": []})["ended"]
    return _report(began, sorted(ended, key=lambda item: item.rpartition(" ")[2]))


async def parallel_nodes_in_loop(text: str) -> str:
    """The same, in an event loop."""
    began = time.monotonic()

    def node(name: str) -> Any:
        async def work(state: Work) -> Work:
            return {"ended": [await _asked_in_loop(name, began)]}

        return work

    ended = (await _graph(node).ainvoke({"ended": []}))["ended"]
    return _report(began, sorted(ended, key=lambda item: item.rpartition(" ")[2]))


WAYS = (
    gathered, over_anthropic, in_threads_of_a_loop, threads, pool, parallel_nodes,
    parallel_nodes_in_loop,
)  # fmt: skip
