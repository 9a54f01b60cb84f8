"""A graph's agents, channels and edges, read from its definition. Pure.

A prebuilt agent is a graph of its own, whose nodes (``model``, ``tools``) are no agents: their work
belongs to the node that holds the graph. A name that the agent was given takes precedence. Reducers
of channels have simkit's names.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import product
from typing import Any, Final

from langgraph.channels import EphemeralValue, UntrackedValue
from langgraph.channels.base import BaseChannel
from langgraph.graph import END, START
from langgraph.pregel import Pregel
from langgraph.types import Overwrite

from simkit.adapters import api
from simkit.adapters.langgraph import compat

PREBUILT: Final = frozenset(
    (
        "agent",
        "model",
        "tools",
        "call_model",
        "generate_structured_response",
        "pre_model_hook",
        "post_model_hook",
    )
)
"""The nodes of `create_agent` and `create_react_agent`."""
NAMELESS: Final = "LangGraph"
"""Default names of graphs."""
HOOKS: Final = (".before_agent", ".before_model", ".after_model", ".after_agent")


@lru_cache(maxsize=1_024)
def is_inner(node: str) -> bool:
    """Return whether a node is a part of a prebuilt agent."""
    return node in PREBUILT or node.endswith(HOOKS)


def is_agent(graph: Pregel) -> bool:
    """Return whether a graph is one prebuilt agent."""
    nodes = [name for name in graph.nodes if not name.startswith("__")]
    return bool(nodes) and all(map(is_inner, nodes)) and not {"agent", "model"}.isdisjoint(nodes)


def is_part(node: str, graph: Pregel | None, is_held: bool) -> bool:
    """Return whether a node of a graph is a part of an agent, and no agent itself.

    Users may name their own nodes like those of prebuilt agents (``call_model``, ``tools``): such
    nodes are agents, unless another graph holds the graph (``is_held``) as one node. If the graph
    cannot be found (None), the name decides.
    """
    if not is_inner(node) or graph is None or is_agent(graph):
        return is_inner(node)
    names = [name for name in graph.nodes if not name.startswith("__")]
    return is_held and "call_model" in names and all(map(is_inner, names))


def graph_below(graph: Pregel | None, holder: str, node: str) -> Pregel | None:
    """Return the graph with ``node`` that the node ``holder`` of another graph is, or calls."""
    node_below = graph.nodes.get(holder) if graph is not None else None
    inner = graphs_of(node_below) if node_below is not None else iter(())
    return next((inner_graph for inner_graph in inner if node in inner_graph.nodes), None)


def is_workflow(graph: Pregel | None) -> bool:
    """Return whether a graph is a function: an `@entrypoint`, which is its one node."""
    return graph is not None and len(graph.nodes) == 1 and not hasattr(graph, "builder")


def reads_of(graph: Pregel | None, node: str) -> tuple[str, ...]:
    """Return the channels that a node of a graph reads, as far as its schema is known."""
    builder = getattr(graph, "builder", None)
    if builder is None:
        return ()
    spec = getattr(builder, "nodes", {}).get(node)
    return tuple(builder.schemas.get(spec.input_schema, ())) if builder and spec else ()


def has_tools(graph: Pregel | None, node: str) -> bool:
    """Return whether a node executes the tools that models call."""
    node_value = graph.nodes.get(node) if graph is not None else None
    return hasattr(getattr(node_value, "bound", None), "tools_by_name")


def name_of(graph: Pregel) -> str:
    """Return the name of a graph that is an agent."""
    name = ((graph.config or {}).get("metadata") or {}).get(compat.AGENT_NAME)
    return str(name or (graph.name if graph.name != NAMELESS else "agent"))


def subgraph_of(node: Any) -> Pregel | None:
    """Return the graph that a node is; None if it is none."""
    return node.bound if isinstance(node.bound, Pregel) else None


def agents_in(graph: Pregel) -> Mapping[str, str]:
    """Return the nodes of a graph, and of its inner graphs, with their agents."""
    agents: dict[str, str] = {}
    for name, node in graph.nodes.items():
        if name.startswith("__") or is_inner(name):
            continue
        inner = subgraph_of(node)
        agents[name] = name_of(inner) if inner is not None and _is_named(inner) else name
        if inner is not None and not is_agent(inner):
            for below, agent in agents_in(inner).items():
                agents.setdefault(below, agent)
    return agents


def _is_named(graph: Pregel) -> bool:
    return bool(((graph.config or {}).get("metadata") or {}).get(compat.AGENT_NAME))


def handoff_tools_in(graph: Pregel) -> dict[str, str]:
    """Return the tools that pass control, with their target agents."""
    agents = agents_in(graph)
    names = ((re.sub(r"\s+", "_", node.strip()).lower(), agent) for node, agent in agents.items())
    tools = {f"{api.HANDOFF_PREFIX}{name}": agent for name, agent in names}
    for tool in tools_in(graph):
        target = (getattr(tool, "metadata", None) or {}).get(compat.DESTINATION)
        if target is not None:
            tools[tool.name] = agents.get(target, target)
    return {tool: agent for tool, agent in tools.items() if tool != api.HANDOFF_PREFIX + agent}


def tools_in(graph: Pregel) -> Iterator[Any]:
    """Yield the tools of the graph's tool nodes, and of those in inner graphs."""
    for node in graph.nodes.values():
        yield from getattr(node.bound, "tools_by_name", {}).values()
        for inner in graphs_of(node):
            yield from tools_in(inner)


