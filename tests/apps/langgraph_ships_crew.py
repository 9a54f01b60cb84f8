"""A crew on langgraph-swarm: whoever was handed the wheel keeps it, from one turn to the next."""

from __future__ import annotations

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_swarm import create_handoff_tool, create_swarm


def knots(miles: int, hours: int) -> float:
    """Returns a ship's speed."""
    return miles / hours


mate = create_agent(
    "openai:gpt-4o",
    tools=[knots, create_handoff_tool(agent_name="captain")],
    system_prompt="You are the mate, and good with numbers.",
    name="mate",
)
captain = create_agent(
    "openai:gpt-4o",
    tools=[create_handoff_tool(agent_name="mate", description="Ask the mate to reckon.")],
    system_prompt="You are the captain, of few words.",
    name="captain",
)
app = create_swarm([mate, captain], default_active_agent="mate").compile(
    checkpointer=InMemorySaver()
)
