"""Calls of graphs, the executions of their nodes, and what these are given and put out."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from langgraph.graph import END
from langgraph.pregel import Pregel

from simkit.adapters.activations import Run
from simkit.adapters.langgraph import compat
from simkit.adapters.langgraph.names import reads_of
from simkit.adapters.langgraph.state import State
from simkit.adapters.plain_values import is_equal
from simkit.core.messages import ABSENT
from simkit.language.paths import lookup


class Root:
    """One call of a graph that no other graph runs."""

    __slots__ = ("done", "graph", "parts", "state", "states", "steps")

    def __init__(self, graph: Pregel, state: State) -> None:
        self.graph, self.state = graph, state
        self.states: dict[tuple[object, tuple[str, ...]], State] = {}
        """The states of the graphs at work, by who hears them and where they are."""
        self.steps: list[Run] = []
        """Activations that are over and after which nothing was saved yet."""
        self.done: dict[tuple[str, ...], list[NodeTask]] = {}
        """Executions that are over, by the path of the graph whose nodes they are."""
        self.parts: dict[tuple[tuple[str, ...], str, str], Run] = {}
        """Activations of agents that are no node's: prebuilt ones that code calls, by the path of
        that code, their name, and the tool call that it carries out."""


class NodeTask:
    """One execution of a node."""

    __slots__ = (
        "agent",
        "before",
        "branch",
        "graph",
        "group",
        "id",
        "input",
        "is_own",
        "is_saved",
        "is_sent",
        "node",
        "over",
        "parent",
        "path",
        "root",
        "run",
        "sent_input",
        "state",
        "targets",
    )  # fmt: skip

    def __init__(
        self,
        payload: Mapping[str, Any],
        path: tuple[str, ...],
        graph: Pregel | None,
        root: Root,
        state: State,
    ) -> None:
        self.id, self.node, self.input = payload["id"], payload["name"], payload["input"]
        self.path, self.graph, self.root = path, graph, root
        self.state = state
        """Of the graph whose node it is."""
        self.agent = self.node
        self.is_own = True
        """Whether the task is an activation of its agent; else it is a part of one."""
        self.is_saved = False
        """Whether it was done before the graph stopped, and does not work again."""
        self.is_sent = compat.PUSH in payload["triggers"]
        """A `Send`, or code, started it."""
        self.sent_input = payload["input"] if self.is_sent or path else None
        """What it was given, where that is not the pipeline's state."""
        self.run: Run | None = None
        self.group = self.branch = self.parent = ""
        self.before: NodeTask | None = None
        """The task that was started before it, beside it."""
        self.over = threading.Event()
        self.targets: set[str] = set()
        """The agents to which it leads, and which did not begin yet."""


def led_to(task: NodeTask) -> tuple[str, ...]:
    """Return the activations whose end led to a task that begins; each leads there once."""
    done = task.root.done.get(task.path, [])
    tasks = [other_task for other_task in done if task.agent in other_task.targets]
    for other_task in tasks:
        other_task.targets.remove(task.agent)
    done[:] = [other_task for other_task in done if other_task.targets]
    return tuple(other_task.run.id for other_task in tasks if other_task.run is not None)


def input_of(task: NodeTask) -> tuple[tuple[str, ...], Any]:
    """Return the channels that a task was given, and what it was given beside them."""
    reads = () if task.is_sent else reads_of(task.graph, task.node)
    return task.state.received(task.input, reads)


def output_of(task: NodeTask | None, result: Any, run: Run) -> Any:
    """Return what a node's run put out: what it returned; None where that is what the model said.

    That is where it returned messages alone, or beside them what it was given.
    """
    if task is None or not result:
        return None
    if not isinstance(result, Mapping):
        return result
    if compat.RETURN in result or END in result:
        value = result.get(compat.RETURN, result.get(END))
        is_said = run.final is not None and is_equal(value, run.final.content)
        return None if is_said else value
    input = task.input if isinstance(task.input, Mapping) else {}
    says_more = any(
        name not in task.state.conversation and not _is_unchanged(value, input.get(name))
        for name, value in result.items()
    )
    return result if says_more or run.final is None else None


def held_at(path: str, **root: Any) -> Any:
    """Return what a rule's path leads to in what a node receives or returns; None for nothing."""
    value = lookup(root, path)
    return None if value is ABSENT else value


def _is_unchanged(value: Any, before: Any) -> bool:
    return value is before or (type(value) is type(before) and is_equal(value, before))
