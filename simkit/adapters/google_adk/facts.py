"""Facts of a tree of agents: names, tools, targets of control, written keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent, ParallelAgent
from google.adk.tools import BaseTool
from google.adk.tools.agent_tool import AgentTool

from simkit.adapters.api import COMPUTED_PROMPT, AgentFacts, ChannelFacts
from simkit.adapters.google_adk.state import scope_of


def reachable(root: Any) -> Iterator[Any]:
    """Yield the agents below a root, including workflows' nodes, each once, nearest first."""
    agents, visited = [root], {id(root)}
    for agent in agents:
        if isinstance(agent, BaseAgent):
            yield agent
        for below in _below(agent):
            if id(below) not in visited:
                visited.add(id(below))
                agents.append(below)


def _below(node: Any) -> Iterator[Any]:
    yield from getattr(node, "sub_agents", ())
    for tool in getattr(node, "tools", None) or ():
        if isinstance(tool, AgentTool):
            yield tool.agent
    graph = getattr(node, "graph", None)
    yield from getattr(graph, "nodes", ())


def agents_of(root: Any) -> Mapping[str, AgentFacts]:
    """Return the facts of each agent."""
    return {agent.name: _facts_of(agent) for agent in reachable(root)}


def _facts_of(agent: Any) -> AgentFacts:
    if not isinstance(agent, LlmAgent):
        return AgentFacts()
    instruction = agent.instruction
    tools = (_name_of(tool) for tool in agent.tools)
    return AgentFacts(
        instructions=instruction if isinstance(instruction, str) else COMPUTED_PROMPT,
        tools=tuple(name for name in tools if name),
        handoffs=tuple(dict.fromkeys(target.name for target in _targets_of(agent))),
    )


def _name_of(tool: Any) -> str:
    """Return a tool's name; empty for a toolset, which makes its tools on demand."""
    if isinstance(tool, BaseTool):
        return str(tool.name)
    return str(getattr(tool, "__name__", "")) if callable(tool) else ""


def _targets_of(agent: Any) -> Iterator[Any]:
    """Yield the agents to which the ADK lets an agent pass control."""
    yield from agent.sub_agents
    parent = agent.parent_agent
    if isinstance(parent, LlmAgent):
        if not agent.disallow_transfer_to_parent:
            yield parent
        if not agent.disallow_transfer_to_peers:
            yield from (
                sub_agent for sub_agent in parent.sub_agents if sub_agent.name != agent.name
            )


def channels_of(root: Any) -> Mapping[str, ChannelFacts]:
    """Return the keys that agents in parallel write their answers to: each replaces the other's.

    Other state is not declared anywhere.
    """
    channels = (
        below
        for agent in reachable(root)
        if isinstance(agent, ParallelAgent)
        for below in reachable(agent)
    )
    keys = (getattr(agent, "output_key", None) for agent in channels)
    return {key: ChannelFacts("replace", scope_of(key)) for key in keys if key}


def is_structured(root: Any, agent: str) -> bool:
    """Return whether an agent's answer is JSON by its schema."""
    named = (matches for matches in reachable(root) if matches.name == agent)
    return any(getattr(matches, "output_schema", None) is not None for matches in named)
