"""A support team on Strands Agents: a swarm that hands over, and agents beside each other."""

from __future__ import annotations

import asyncio
from typing import Any

from strands import Agent, ToolContext, tool
from strands.models.openai import OpenAIModel
from strands.multiagent import GraphBuilder, Swarm


@tool
def lookup_invoice(invoice_id: str) -> str:
    """Looks up an invoice."""
    return f"{invoice_id}: 42 EUR due"


def agent(name: str, prompt: str, tools: list[Any] | None = None) -> Agent:
    """Returns an agent that prints nothing."""
    model = OpenAIModel(model_id="gpt-4o")
    return Agent(
        name=name, description=name, model=model, system_prompt=prompt, tools=tools or [],
        callback_handler=None,
    )  # fmt: skip


async def support(text: str) -> str:
    """Lets a swarm answer: triage passes the case on, and billing looks it up."""
    triage = agent("triage", "You are triage.")
    billing = agent("billing", "You are billing.", [lookup_invoice])
    result = await Swarm([triage, billing], entry_point=triage).invoke_async(text)
    return str(result.results["billing"].result).strip()


async def panel(text: str) -> str:
    """Asks three agents with one prompt at once."""
    results = await asyncio.gather(
        *(agent(name, "Decide.").invoke_async(text) for name in ("a", "b", "c"))
    )
    return ", ".join(str(result).strip() for result in results)


def graph(text: str) -> str:
    """Lets two agents work one after the other, in synchronous code."""
    builder = GraphBuilder()
    builder.add_node(agent("writer", "You write."), "writer")
    builder.add_node(agent("critic", "You criticise."), "critic")
    builder.add_edge("writer", "critic")
    builder.set_max_node_executions(4)
    return str(builder.build()(text).results["critic"].result).strip()


def delegating(text: str) -> str:
    """Lets an agent ask another one, which is its tool."""
    expert = agent("expert", "You are the expert.")
    return str(agent("boss", "You are the boss.", [expert])(text)).strip()


@tool(context=True)
def note(invoice_id: str, tool_context: ToolContext) -> str:
    """Notes an invoice."""
    tool_context.agent.state.set("invoice", invoice_id)
    return "Noted."


clerk = agent("clerk", "You are the clerk.", [note])
