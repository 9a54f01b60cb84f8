"""A support team on Microsoft Agent Framework: a handoff workflow, and agents at once."""

from __future__ import annotations

from typing import Any

from agent_framework import Agent
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient
from agent_framework.orchestrations import ConcurrentBuilder, HandoffBuilder


def lookup_invoice(invoice_id: str) -> str:
    """Looks up an invoice."""
    return f"{invoice_id}: 42 EUR due"


def team(client: Any) -> Any:
    """Returns a workflow in which triage passes the case on to billing."""
    triage = Agent(
        client=client, name="triage", instructions="You are triage.",
        require_per_service_call_history_persistence=True,
    )  # fmt: skip
    billing = Agent(
        client=client, name="billing", instructions="You are billing.", tools=[lookup_invoice],
        require_per_service_call_history_persistence=True,
    )  # fmt: skip
    builder = HandoffBuilder(
        name="support",
        participants=[triage, billing],
        termination_condition=lambda reply: any("DONE" in (item.text or "") for item in reply),
    )
    return builder.with_start_agent(triage).add_handoff(triage, [billing]).build()


async def support(text: str) -> None:
    """Lets the team answer."""
    await team(OpenAIChatCompletionClient(model="gpt-4o")).run(text)


async def support_streamed(text: str) -> None:
    """Lets the team answer over the Responses API, streamed."""
    async for _ in team(OpenAIChatClient(model="gpt-4o")).run(text, stream=True):
        pass


async def panel(text: str) -> None:
    """Asks three agents with one prompt at once."""
    client = OpenAIChatCompletionClient(model="gpt-4o")
    agents = [Agent(client=client, name=name, instructions="Decide.") for name in ("a", "b", "c")]
    await ConcurrentBuilder(participants=agents).build().run(text)


async def delegating(text: str) -> str:
    """Lets an agent ask another one, which is its tool."""
    client = OpenAIChatCompletionClient(model="gpt-4o")
    expert = Agent(client=client, name="expert", instructions="You are the expert.")
    boss = Agent(
        client=client, name="boss", instructions="You are the boss.", tools=[expert.as_tool()]
    )
    return (await boss.run(text)).text
