"""A desk on PydanticAI: one agent, in a conversation that was long before."""

from __future__ import annotations

import time
import uuid
from typing import Any

from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

TEXT = "the quick brown fox jumps over the lazy dog " * 4

desk = Agent(name="desk", instructions="Help.")


def use(client: AsyncOpenAI) -> None:
    """Lets the agent ask through a client."""
    desk.model = OpenAIChatModel("gpt-5", provider=OpenAIProvider(openai_client=client))


def history(size: int) -> list[ModelMessage]:
    """Returns what was said before."""
    said: list[ModelMessage] = []
    for number in range(size // 2):
        said.append(ModelRequest(parts=[UserPromptPart(f"earlier {number} {TEXT}")]))
        said.append(ModelResponse(parts=[TextPart(f"then {number} {TEXT}")]))
    return said


FEW, MANY = history(10), history(1_000)


async def after_few(text: str) -> Any:
    """Answers a message."""
    return (await desk.run(text, message_history=FEW)).output


async def after_few_timed(text: str) -> Any:
    """Answers a message in code that reads a clock and draws an id."""
    return (time.time(), uuid.uuid4()) and (await desk.run(text, message_history=FEW)).output


async def after_many(text: str) -> Any:
    """Answers a message of a long conversation."""
    return (await desk.run(text, message_history=MANY)).output
