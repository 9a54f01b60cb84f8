"""A desk on the OpenAI Agents SDK: triage hands over, in a conversation that was long before."""

from __future__ import annotations

import time
import uuid
from typing import Any

from agents import Agent, Runner

TEXT = "the quick brown fox jumps over the lazy dog " * 4

billing = Agent[Any](name="Billing", instructions="Answer about bills.")
triage = Agent[Any](name="Triage", instructions="Pass people on.", handoffs=[billing])


def history(size: int) -> list[Any]:
    """Returns what was said before."""
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": f"earlier {n} {TEXT}"} for n in range(size)]


FEW, MANY = history(10), history(1_000)


async def after_few(text: str) -> Any:
    """Answers a message."""
    return await _answered(FEW, text)


async def after_few_timed(text: str) -> Any:
    """Answers a message in code that reads a clock and draws an id."""
    return (time.time(), uuid.uuid4()) and await _answered(FEW, text)


async def after_many(text: str) -> Any:
    """Answers a message of a long conversation."""
    return await _answered(MANY, text)


async def _answered(said: list[Any], text: str) -> Any:
    result = await Runner.run(triage, [*said, {"role": "user", "content": text}])
    return result.final_output