def graphs_of(node: Any) -> Iterator[Pregel]:
    """Yield the graphs that a node is, or calls."""
    direct = subgraph_of(node)
    if direct is not None:
        yield direct
    for inner in node.subgraphs or ():
        if isinstance(inner, Pregel) and inner is not direct:
            yield inner


def graphs_in(graph: Pregel) -> Iterator[Pregel]:
    """Yield a graph, and the graphs that its nodes are or call."""
    yield graph
    for node in graph.nodes.values():
        for inner in graphs_of(node):
            yield from graphs_in(inner)


@lru_cache(maxsize=1_024)
def path_of(namespace: str) -> tuple[str, ...]:
    """Return the ids of the tasks in which code runs, outermost first.

    In ``a:<id>|1|b:<id>``, a plain number counts the graphs that one task calls.
    """
    if "|" not in namespace:
        name, _, identity = namespace.rpartition(":")
        return (identity,) if name else ()
    parts = [part.rpartition(":") for part in namespace.split("|")]
    return tuple([identity for name, _, identity in parts if name])


def told_write(input: Any) -> Any:
    """Return a node's write to a channel, with `Overwrite` in simkit's form."""
    if isinstance(input, Overwrite):
        return {api.DECLARED_RESET: input.value}
    if isinstance(input, Mapping):
        if list(input) == [compat.OVERWRITE]:
            return {api.DECLARED_RESET: input[compat.OVERWRITE]}
        if input.get("type") == compat.OVERWRITE and "value" in input:
            return {api.DECLARED_RESET: input["value"]}
    return input


def is_reset(input: Any) -> bool:
    """Return whether a write replaces the old value."""
    return isinstance(input, Mapping) and list(input) == [api.DECLARED_RESET]


def keeps_the_newer(reducer: Callable[[Any, Any], Any]) -> bool:
    """Return whether a reducer returns every update as it is, such as ``lambda old, new: new``.

    It is tried with values of all kinds, empty ones too, for which ``new or old`` keeps the old
    value.
    """
    try:
        return all(
            reducer(before, now) is now
            for before, now in product((object(), [object()]), (object(), [], {}, "", 0, None))
        )
    except Exception:
        return False


_MESSAGES: Final = "langgraph.graph.message"
_ADDED: Final = {list: "append", int: "add", float: "add", dict: "merge", set: "union"}
_EMPTY_AT_FIRST: Final = frozenset(_ADDED.values())
_OPERATORS: Final = {operator.add: ("append", "add"), operator.or_: ("merge", "union")}
_FLEETING: Final = (EphemeralValue, UntrackedValue)
"""Channels that no checkpoint keeps."""


def reducer_of(channel: Any) -> str:
    """Return the reducer of a channel by simkit's name."""
    function = getattr(channel, "operator", None) or getattr(channel, "reducer", None)
    if function is None:
        return "append" if getattr(channel, "accumulate", False) else "replace"
    if function.__module__ == _MESSAGES:
        return "append"
    channel_type = channel.typ
    while hasattr(channel_type, "__origin__"):
        channel_type = channel_type.__origin__
    reducer = _ADDED.get(channel_type, "")
    if reducer in _OPERATORS.get(function, ()):
        return reducer
    if keeps_the_newer(function):
        return "replace"
    named = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{function.__module__}:{named}"


