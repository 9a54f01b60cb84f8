"""Executions of nodes, and control between them: routes, and handoffs to other agents."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.graph import END
from langgraph.pregel import Pregel
from langgraph.types import Command, Send

from simkit.adapters import api
from simkit.adapters.langgraph import compat, graphs
from simkit.adapters.langgraph.messages import as_message, listeners, plain
from simkit.adapters.langgraph.state import State


@dataclass(slots=True, eq=False)
class Root:
    """One call of an outermost graph."""

    graph: Pregel
    state: State
    states: dict[tuple[object, tuple[str, ...]], State] = field(default_factory=dict)
    """The states of running graphs, by receiver and path."""
    steps: list[api.Run] = field(default_factory=list)
    """Agent runs that ended since the last checkpoint."""
    done: dict[tuple[str, ...], list[NodeTask]] = field(default_factory=dict)
    """Ended executions, by the path of their graph."""
    parts: dict[tuple[tuple[str, ...], str, str], api.Run] = field(default_factory=dict)
    """Runs of prebuilt agents that code calls outside nodes, by the path of that code, their name,
    and the tool call that they execute."""


class NodeTask:
    """One execution of a node."""

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
        self.run: api.Run | None = None
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


def output_of(task: NodeTask | None, result: Any, run: api.Run) -> Any:
    """Return a node run's output: its result, or None if that is the model's message.

    It is if the node returned messages only, or messages and its input.
    """
    if task is None or not result:
        return None
    if type(result) is not dict and not isinstance(result, Mapping):
        return result
    if compat.RETURN in result or END in result:
        value = result.get(compat.RETURN, result.get(END))
        is_said = run.final is not None and api.is_equal(value, run.final.content)
        return None if is_said else value
    if run.final is None:
        return result
    for name, value in result.items():
        if name not in task.state.conversation:
            input = task.input if isinstance(task.input, Mapping) else {}
            before = input.get(name)
            if type(value) is not type(before) or not api.is_equal(value, before):
                return result
    return None


def held_at(path: str, **root: Any) -> Any:
    """Return the value at a rule's path in a node's input or result; None if there is none."""
    value = api.lookup(root, path)
    return None if value is api.ABSENT else value


@listeners.around
def branch_ends(
    listener: Any,
    before: api.Replacement,
    self: Any,
    writer: Any,
    input: Any,
    result: Any,
    config: Any,
) -> Any:
    """Report the choice of a conditional edge."""
    chosen = list(result) if isinstance(result, (list, tuple)) else [result]
    namespace = (config.get("metadata") or {}).get(compat.NAMESPACE, "")
    listener.routed(namespace, *_ways(chosen, self.ends or {}))
    return before(self, writer, input, result, config)


def _ways(chosen: Sequence[Any], ends: Mapping[Any, str]) -> tuple[list[str], list[str]]:
    labels = [str(target) for target in chosen if not isinstance(target, Send) and target in ends]
    nodes = [
        target.node if isinstance(target, Send) else ends.get(target, target) for target in chosen
    ]
    return labels, [str(node) for node in nodes]


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
    if graphs.has_tools(graph, node):
        return False
    return has_conversation(graph, node) or _holds_message(payload)


def has_conversation(graph: Pregel | None, node: str) -> bool:
    """Return whether a node is, or calls, a graph that holds messages."""
    node_below = graph.nodes.get(node) if graph is not None else None
    inner = graphs.graphs_of(node_below) if node_below is not None else iter(())
    return any(
        graphs.holds_messages(channel)
        for inner_graph in inner
        for channel in inner_graph.channels.values()
    )


def _holds_message(value: Any) -> bool:
    if isinstance(value, BaseMessage):
        return True
    if isinstance(value, Mapping):
        return any(map(_holds_message, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_holds_message, value))


class ControlFlow:
    """Reports control flow to a recorder; knows the running tasks and their agents."""

    def __init__(self, adapter_context: api.AdapterContext) -> None:
        self._recorder = adapter_context.recorder
        self._writing = adapter_context.writing
        self.named: Mapping[str, str] = {}
        """Nodes to agents, by the scenario's rules."""
        self.routers: frozenset[str] = frozenset()
        """The agents whose commands are routes, by the scenario's rules."""
        self.inputs: Mapping[str, str] = {}
        """Agent to the path of its run's input in what its node receives,"""
        self.outputs: Mapping[str, str] = {}
        """and to that of its output in what the node returns."""
        self._chosen: dict[str, list[tuple[Sequence[str], Sequence[str]]]] = {}
        """Task to the labels and targets that its code has chosen."""
        self._tasks: dict[str, NodeTask] = {}
        self._moved: list[tuple[str, Command[Any]]] = []
        """Seen commands, with their places: a command passes through several graphs."""
        # The definition of a graph stays the same.
        self._nodes_of = cache(graphs.agents_in)
        self._plain_targets_of, self._reads = cache(graphs.plain_targets_of), cache(graphs.reads_of)

    def returned(self, namespace: str, value: Any) -> None:
        """Handle the result of a node's code, which may pass control."""
        if type(value) is dict:
            return
        for command in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(command, Command) and command.graph is None:
                self.moved(namespace, command)

    def routed(self, namespace: str, labels: Sequence[str], nodes: Sequence[str]) -> None:
        """Handle the choice of a conditional edge."""
        with self._writing():
            path = graphs.path_of(namespace)
            if path:
                root = self._root_at(path)
                agents = [self._agent_of(node, root) for node in nodes]
                self._chosen.setdefault(path[-1], []).append((labels, agents))
                if path[-1] in self._tasks:
                    self._tasks[path[-1]].targets.update(agent for agent in agents if agent != END)

    def _tell_routes(self, task: str, run: api.Run | None) -> None:
        """Report the choices of a node that has ended."""
        for labels, targets in self._chosen.pop(task, ()):
            agents = tuple(target for target in targets if target not in graphs.ENDS)
            if agents:
                self._recorder.events.record_route(
                    self._recorder.at(run),
                    targets=agents,
                    # Several labels mean several targets, so that none is ambiguous.
                    labels=tuple(labels) if len(labels) < 2 else (),
                    parallel=len(agents) > 1,
                )

    def moved(self, namespace: str, command: Command[Any]) -> None:
        """Handle a command: a handoff to other agents, or a route.

        A handoff that a model has asked for is recorded already.
        """
        with self._writing():
            run = self.run_at(namespace)
            if run is None or self._has_moved(namespace, command):
                return
            self._moved.append((namespace, command))
            path = graphs.path_of(namespace)
            task, root = self._tasks.get(path[-1]), self._root_at(path)
            is_tools = _runs_tools(task)
            if is_tools:
                run = self._caller_of_tools() or run
            targets = self._requested_targets(None if is_tools else run)
            graph = _graph_with(task, command, root)
            chosen: list[str] = []
            for node, input in targets_of(command):
                agent = self._agent_of(node, root)
                if node == END:
                    continue
                if task is not None:
                    task.targets.add(agent)
                if agent in (run.agent, *targets):
                    continue
                is_update = input is command.update
                payload = self._gathered_by(task, root, input) if is_update else input
                if run.agent in self.routers or not is_handoff(
                    command, node, payload, graph, is_tools=is_tools
                ):
                    chosen.append(agent)
                    continue
                if is_update:
                    targets.add(agent)
                payload = self._plain(self._parallel_root(input, root)) or None
                self._recorder.hand_over(run.agent, agent, payload, run=run)
            self._chosen.setdefault(path[-1], []).append(((), chosen))

    def _has_moved(self, namespace: str, command: Command[Any]) -> bool:
        """Return whether a command, or one of which it is a copy, was handled before."""
        return any(_is_same(namespace, command, *other) for other in self._moved)

    def _requested_targets(self, run: api.Run | None) -> set[str]:
        """Return the agents to which the model of a run, or any model, asked to pass control."""
        recorder = self._recorder
        requested = recorder.requested if run is None else recorder.pending_handoffs(run)
        return {request.to_agent for request in requested}

    def _caller_of_tools(self) -> api.Run | None:
        """Return the run whose model called last: it passes control, not the tools' node."""
        return next((run for run in reversed(self._recorder.runs) if run.has_replied), None)

    def _gathered_by(self, task: NodeTask | None, root: Root | None, update: Any) -> Any:
        """Return a command's update without the conversation and what reducers gather."""
        payload = self._parallel_root(update, root)
        return payload if task is None else task.state.replacing(payload)

    def run_at(self, namespace: str) -> api.Run | None:
        """Return the agent run of the code at a namespace."""
        for identity in reversed(graphs.path_of(namespace)):
            task = self._tasks.get(identity)
            if task is not None and task.run is not None:
                return task.run
        return None

    def _root_at(self, path: tuple[str, ...]) -> Root | None:
        roots = (self._tasks[task].root for task in reversed(path) if task in self._tasks)
        return next(roots, None)

    def _agent_of(self, node: str, root: Root | None) -> str:
        if node in self.named:
            return self.named[node]
        return self._nodes_of(root.graph).get(node, node) if root is not None else node

    def _reads_of(self, task: NodeTask) -> tuple[str, ...]:
        """Return the channels that a task's node reads; none for a task with its own input."""
        return () if task.is_sent else self._reads(task.graph, task.node)

    def _parallel_root(self, input: Any, root: Root | None) -> Any:
        """Return the payload without the conversation."""
        if not isinstance(input, Mapping):
            return input
        conversation = root.state.conversation if root is not None else ()
        return {key: value for key, value in input.items() if key not in conversation}

    def _plain(self, value: Any, writer: api.Run | None = None) -> Any:
        return plain(
            value,
            lambda messages: self._recorder.logged([*map(as_message, messages)], writer=writer),
        )


def _runs_tools(task: NodeTask | None) -> bool:
    """Return whether a task executes the tools that a model called, as a node of its own."""
    return task is not None and task.is_own and graphs.has_tools(task.graph, task.node)


def _is_same(where: str, command: Command[Any], other_where: str, other: Command[Any]) -> bool:
    """Return whether a command is a copy of one seen before, from an inner graph.

    Commands of nodes of one graph to the same node without writes also count as one.
    """
    if command.goto is not other.goto or command.update is not other.update:
        return False
    is_beside = where.rpartition("|")[0] == other_where.rpartition("|")[0] and not command.update
    return other_where.startswith(where) or is_beside


def _graph_with(task: NodeTask | None, command: Command[Any], root: Root | None) -> Pregel | None:
    """Return the graph whose nodes a command of a task targets; None if not known."""
    if command.graph is None and task is not None:
        return task.graph
    return root.graph if root is not None else None
