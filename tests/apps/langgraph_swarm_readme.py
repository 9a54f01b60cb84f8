"""langgraph-swarm's quick start, as its README has it: Alice adds, Bob speaks like a pirate."""

from __future__ import annotations

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_swarm import create_handoff_tool, create_swarm


def add(a: int, b: int) -> int:
    """Add two numbers"""
    return a + b


alice = create_agent(
    "openai:gpt-4o",
    tools=[add, create_handoff_tool(agent_name="Bob", description="Transfer to Bob")],
    system_prompt="You are Alice, an addition expert.",
    name="Alice",
)
bob = create_agent(
    "openai:gpt-4o",
    tools=[
        create_handoff_tool(
            agent_name="Alice", description="Transfer to Alice, she can help with math"
        )
    ],
    system_prompt="You are Bob, you speak like a pirate.",
    name="Bob",
)
app = create_swarm([alice, bob], default_active_agent="Alice").compile(checkpointer=InMemorySaver())
