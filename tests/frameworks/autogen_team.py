"""A support team on AutoGen: a swarm that hands over, and agents beside each other."""

from __future__ import annotations

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import Handoff
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.teams import Swarm
from autogen_agentchat.tools import AgentTool
from autogen_ext.models.openai import OpenAIChatCompletionClient


def lookup_invoice(invoice_id: str) -> str:
    """Looks up an invoice."""
    return f"{invoice_id}: 42 EUR due"


def model() -> OpenAIChatCompletionClient:
    """Returns the client that all agents use."""
    return OpenAIChatCompletionClient(model="gpt-4o-2024-08-06", parallel_tool_calls=False)


async def support(text: str) -> str:
    """Lets a swarm answer: triage passes the case on, and billing looks it up."""
    triage = AssistantAgent(
        "triage",
        model(),
        system_message="You are triage.",
        handoffs=[Handoff(target="billing", message="Please handle this billing case.")],
    )
    billing = AssistantAgent(
        "billing",
        model(),
        system_message="You are billing.",
        tools=[lookup_invoice],
        reflect_on_tool_use=True,
    )
    ends = TextMentionTermination("DONE") | MaxMessageTermination(12)
    result = await Swarm([triage, billing], termination_condition=ends).run(task=text)
    return result.messages[-1].to_text()


async def panel(text: str) -> str:
    """Asks three agents with one prompt at once."""
    agents = [AssistantAgent(name, model(), system_message="Decide.") for name in ("a", "b", "c")]
    results = await asyncio.gather(*(agent.run(task=text) for agent in agents))
    return ", ".join(result.messages[-1].to_text() for result in results)


async def delegating(text: str) -> str:
    """Lets an agent ask another one, which is its tool."""
    expert = AssistantAgent(
        "expert", model(), description="Knows it.", system_message="You are the expert."
    )
    boss = AssistantAgent(
        "boss", model(), system_message="You are the boss.", tools=[AgentTool(expert)],
        max_tool_iterations=3,
    )  # fmt: skip
    result = await boss.run(task=text)
    return result.messages[-1].to_text()
