"""A supervisor of LangGraph and its two experts, with any model."""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from langgraph_supervisor import create_handoff_tool, create_supervisor


def team(model: BaseChatModel) -> Any:
    """Returns the graph with its models."""
    research = create_agent(model, [], name="research_expert", system_prompt="You look things up.")
    maths = create_agent(model, [], name="math_expert", system_prompt="You calculate.")
    tools = [create_handoff_tool(agent_name=one) for one in ("research_expert", "math_expert")]
    graph = create_supervisor(
        [research, maths], model=model, tools=tools, prompt="You ask experts.",
        parallel_tool_calls=True,
    )  # fmt: skip
    return graph.compile()


app = team(ChatOpenAI(model="gpt-5-mini"))
