"""Calls of graphs, and the executions of their nodes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from langgraph.pregel import Pregel

from simkit.adapters.activations import Run
from simkit.adapters.langgraph.state import State


class Root:
    """One call of a graph that no other graph runs."""

    __slots__ = ("graph", "parts", "state", "states", "steps")

    def __init__(self, graph: Pregel, state: State) -> None:
        self.graph, self.state = graph, state
        self.states: dict[tuple[object, tuple[str, ...]], State] = {}
        """The states of the graphs at work, by who hears them and where they are."""
        self.steps: list[Run] = []
        """Activations that are over and after which nothing was saved yet."""
        self.parts: dict[tuple[tuple[str, ...], str, str], Run] = {}
        """Activations of agents that are no node's: prebuilt ones that code calls, by the path of
        that code, their name, and the tool call that it carries out."""


class Task:
    """One execution of a node."""

    __slots__ = (
        "agent", "before", "branch", "given", "graph", "group", "id", "is_own", "is_saved",
        "is_sent", "node", "over", "parent", "path", "root", "run", "sent", "state",
    )  # fmt: skip

    def __init__(
        self, payload: Mapping[str, Any], path: tuple[str, ...], graph: Pregel | None, root: Root,
        state: State,
    ) -> None:  # fmt: skip
        self.id, self.node, self.given = payload["id"], payload["name"], payload["input"]
        self.path, self.graph, self.root = path, graph, root
        self.state = state
        """Of the graph whose node it is."""
        self.agent = self.node
        self.is_own = True
        """It is an activation of its agent; else a part of one."""
        self.is_saved = False
        """It was done before the graph stopped, and does not work again."""
        self.is_sent = "__pregel_push" in payload["triggers"]
        """A `Send`, or code, started it."""
        self.sent = payload["input"] if self.is_sent or path else None
        """What it was given, where that is not the pipeline's state."""
        self.run: Run | None = None
        self.group = self.branch = self.parent = ""
        self.before: Task | None = None
        """The task that was started before it, beside it."""
        self.over = threading.Event()
