"""Calls of graphs and executions of their nodes, with inputs and outputs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from langgraph.graph import END
from langgraph.pregel import Pregel

from simkit.adapters.api import ABSENT, Run, is_equal, lookup
from simkit.adapters.langgraph import compat
from simkit.adapters.langgraph.state import State


class Root:
    """One call of an outermost graph."""

    __slots__ = ("done", "graph", "parts", "state", "states", "steps")

    def __init__(self, graph: Pregel, state: State) -> None:
        self.graph, self.state = graph, state
        self.states: dict[tuple[object, tuple[str, ...]], State] = {}
        """The states of running graphs, by receiver and path."""
        self.steps: list[Run] = []
        """Agent runs that ended since the last checkpoint."""
        self.done: dict[tuple[str, ...], list[NodeTask]] = {}
        """Ended executions, by the path of their graph."""
        self.parts: dict[tuple[tuple[str, ...], str, str], Run] = {}
        """Runs of prebuilt agents that code calls outside nodes, by the path of that code, their
        name, and the tool call that they execute."""


class NodeTask:
    """One execution of a node."""

    __slots__ = (
        "_over",
        "agent",
        "before",
        "branch",
        "graph",
        "group",
        "id",
        "input",
        "is_over",
        "is_own",
        "is_saved",
        "is_sent",
        "node",
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
        """The state of the node's graph."""
        self.agent = self.node
        self.is_own = True
        """Whether the task is an agent run of its own; else it is a part of one."""
        self.is_saved = False
        """Whether it was done before the graph stopped, and does not run again."""
        self.is_sent = compat.PUSH in payload["triggers"]
        """Whether a `Send`, or code, started it."""
        self.sent_input = payload["input"] if self.is_sent or path else None
        """Its input, if that is not the pipeline's state."""
        self.run: Run | None = None
        self.group = self.branch = self.parent = ""
        self.before: NodeTask | None = None
        """The parallel task that was started before it; None if there is none."""
        self.is_over = False
        self._over: threading.Event | None = None
        self.targets: set[str] = set()
        """The agents that it leads to and that have not begun yet."""

    def join(self, outer: NodeTask) -> None:
        """Place the task inside the one whose graph it belongs to."""
        self.branch = outer.branch
        self.parent = outer.run.id if outer.run is not None else ""

    def end(self) -> None:
        """Let the task that waits for this one continue."""
        self.is_over = True
        if self._over is not None:
            self._over.set()

    def wait(self, seconds: float) -> None:
        """Wait until it is over, but not longer."""
        self._over = threading.Event()
        if not self.is_over:
            self._over.wait(seconds)


def led_to(task: NodeTask) -> tuple[str, ...]:
    """Return the runs that led to a new task, each once."""
    done, path = task.root.done, task.path
    if path not in done:
        return ()
    runs: list[str] = []
    left: list[NodeTask] = []
    for other_task in done[path]:
        if task.agent in other_task.targets:
            other_task.targets -= {task.agent}
            if other_task.run is not None:
                runs.append(other_task.run.id)
        if other_task.targets:
            left.append(other_task)
    done[path] = left
    return tuple(runs)


def input_of(task: NodeTask, reads: tuple[str, ...]) -> tuple[tuple[str, ...], Any]:
    """Return the channels in a task's input, and the rest of the input."""
    return task.state.received(task.input, reads)


def output_of(task: NodeTask | None, result: Any, run: Run) -> Any:
    """Return a node run's output: its result, or None if that is the model's message.

    It is if the node returned messages only, or messages and its input.
    """
    if task is None or not result:
        return None
    if type(result) is not dict and not isinstance(result, Mapping):
        return result
    if compat.RETURN in result or END in result:
        value = result.get(compat.RETURN, result.get(END))
        is_said = run.final is not None and is_equal(value, run.final.content)
        return None if is_said else value
    if run.final is None:
        return result
    for name, value in result.items():
        if name not in task.state.conversation:
            input = task.input if isinstance(task.input, Mapping) else {}
            if not _is_unchanged(value, input.get(name)):
                return result
    return None


def held_at(path: str, **root: Any) -> Any:
    """Return the value at a rule's path in a node's input or result; None if there is none."""
    value = lookup(root, path)
    return None if value is ABSENT else value


def _is_unchanged(value: Any, before: Any) -> bool:
    return value is before or (type(value) is type(before) and is_equal(value, before))
