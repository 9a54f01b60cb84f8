"""What the conformance suite wants of PydanticAI, as its users would write it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, ModelMessage, RunContext, ToolOutput
from pydantic_ai.capabilities import AbstractCapability, ProcessHistory

from tests.testing.cancelling import cancelled_while

MODEL = "openai-chat:gpt-4o"


def look_up(word: str) -> str:
    """Looks a word up."""
    return f"{word} is known."


def agent(name: str, **more: Any) -> Agent[Any, Any]:
    return Agent(MODEL, name=name, instructions=f"You are {name}.", **more)


solo = agent("writer")
retry = agent("writer")
sessions = agent("clerk")
tools = agent("clerk", tools=[look_up])


@dataclass
class Count:
    """How many there are."""

    count: int


output = agent("clerk", output_type=Count, tools=[look_up])

# Agents one after the other, beside each other, inside each other

first, second = agent("first"), agent("second")


async def chain(text: str) -> str:
    completed = await first.run(text)
    return str((await second.run(completed.output)).output)


left = Agent(MODEL, name="left", instructions="You review.")
right = Agent(MODEL, name="right", instructions="You review.")


async def parallel(text: str) -> str:
    results = await asyncio.gather(left.run(text), right.run(text))
    return " / ".join(result.output for result in results)


nested, helper = agent("boss"), agent("helper")


@nested.tool_plain
async def ask_helper(input: str) -> str:
    """Asks the helper."""
    return str((await helper.run(input)).output)


# Handoffs


def without_tools(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Leaves tool traffic behind."""
    return [
        message
        for message in messages
        if not any(part.part_kind in ("tool-call", "tool-return") for part in message.parts)
    ]


expert = agent("expert", capabilities=[ProcessHistory(without_tools)])


async def pass_on(ctx: RunContext[Any], topic: str = "") -> str:
    """Passes on what was said, but for the call that does so."""
    result = await expert.run(topic or None, message_history=ctx.messages[:-1])
    return str(result.output)


to_expert = ToolOutput(pass_on, name="pass_on")
handoff = agent("front", output_type=[to_expert])
filter = agent("front", output_type=[to_expert], tools=[look_up])

# State


@dataclass
class Notebook:
    """What agents share."""

    notes: list[str] = field(default_factory=list)


def noting(name: str) -> Agent[Notebook, Any]:
    result = agent(name, deps_type=Notebook)

    @result.output_validator
    def note(ctx: RunContext[Notebook], output: str) -> str:
        """Notes down what the agent says."""
        ctx.deps.notes.append(output)
        return output

    return result


async def state(text: str) -> str:
    notebook = Notebook()
    for name in ("first", "second"):
        await noting(name).run(text, deps=notebook)
    return notebook.notes[-1]


# What may happen on the way


def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


interrupt = agent("teller", output_type=[str, DeferredToolRequests])
interrupt.tool_plain(requires_approval=True)(pay)


async def stream(text: str) -> str:
    async with agent("writer").run_stream(text) as result:
        return "".join([piece async for piece in result.stream_text(delta=True, debounce_by=None)])


class Lost(AbstractCapability[Any]):
    """Looks for what is not there."""

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
        """Fails."""
        raise LookupError("lost")


broken = agent("clerk", capabilities=[Lost()])


async def cancel(text: str) -> str:
    waits = asyncio.Event()
    slow = agent("slow")

    @slow.tool_plain
    async def wait() -> None:
        """Waits for ever."""
        waits.set()
        await asyncio.Event().wait()

    return await cancelled_while(waits, slow.run(text))
