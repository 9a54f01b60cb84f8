"""What happens in a graph, told as agents at work: who starts and ends, who asks, who hands over.

A task is one execution of one node. Tasks of one step start together; where threads run them, each
waits for those that were started before it, so that a run is the same every time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from langgraph.errors import ParentCommand
from langgraph.pregel import Pregel
from langgraph.types import Command, Send

from simkit.adapters.activations import Run
from simkit.adapters.langgraph.messages import plain
from simkit.adapters.langgraph.names import agents_in, is_inner, name_of, path_of
from simkit.adapters.langgraph.state import States
from simkit.adapters.langgraph.taps import namespace_now
from simkit.adapters.scribe import Scribe

END: Final = "__end__"
RETURNED: Final = "__return__"
"""Where a function's result stands, in the Functional API."""
PATIENCE_S: Final = 10.0
"""How long a task waits for its turn before it runs beside the others."""


class Task:
    """One execution of a node."""

    __slots__ = (
        "agent", "before", "branch", "group", "id", "is_own", "node", "over", "parent", "path",
        "run", "sent",
    )  # fmt: skip

    def __init__(self, payload: Mapping[str, Any], path: tuple[str, ...], agent: str) -> None:
        self.id, self.node = payload["id"], payload["name"]
        self.path, self.agent = path, agent
        self.is_own = True
        """It is an activation of its agent; else a part of one."""
        is_sent = path or "__pregel_push" in payload["triggers"]
        self.sent = payload["input"] if is_sent else None
        """What it was given, where that is not the pipeline's state."""
        self.run: Run | None = None
        self.group = self.branch = self.parent = ""
        self.before: Task | None = None
        """The task that was started before it, beside it."""
        self.over = threading.Event()


def _is_same(one: Command[Any], other: Command[Any]) -> bool:
    """Whether a command is one that was seen: a graph passes on a copy."""
    return one.goto is other.goto and one.update is other.update


