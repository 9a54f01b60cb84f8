"""PydanticAI agents whose exported traces are imported."""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent, ModelRetry

MODEL = "openai-chat:gpt-5-mini"
desk = Agent(MODEL, name="desk", instructions="You are the desk.")
orders = Agent(MODEL, name="orders", instructions="You know orders.")
lead = Agent(MODEL, name="lead", instructions="You lead.")


@desk.tool_plain
@orders.tool_plain
def look_up(order: str) -> str:
    """Looks an order up."""
    if order == "A-0":
        raise ModelRetry("There is no such order.")
    return f"{order} was shipped."


@lead.tool_plain
async def ask_orders(question: str) -> str:
    """Asks who knows orders."""
    return (await orders.run(question)).output


async def streamed(text: str) -> str:
    """Answers the user, streamed."""
    async with desk.run_stream(text) as result:
        return await result.get_output()


async def side_by_side(text: str) -> str:
    """Asks two agents at once."""
    answers = await asyncio.gather(desk.run(text), orders.run(text))
    return " / ".join(answer.output for answer in answers)