def channels_of(channels: Mapping[str, Any], *, are_kept: bool) -> dict[str, api.ChannelFacts]:
    """Return a graph's channels; those that no checkpoint keeps have the scope turn.

    Values that LangGraph computes on demand (`RemainingSteps`) are no channels.
    """
    return {
        name: api.ChannelFacts(
            reducer_of(channel),
            "session" if are_kept and not isinstance(channel, _FLEETING) else "turn",
            default_of(channel),
        )
        for name, channel in channels.items()
        if is_state(name) and isinstance(channel, BaseChannel)
    }


def default_of(channel: Any) -> Any:
    """Return the initial value of a channel with a user's reducer.

    None if checks know it, or there is none.
    """
    is_known = reducer_of(channel) in _EMPTY_AT_FIRST
    if is_known or not hasattr(channel, "operator") or not channel.is_available():
        return None
    return api.canonical(channel.get())


def is_state(name: str) -> bool:
    """Return whether a channel is the user's, not the graph's own."""
    return not name.startswith(("__", "branch:", "join:", "start:"))


def holds_messages(channel: Any) -> bool:
    """Return whether a channel is a conversation."""
    function = getattr(channel, "operator", None) or getattr(channel, "reducer", None)
    return function is not None and function.__module__ == _MESSAGES


def private_of(graph: Pregel) -> dict[str, tuple[str, ...]]:
    """Return the channels that prebuilt agents keep to themselves, by agent.

    LangChain's `PrivateStateAttr` leaves a channel out of what goes into the agent, and comes out.
    """
    agents = {} if is_agent(graph) else agents_in(graph)
    graphs = {
        agents[name]: subgraph_of(graph.nodes[name]) for name in agents if name in graph.nodes
    }
    if is_agent(graph):
        graphs[name_of(graph)] = graph
    private: dict[str, tuple[str, ...]] = {}
    for agent, inner in graphs.items():
        builder = getattr(inner, "builder", None)
        if inner is not None and builder is not None and is_agent(inner):
            visible = {
                *builder.schemas[builder.input_schema],
                *builder.schemas[builder.output_schema],
            }
            private[agent] = tuple(
                name
                for name, channel in builder.schemas[builder.state_schema].items()
                if name not in visible and not isinstance(channel, _FLEETING)
            )
    return private


# Edges


ENDS: Final = (START, END)
"""The nodes at which each graph begins and ends."""


def edges_of(graph: Pregel) -> tuple[tuple[str, str], ...]:
    """Return a graph's edges from node to node, conditional ones included, in order.

    Of a branch that does not declare its targets none are known.
    """
    order = {name: index for index, name in enumerate(graph.nodes)}
    edges = dict.fromkeys(edge for edge in _edges(graph) if not set(edge) & set(ENDS))
    return tuple(sorted(edges, key=lambda edge: tuple(order.get(node, -1) for node in edge)))


def starts_of(graph: Pregel) -> tuple[str, ...]:
    """Return the nodes at which a run may start."""
    return tuple(sorted({to for source, to in _edges(graph) if source == START and to != END}))


def plain_targets_of(graph: Pregel | None) -> Mapping[str, list[str]]:
    """Return the targets of a graph's unconditional edges, by node."""
    targets: dict[str, list[str]] = {}
    for node, to in _plain_edges(graph):
        if not {node, to} & set(ENDS):
            targets.setdefault(node, []).append(to)
    return targets


def _plain_edges(graph: Pregel | None) -> Iterator[tuple[str, str]]:
    builder = getattr(graph, "builder", None)
    yield from getattr(builder, "edges", ())
    for sources, to in getattr(builder, "waiting_edges", ()):
        yield from ((source, to) for source in sources)


def _edges(graph: Pregel) -> Iterator[tuple[str, str]]:
    yield from _plain_edges(graph)
    builder = getattr(graph, "builder", None)
    for source, node in getattr(builder, "nodes", {}).items():
        yield from ((source, to) for to in node.ends or ())
    for source, branches in getattr(builder, "branches", {}).items():
        for branch in branches.values():
            yield from ((source, to) for to in (branch.ends or {}).values())