class Watch:
    """Tells a scribe what happens in graphs; is entered from any thread."""

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe
        self.named: Mapping[str, str] = {}
        """Nodes to the agents that the scenario says they are."""
        self.states = States(scribe)
        self._tasks: dict[str, Task] = {}
        self._starting: list[Task] = []
        """Tasks of one step whose start is not told yet."""
        self._pushed: dict[tuple[str, ...], Task] = {}
        """The last task that code of a task has called, by that task's path."""
        self._parts: dict[tuple[tuple[str, ...], str], Run] = {}
        """Activations of agents that are no node's: prebuilt ones that code calls."""
        self._problems: list[BaseException] = []
        """What nodes raised, in the order in which they did."""
        self._moved: list[Command[Any]] = []
        """Commands that were seen: they pass through several graphs."""
        self._known: dict[int, Mapping[str, str]] = {}
        self._roots: list[Pregel] = []
        self.asks: dict[str, list[Mapping[str, Any]]] = {}
        """Session to the interrupts that wait for an answer."""

    def forget(self) -> None:
        """A turn begins: nothing of the last one is at work."""
        self._tasks.clear()
        self._starting.clear()
        self._pushed.clear()
        self._parts.clear()
        self._problems.clear()
        self._moved.clear()

    # A graph that is called

    def began(self, graph: Pregel, within: tuple[str, ...]) -> Callable[[Any], None]:
        """Returns what hears the stream of a graph that no other graph runs."""
        with self._scribe.lock:
            if not within:
                self._roots.append(graph)
                self.states.begin(graph)
        return partial(self._heard, graph, within)

    def ended(self, within: tuple[str, ...], problem: BaseException | None) -> None:
        """The graph is done, or has failed."""
        with self._scribe.lock:
            self._start_all()
            if within:
                return
            self._roots.pop()
            if problem is None:
                self.states.settle()
            for task in self._tasks.values():
                task.over.set()
            for run in self._parts.values():
                self._scribe.end_run(run, "done" if problem is None else "failed")
            self._parts.clear()

    def place_of(self, problem: BaseException) -> int:
        """Returns the how manieth of the problems of nodes it is."""
        places = (place for place, one in enumerate(self._problems) if one is problem)
        return next(places, len(self._problems))

    def _heard(self, graph: Pregel, within: tuple[str, ...], chunk: Any) -> None:
        namespace, mode, payload = chunk
        path = path_of("|".join((*within, *namespace)))
        with self._scribe.lock:
            if mode == "tasks" and "triggers" in payload:
                self._starts(graph, path, payload)
                return
            self._start_all()
            if mode == "tasks":
                self._ends(path, payload)
            elif path:
                return
            elif mode == "values":
                self.states.became(payload)
            else:
                self._scribe.saved()

    # Tasks

    def _starts(self, graph: Pregel, path: tuple[str, ...], payload: Mapping[str, Any]) -> None:
        if not path and not self._starting:
            self.states.settle()
        task = Task(payload, path, self._name(graph, path, payload))
        outer = self._tasks.get(path[-1]) if path else None
        given = (payload.get("metadata") or {}).get("lc_agent_name")
        if outer is not None:
            task.branch = outer.branch
            task.parent = outer.run.id if outer.run is not None else ""
        if is_inner(task.node) and task.node not in self.named:
            task.is_own = False
            is_outers = outer is not None and outer.run is not None and given in (
                None, outer.run.agent
            )  # fmt: skip
            task.run = outer.run if outer is not None and is_outers else self._part(path, task)
        caller = path_of(namespace_now())
        if len(caller) > len(path):  # It is called by code, not started by a step.
            task.before = self._pushed.get(caller)
            self._pushed[caller] = task
        elif self._starting and self._starting[-1].path == path:
            task.before = self._starting[-1]
        self._tasks[task.id] = task
        self._starting.append(task)
        if len(caller) > len(path):
            self._start_all()

    def _name(self, graph: Pregel, path: tuple[str, ...], payload: Mapping[str, Any]) -> str:
        node = payload["name"]
        if node in self.named:
            return self.named[node]
        given = (payload.get("metadata") or {}).get("lc_agent_name")
        if is_inner(node):
            return str(given or (name_of(graph) if not path else node))
        return self._nodes_of(graph).get(node, node)

    def _nodes_of(self, graph: Pregel) -> Mapping[str, str]:
        if id(graph) not in self._known:
            self._known[id(graph)] = agents_in(graph)
        return self._known[id(graph)]

    def _part(self, path: tuple[str, ...], task: Task) -> Run:
        """Returns the activation of a prebuilt agent that is called, and is no node itself."""
        key = path, task.agent
        run = self._parts.get(key)
        if run is None or run.is_over:
            self._start_all()
            run = self._parts[key] = self._scribe.begin_run(task.agent, parent=task.parent)
        return run

    def _start_all(self) -> None:
        """Tells the start of the tasks that a step begins: several are a parallel group."""
        starting, self._starting = self._starting, []
        own = [task for task in starting if task.is_own]
        group = self._scribe.begin_group() if len(own) > 1 else ""
        for task in own:
            outer = task.branch
            sent = self._plain(task.sent)
            task.run = self._scribe.begin_run(
                task.agent, sent, group=group, branch=outer, outer=outer if group else "",
                parent=task.parent,
            )  # fmt: skip
            task.group = group
            if group:
                task.branch = task.run.id

    def _ends(self, path: tuple[str, ...], payload: Mapping[str, Any]) -> None:
        task = self._tasks.get(payload["id"])
        if task is None:
            return
        inside = (*path, task.id)
        for (where, _), part in self._parts.items():
            if where[: len(inside)] == inside:
                self._scribe.end_run(part)
        result, run = payload["result"], task.run
        if not path and payload["error"] is None:
            self.states.wrote(result, task.agent, run, task.group, task.branch)
        if payload["interrupts"]:
            self._interrupted(path, task, payload["interrupts"])
        elif task.is_own and run is not None:
            self._over(run, payload["error"] is not None, result)
        task.over.set()

    def _over(self, run: Run, has_failed: bool, output: Any = None) -> None:
        if has_failed:
            self._scribe.end_run(run, "failed")
        elif run.final is None and any(one.run == run.id for one in self._scribe.requested):
            self._scribe.end_run(run, "handed_off")
        elif run.final is None and output:
            value = output.get(RETURNED, output) if isinstance(output, Mapping) else output
            self._scribe.end_run(run, output=self._plain(value))
        else:
            self._scribe.end_run(run)

    def _interrupted(
        self, path: tuple[str, ...], task: Task, interrupts: Sequence[Mapping[str, Any]]
    ) -> None:
        run = task.run
        if run is None or (path and not task.is_own):
            return
        if path:
            self._scribe.end_run(run, "interrupted")
            return
        waiting = self.asks.setdefault(self._scribe.session, [])
        for one in interrupts:
            waiting.append({"id": one["id"], "agent": task.agent})
            self._scribe.interrupted(run, self._plain(one["value"]))

    def _plain(self, value: Any) -> Any:
        return plain(value, self._scribe.known)

    # What callbacks tell

    def began_work(self, namespace: str, may_wait: bool) -> None:
        """A node's code is about to run; where it ``may_wait``, when it is its turn."""
        with self._scribe.lock:
            self._start_all()
            path = path_of(namespace)
            task = self._tasks.get(path[-1]) if path else None
        before = task.before if task is not None else None
        if may_wait and before is not None:
            before.over.wait(PATIENCE_S)

    def returned(self, namespace: str, value: Any) -> None:
        """A node's code is done: what it returns may say where control goes."""
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, Command) and one.graph is None:
                self.moved(namespace, one)

    def raised(self, namespace: str, problem: BaseException) -> None:
        """A node's code raised something: control may go to a node of the graph around it."""
        with self._scribe.lock:
            self._problems.append(problem)
        if not isinstance(problem, ParentCommand):
            return
        command = problem.args[0]
        self.moved(namespace, command)
        with self._scribe.lock:
            path = path_of(namespace)
            task = self._tasks.get(path[-1]) if len(path) > 1 else None
            if task is not None:
                if task.is_own and task.run is not None:
                    self._over(task.run, False)
                task.over.set()

    def moved(self, namespace: str, command: Command[Any]) -> None:
        """Control goes to other nodes, if they are other agents: that is a handoff."""
        with self._scribe.lock:
            run = self.run_at(namespace)
            if run is None or any(_is_same(one, command) for one in self._moved):
                return
            self._moved.append(command)
            goto = command.goto
            targets = [goto] if isinstance(goto, (str, Send)) else goto
            for target in targets:
                node = target.node if isinstance(target, Send) else target
                agent = self._agent_of(node)
                asked = any(r.run == run.id and r.to_agent == agent for r in self._scribe.requested)
                if node == END or agent == run.agent or asked:
                    continue
                given = target.arg if isinstance(target, Send) else command.update
                self._scribe.hand_over(run.agent, agent, self._payload(given), run=run)

    def _agent_of(self, node: str) -> str:
        if node in self.named:
            return self.named[node]
        return self._nodes_of(self._roots[-1]).get(node, node) if self._roots else node

    def _payload(self, given: Any) -> Any:
        """Returns what is handed over beside the conversation."""
        if not isinstance(given, Mapping):
            return self._plain(given)
        conversation = self.states.conversation
        more = {key: value for key, value in given.items() if key not in conversation}
        return self._plain(more) or None

    def run_at(self, namespace: str) -> Run | None:
        """Returns the activation that code at a namespace works for."""
        for identity in reversed(path_of(namespace)):
            task = self._tasks.get(identity)
            if task is not None and task.run is not None:
                return task.run
        return None
