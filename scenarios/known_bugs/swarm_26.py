"""A tool and a handoff in one answer of a langgraph-swarm: the tool's call stays unanswered."""

from __future__ import annotations

from langchain.agents import create_agent
from langgraph_swarm import create_handoff_tool, create_swarm


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


alice = create_agent(
    "openai:gpt-5-mini",
    [add, create_handoff_tool(agent_name="Bob")],
    system_prompt="You are Alice, who adds.",
    name="Alice",
)
bob = create_agent("openai:gpt-5-mini", [], system_prompt="You are Bob.", name="Bob")
app = create_swarm([alice, bob], default_active_agent="Alice").compile()
