"""Agents by hand that tell OpenTelemetry who is at work, as frameworks do: the API alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import openai
from opentelemetry import context, trace

import simkit

TRACER = trace.get_tracer("otel-team")
"""Made before any provider could be configured, as most frameworks make theirs."""
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("look_up", "pass_on")
]
ROWS = [{"role": "system", "content": "Decide."}, {"role": "user", "content": "Yes or no?"}]


@contextmanager
def invoking(agent: str) -> Iterator[trace.Span]:
    """Names an agent after its span has started."""
    with TRACER.start_as_current_span(f"invoke_agent {agent}") as span:
        span.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent})
        yield span


@contextmanager
def operation(name: str, agent: str = "") -> Iterator[None]:
    """A span around one operation, which may name the agent too."""
    attributes = {"gen_ai.operation.name": name}
    if agent:
        attributes["gen_ai.agent.name"] = agent
    with TRACER.start_as_current_span(name, attributes=attributes):
        yield


def ask(messages: list[dict[str, Any]], **settings: Any) -> Any:
    """Returns a model's message; the span of the call names nobody."""
    with operation("chat"):
        response = openai.OpenAI().chat.completions.create(
            model="gpt-5-mini",
            messages=messages,  # type: ignore[arg-type]
            **settings,
        )
    return response.choices[0].message


async def ask_async(messages: list[dict[str, Any]]) -> str:
    """Returns a model's text."""
    async with openai.AsyncOpenAI() as client:
        response = await client.chat.completions.create(
            model="gpt-5-mini",
            messages=messages,  # type: ignore[arg-type]
        )
    return response.choices[0].message.content or ""


def research(question: str) -> str:
    """An agent that another one calls as its tool."""
    with invoking("researcher"):
        rows = [{"role": "system", "content": "You research."}]
        return str(ask([*rows, {"role": "user", "content": question}]).content)


def desk(text: str) -> str:
    """An agent that works with a tool, which asks another agent, and then passes control."""
    rows: list[dict[str, Any]] = [{"role": "system", "content": "Help."}]
    rows.append({"role": "user", "content": text})
    with invoking("boss"), invoking("boss"):  # A wrapper of the framework's has a span as well.
        message = ask(rows, tools=TOOLS)
        (call,) = message.tool_calls
        with operation("execute_tool", "boss"):
            result = research(call.function.arguments)
            checked = ask([{"role": "user", "content": f"Is it right? {result}"}]).content
        rows += [message.model_dump(exclude_none=True)]
        rows += [{"role": "tool", "tool_call_id": call.id, "content": f"{result}: {checked}"}]
        last = ask(rows, tools=TOOLS)
    if last.content:
        return str(last.content)
    with invoking("closer"):
        return str(ask([{"role": "user", "content": f"{text} {rows[-1]['content']}"}]).content)


async def panel(text: str) -> str:
    """Asks three agents with one prompt at once."""

    async def member(name: str) -> str:
        with invoking(name):
            return await ask_async(ROWS)

    return ", ".join(await asyncio.gather(*(member(name) for name in ("a", "b", "c"))))


def crowd(text: str) -> str:
    """Asks three agents with one prompt from threads, the last one first."""

    def member(name: str) -> str:
        with invoking(name):
            return str(ask(ROWS).content)

    with ThreadPoolExecutor(1) as pool:
        waiting = {name: pool.submit(member, name) for name in ("c", "a", "b")}
        return ", ".join(waiting[name].result() for name in ("a", "b", "c"))


def by_calls(text: str) -> str:
    """Two agents that only the spans of their calls name, one of which uses a tool."""
    rows: list[dict[str, Any]] = [{"role": "user", "content": text}]
    with operation("chat", "clerk"):
        message = ask(rows, tools=TOOLS)
    rows += [message.model_dump(exclude_none=True)]
    rows += [{"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "nothing"}]
    with operation("chat", "clerk"):
        answer = ask(rows).content
    with operation("chat", "editor"):
        return str(ask([{"role": "user", "content": answer}]).content)


def by_hand(text: str) -> str:
    """An agent named on a span that says no operation, called twice."""
    with TRACER.start_as_current_span("work", attributes={"gen_ai.agent.name": "worker"}):
        return f"{ask(ROWS).content}, {ask(ROWS).content}"


def failing(text: str) -> str:
    """An agent that fails, and one that takes its place."""
    try:
        with invoking("first"):
            ask(ROWS)
            raise ValueError("no such thing")
    except ValueError:
        with invoking("second"):
            return str(ask(ROWS).content)


async def impatient(text: str) -> str:
    """An agent that is stopped in the middle of its work."""
    has_asked = asyncio.Event()

    async def slow() -> None:
        with invoking("slow"):
            await ask_async(ROWS)
            has_asked.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(slow())
    await has_asked.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    with invoking("quick"):
        return await ask_async(ROWS)


def marked(text: str) -> str:
    """Code that names the agent itself, inside a span that names another."""
    with invoking("outer"), simkit.agent("inner"):
        return str(ask(ROWS).content)


def nameless(text: str) -> str:
    """A span that names nobody."""
    with operation("invoke_agent"):
        return str(ask(ROWS).content)


def stale(text: str) -> str:
    """A call in the context of a span that has ended."""
    with invoking("starter"):
        folder = context.get_current()
    token = context.attach(folder)
    try:
        return f"{ask(ROWS).content}, {ask(ROWS).content}"
    finally:
        context.detach(token)
