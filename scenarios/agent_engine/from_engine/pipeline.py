"""An agent engine's workflow as a pipeline: nodes and edges, memory tiers as channels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from scenarios.agent_engine.from_engine.reading import TIERS, Agent, Engine, Node, Tool

PASSES_ON: Final = "simkit:same"
"""What a deterministic node does that names no function."""
TOKENS: Final = 800
"""What recalled items may take together; the engine's own budget is in none of its files."""

_ITEMS: Final = {"task": "task_items", "project": "project_items", "global": "global_items"}
_SCOPES: Final = {"task": "turn", "project": "project", "global": "global"}
_WRITES: Final = {
    "current_output": "${run.output}",
    # So that later nodes recall what any earlier one put out, and not only the one before.
    "task_items": {"agent": "${agent}", "text": "${run.output}"},
}


def pipeline_of(engine: Engine, name: str) -> dict[str, Any]:
    """Returns the pipeline as plain values, in the order in which a file says it."""
    definitions, agent_of = _definitions(engine)
    recipe = _usual(definitions)
    agents = {
        agent: {key: value for key, value in said.items() if (key, value) != ("context", recipe)}
        for agent, said in definitions.items()
    }
    tools = _tools(engine, definitions)
    return {
        "version": 1,
        "pipeline": name,
        "channels": _channels(),
        "defaults": {"context": recipe, "writes": dict(_WRITES)},
        "agents": agents,
        **({"tools": tools} if tools else {}),
        "flow": {"graph": _graph(engine, agent_of)},
    }


def comments_of(engine: Engine) -> dict[str, str]:
    """Returns what is worth saying above the keys of the file."""
    comments = {
        "": f"Made by from_engine of {', '.join(engine.files)}.",
        "channels": "What the last node put out, and the three tiers of memory.",
    }
    stems = {file.partition(".")[0] for file in engine.files}
    if "agents" not in stems and any(not node.is_deterministic for node in engine.nodes):
        comments["agents"] = "There was no agents.yaml: `instructions:` are for you to write."
    if "tools" not in stems:
        comments["tools"] = "There was no tools.yaml: `args:` and `returns:` are for you to write."
    return comments


def _channels() -> dict[str, Any]:
    tiers = {
        channel: {"reducer": "append", "scope": _SCOPES[tier]} for tier, channel in _ITEMS.items()
    }
    return {"current_output": {"scope": "turn"}, **tiers}


def _recipe(tier: str) -> list[Any]:
    if tier == "none":
        return ["instructions", "upstream", "input"]
    recall = {
        "from": list(_ITEMS.values()),
        "scopes": [_SCOPES[seen] for seen in TIERS[1 : TIERS.index(tier) + 1]],
        "order": "newest_first",
        "tokens": TOKENS,
    }
    return ["instructions", {"recall": recall}, "upstream", "input"]


def _usual(definitions: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """Returns the recipe that most agents have; the first of several."""
    recipes = [said["context"] for said in definitions.values() if "context" in said]
    counts = Counter(map(repr, recipes))
    return max(recipes, key=lambda one: counts[repr(one)]) if recipes else _recipe("none")


def _definitions(engine: Engine) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Returns the agents by name, and the name of each node's.

    Nodes that share an agent and all that is said of it share a definition under the agent's name;
    every other node has one under its own.
    """
    said = {node.id: _said(node, engine) for node in engine.nodes}
    sharing: dict[str, list[str]] = {}
    for node in engine.nodes:
        sharing.setdefault(node.agent, []).append(node.id)
    shared = {
        agent
        for agent, nodes in sharing.items()
        if agent and all(said[node] == said[nodes[0]] for node in nodes)
    }
    found: dict[str, dict[str, Any]] = {}
    agent_of: dict[str, str] = {}
    for node in engine.nodes:
        name = node.agent if node.agent in shared else _free(node.id, shared)
        found.setdefault(name, said[node.id])
        agent_of[node.id] = name
    return found, agent_of


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_node"
    return name


def _said(node: Node, engine: Engine) -> dict[str, Any]:
    agent = engine.agents.get(node.agent, Agent("", None))
    tools = agent.tools if node.tools is None else node.tools
    said: dict[str, Any] = {}
    if agent.instructions:
        # In simkit's files `${…}` is a reference.
        said["instructions"] = agent.instructions.replace("${", "$${")
    if node.is_deterministic:
        said["function"] = node.function or PASSES_ON
    if tools:
        said["tools"] = list(tools)
    if not node.is_deterministic:
        said["context"] = _recipe(node.tier)
    return said


def _tools(engine: Engine, definitions: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    found = {name: _tool(tool) for name, tool in engine.tools.items()}
    for said in definitions.values():
        for name in said.get("tools", ()):
            found.setdefault(name, {})
    return found


def _tool(tool: Tool) -> dict[str, Any]:
    said = {
        "description": tool.description or None,
        "args": tool.args,
        "returns": tool.returns,
        "function": tool.function or None,
    }
    return {key: value for key, value in said.items() if value is not None}


def _graph(engine: Engine, agent_of: Mapping[str, str]) -> dict[str, Any]:
    graph: dict[str, Any] = {
        "nodes": {node.id: _node(node, agent_of[node.id]) for node in engine.nodes}
    }
    if any(edge.label for edge in engine.edges):
        graph["route_by"] = {"contains": "${run.output}"}
    graph["edges"] = [
        {"from": edge.source, "to": edge.target, **({"label": edge.label} if edge.label else {})}
        for edge in engine.edges
    ]
    return graph


def _node(node: Node, agent: str) -> dict[str, Any]:
    said: dict[str, Any] = {"agent": agent} if agent != node.id else {}
    if node.role in ("decision", "split", "merge"):
        said["role"] = node.role
    if node.is_start:
        said["start"] = True
    if node.role == "exit":
        said["exit"] = True
    return said
