"""What the conformance suite wants of the Agent Development Kit, as its users would write it."""

from __future__ import annotations

import asyncio
from typing import Any

from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.events import Event
from google.adk.models import Gemini, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool, ToolContext
from google.genai import types

from tests.testing.cancelling import cancelled_while

MODEL = "gemini-2.5-flash"


def look_up(word: str) -> str:
    """Looks a word up."""
    return f"{word} is known."


def agent(name: str, **more: Any) -> LlmAgent:
    return LlmAgent(**{"name": name, "model": MODEL, "instruction": f"You are {name}.", **more})


async def run(item: LlmAgent, text: str, **more: Any) -> list[Event]:
    """Runs an agent in a session of its own."""
    runner = InMemoryRunner(agent=item)
    session = await runner.session_service.create_session(app_name=runner.app_name, user_id="u")
    content = types.Content(role="user", parts=[types.Part(text=text)])
    result = runner.run_async(user_id="u", session_id=session.id, new_message=content, **more)
    return [event async for event in result]


def words_of(response: LlmResponse) -> str:
    parts = (response.content.parts if response.content else None) or []
    return "".join(part.text or "" for part in parts)


async def answer(item: LlmAgent, text: str) -> str:
    return words_of((await run(item, text))[-1])


solo = agent("writer")
sessions = agent("clerk")
tools = agent("clerk", tools=[look_up])
patience = types.HttpRetryOptions(attempts=2, initial_delay=1, jitter=0)
retry = agent("writer", model=Gemini(model=MODEL, retry_options=patience))

# Agents one after the other, beside each other, inside each other

first, second = agent("first"), agent("second")


async def chain(text: str) -> str:
    return await answer(second, await answer(first, text))


left = agent("left", instruction="You review.")
right = agent("right", instruction="You review.")


async def parallel(text: str) -> str:
    return " / ".join(await asyncio.gather(answer(left, text), answer(right, text)))


helper = agent("helper")


async def ask_helper(input: str) -> str:
    """Asks the helper."""
    return await answer(helper, input)


nested = agent("boss", tools=[ask_helper])

# Handoffs


def pass_on(topic: str, tool_context: ToolContext) -> str:
    """Lets the expert take over."""
    tool_context.actions.transfer_to_agent = "expert"
    return "Passed on."


def as_its_own(callback_context: CallbackContext) -> None:
    """Lets an agent see all that was done as its own doing, where the ADK would quote it."""
    for event in callback_context.session.events:
        if event.author != "user":
            event.author = callback_context.agent_name


def without_tools(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
    """Leaves tool traffic behind."""
    llm_request.contents = [
        content
        for content in llm_request.contents
        if not any(part.function_call or part.function_response for part in content.parts or [])
    ]


handoff = agent("front", tools=[pass_on], sub_agents=[agent("expert")])
unburdened = agent("expert", before_agent_callback=as_its_own, before_model_callback=without_tools)
filter = agent("front", tools=[look_up], sub_agents=[unburdened])

# State


def note(callback_context: CallbackContext, llm_response: LlmResponse) -> None:
    """Notes down what the agent says."""
    notes = callback_context.state.get("notes", [])
    callback_context.state["notes"] = [*notes, words_of(llm_response)]


noting = [agent(name, after_model_callback=note) for name in ("first", "second")]
state = SequentialAgent(name="notebook", sub_agents=noting)


# What may happen on the way


def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


interrupt = agent("teller", tools=[FunctionTool(pay, require_confirmation=True)])


async def stream(text: str) -> str:
    completed = await run(solo, text, run_config=RunConfig(streaming_mode=StreamingMode.SSE))
    return "".join(words_of(event) for event in completed if event.partial)


def lose(callback_context: CallbackContext, llm_response: LlmResponse) -> None:
    """Looks for what is not there."""
    raise LookupError("lost")


broken = agent("clerk", after_model_callback=lose)


async def cancel(text: str) -> str:
    waits = asyncio.Event()

    async def wait() -> None:
        """Waits for ever."""
        waits.set()
        await asyncio.Event().wait()

    return await cancelled_while(waits, run(agent("slow", tools=[wait]), text))
