"""Classification of `Command(goto=…)`: a handoff to another agent, or a route inside a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.pregel import Pregel
from langgraph.types import Command, Send

from simkit.adapters.langgraph.channels import holds_messages
from simkit.adapters.langgraph.names import graphs_of, has_tools


def targets_of(command: Command[Any]) -> Iterator[tuple[str, Any]]:
    """Yield each target node of a command, with its payload.

    That is the argument of a `Send`, or else the command's update, which all nodes read.
    """
    goto = command.goto
    for target in [goto] if isinstance(goto, (str, Send)) else goto:
        if isinstance(target, Send):
            yield target.node, target.arg
        else:
            yield target, command.update


def is_handoff(
    command: Command[Any], node: str, payload: Any, graph: Pregel | None, *, is_tools: bool
) -> bool:
    """Return whether a command passes control to an agent with its own conversation.

    It does if a tool returned it (``is_tools``), if it goes to the outer graph, if the target
    ``node`` is or calls a graph that holds messages, or if messages are in the ``payload``, which
    excludes the conversations of the ``graph``. All other commands are routes: a model's node and
    its tools' node pass control with each call.
    """
    if command.graph is not None or is_tools:
        return True
    if has_tools(graph, node):
        return False
    return has_conversation(graph, node) or _holds_message(payload)


def has_conversation(graph: Pregel | None, node: str) -> bool:
    """Return whether a node is, or calls, a graph that holds messages."""
    node_below = graph.nodes.get(node) if graph is not None else None
    inner = graphs_of(node_below) if node_below is not None else iter(())
    return any(
        holds_messages(channel)
        for inner_graph in inner
        for channel in inner_graph.channels.values()
    )


def _holds_message(value: Any) -> bool:
    if isinstance(value, BaseMessage):
        return True
    if isinstance(value, Mapping):
        return any(map(_holds_message, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_holds_message, value))
