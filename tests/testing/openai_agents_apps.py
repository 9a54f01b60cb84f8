"""What the conformance suite wants of the OpenAI Agents SDK, as its users would write it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from agents import (
    Agent,
    AgentHooks,
    HandoffInputData,
    RunContextWrapper,
    Runner,
    function_tool,
    handoff,
)
from agents.extensions import handoff_filters
from openai.types.responses import ResponseTextDeltaEvent
from pydantic import BaseModel

from tests.testing.cancelling import cancelled_while


@function_tool
def look_up(word: str) -> str:
    """Looks a word up."""
    return f"{word} is known."


def agent(name: str, **more: Any) -> Agent[Any]:
    return Agent(name=name, instructions=f"You are {name}.", **more)


solo = agent("writer")
retry = agent("writer")
sessions = agent("clerk")
tools = agent("clerk", tools=[look_up])

# Agents one after the other, beside each other, inside each other

first, second = agent("first"), agent("second")


async def chain(text: str) -> str:
    completed = await Runner.run(first, text)
    return str((await Runner.run(second, completed.final_output)).final_output)


left = Agent(name="left", instructions="You review.")
right = Agent(name="right", instructions="You review.")


async def parallel(text: str) -> str:
    results = await asyncio.gather(Runner.run(left, text), Runner.run(right, text))
    return " / ".join(result.final_output for result in results)


nested = agent("boss", tools=[agent("helper").as_tool("ask_helper", "Asks the helper.")])

# Handoffs


class Topic(BaseModel):
    """What it is about."""

    topic: str


async def on_handoff(context: RunContextWrapper[Any], topic: Topic) -> None:
    """Takes note."""


def without_tools(data: HandoffInputData) -> HandoffInputData:
    """Leaves tool traffic behind."""
    return handoff_filters.remove_all_tools(data)


expert = agent("expert")
to_expert = handoff(expert, tool_name_override="pass_on", on_handoff=on_handoff, input_type=Topic)
filtering = handoff(expert, tool_name_override="pass_on", input_filter=without_tools)
handoff = agent("front", handoffs=[to_expert])
filter = agent("front", tools=[look_up], handoffs=[filtering])

# State


@dataclass
class Notebook:
    """What agents share."""

    notes: list[str] = field(default_factory=list)


class Notes(AgentHooks[Notebook]):
    """Notes down what an agent says."""

    async def on_end(
        self, context: RunContextWrapper[Notebook], agent: Agent[Any], output: Any
    ) -> None:
        """Adds it."""
        context.context.notes.append(output)


async def state(text: str) -> str:
    notebook = Notebook()
    for name in ("first", "second"):
        await Runner.run(agent(name, hooks=Notes()), text, context=notebook)
    return notebook.notes[-1]


# What may happen on the way


@function_tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


interrupt = agent("teller", tools=[pay])


async def stream(text: str) -> str:
    result = Runner.run_streamed(agent("writer"), text)
    return "".join(
        [
            event.data.delta
            async for event in result.stream_events()
            if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent)
        ]
    )


class Lost(AgentHooks[Any]):
    """Looks for what is not there."""

    async def on_llm_end(self, context: Any, agent: Agent[Any], response: Any) -> None:
        """Fails."""
        raise LookupError("lost")


broken = agent("clerk", hooks=Lost())


async def cancel(text: str) -> str:
    waits = asyncio.Event()

    @function_tool
    async def wait() -> None:
        """Waits for ever."""
        waits.set()
        await asyncio.Event().wait()

    return await cancelled_while(waits, Runner.run(agent("slow", tools=[wait]), text))
