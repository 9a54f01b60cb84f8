"""What happens in a graph, told as agents at work: who starts and ends, who asks, who hands over.

A task is one execution of one node. Tasks of one step start together; where threads run them, each
waits for those that were started before it, so that a run is the same every time.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from langgraph.errors import ParentCommand
from langgraph.pregel import Pregel
from langgraph.types import Command, Send

from simkit import events as e
from simkit.adapters.activations import Run
from simkit.adapters.endings import ending
from simkit.adapters.langgraph.filters import Filters, wrapping
from simkit.adapters.langgraph.messages import as_message, plain
from simkit.adapters.langgraph.names import (
    agents_in,
    graph_below,
    has_tools,
    is_part,
    is_workflow,
    name_of,
    path_of,
)
from simkit.adapters.langgraph.routes import Routes
from simkit.adapters.langgraph.state import State, States
from simkit.adapters.langgraph.taps import End, Hear, namespace_now
from simkit.adapters.langgraph.whole import WHOLE
from simkit.adapters.pilots import Cockpit

END: Final = "__end__"
RETURNED: Final = "__return__"
"""Where a function's result stands, in the Functional API."""
PATIENCE_S: Final = 10.0
"""How long a task waits for its turn before it runs beside the others."""


class Root:
    """One call of a graph that no other graph runs."""

    __slots__ = ("graph", "parts", "state", "steps")

    def __init__(self, graph: Pregel, state: State) -> None:
        self.graph, self.state = graph, state
        self.steps: list[Run] = []
        """Activations that are over and after which nothing was saved yet."""
        self.parts: dict[tuple[tuple[str, ...], str], Run] = {}
        """Activations of agents that are no node's: prebuilt ones that code calls."""


class Task:
    """One execution of a node."""

    __slots__ = (
        "agent", "before", "branch", "graph", "group", "id", "is_own", "is_saved", "node", "over",
        "parent", "path", "root", "run", "sent",
    )  # fmt: skip

    def __init__(
        self, payload: Mapping[str, Any], path: tuple[str, ...], graph: Pregel | None, root: Root
    ) -> None:
        self.id, self.node = payload["id"], payload["name"]
        self.path, self.graph, self.root = path, graph, root
        self.agent = self.node
        self.is_own = True
        """It is an activation of its agent; else a part of one."""
        self.is_saved = False
        """It was done before the graph stopped, and does not work again."""
        is_sent = path or "__pregel_push" in payload["triggers"]
        self.sent = payload["input"] if is_sent else None
        """What it was given, where that is not the pipeline's state."""
        self.run: Run | None = None
        self.group = self.branch = self.parent = ""
        self.before: Task | None = None
        """The task that was started before it, beside it."""
        self.over = threading.Event()


def _is_same(where: str, one: Command[Any], there: str, other: Command[Any]) -> bool:
    """Whether a command is another, seen before: a graph passes on a copy to the one around it.

    Nodes of one graph that go to the same node and write nothing are one way to go, too.
    """
    if one.goto is not other.goto or one.update is not other.update:
        return False
    is_beside = where.rpartition("|")[0] == there.rpartition("|")[0] and not one.update
    return there.startswith(where) or is_beside


class Watch:
    """Tells a scribe what happens in graphs; is entered from any thread."""

    def __init__(self, cockpit: Cockpit) -> None:
        self._scribe = scribe = cockpit.scribe
        self._writing = cockpit.writing
        self.named: Mapping[str, str] = {}
        """Nodes to the agents that the scenario says they are."""
        self.met: dict[str, None] = {}
        """The nodes that have worked."""
        self.routers: frozenset[str] = frozenset()
        """The agents of which it says that their commands are routes."""
        self._routes = Routes(scribe)
        self.states = States(scribe)
        self._tasks: dict[str, Task] = {}
        self._starting: list[Task] = []
        """Tasks of one step whose start is not told yet."""
        self._pushed: dict[tuple[str, ...], Task] = {}
        """The last task that code of a task has called, by that task's path."""
        self.filters = Filters(scribe)
        self._is_stopped = False
        """A graph has stopped in this turn, as it was told."""
        self._saved: set[str] = set()
        """Tasks of the step that is about to begin that were done before the graph stopped."""
        self._problems: list[BaseException] = []
        """What nodes raised, in the order in which they did."""
        self._moved: list[tuple[str, Command[Any]]] = []
        """Commands that were seen, and where: they pass through several graphs."""
        self._known: dict[int, Mapping[str, str]] = {}
        self.asks: dict[str, list[Mapping[str, Any]]] = {}
        """Session to the interrupts that wait for an answer."""

    def forget(self) -> None:
        """A turn begins: nothing of the last one is at work."""
        self._tasks.clear()
        self._starting.clear()
        self._pushed.clear()
        self._saved.clear()
        self._is_stopped = False
        self._problems.clear()
        self._moved.clear()
        self.filters.forget()
        self._routes.forget()

    # A graph that is called

    def began(self, graph: Pregel, within: tuple[str, ...]) -> tuple[Hear, End]:
        """Returns what hears the stream of a graph that is called, and what hears of its end."""
        with self._writing():
            path = path_of("|".join(within))
            outer = self._tasks.get(path[-1]) if path else None
            root = outer.root if outer is not None else Root(graph, self.states.of(graph))
            if not within:
                self._go_on()
                self.states.last = None
                if not graph.checkpointer:
                    self.filters.restart()
        return partial(self._heard, root, graph, within), partial(self._ended, root, within)

    def _ended(self, root: Root, within: tuple[str, ...], problem: BaseException | None) -> None:
        with self._writing():
            self._start_all()
            if within:
                return
            if problem is None:
                root.state.settle()
            root.state.end()
            tasks = [task for task in self._tasks.values() if task.root is root]
            for task in tasks:
                task.over.set()
            status = ending(problem)
            for run in root.parts.values():
                self._scribe.end_run(run, status)
            root.parts.clear()
            if status == "cancelled":  # A step that is cancelled tells of no task that it is over.
                for task in reversed(tasks):
                    if task.run is not None:
                        self._scribe.end_run(task.run, status)

    def stopped(self, where: str, nodes: Sequence[str], namespace: str) -> None:
        """A graph stopped between two steps, as it was told: nobody asks, but the user is waited
        for. Who is next gets the answer."""
        with self._writing():
            self._start_all()
            path = path_of(namespace)
            runs, latest = self._scribe.runs, next(reversed(self._tasks.values()), None)
            if latest is None or not runs:
                return
            root, outer, agent = latest.root, self._tasks.get(path[0]) if path else None, ""
            if outer is not None:
                agent = outer.agent
            elif nodes:
                is_inner = is_part(nodes[0], root.graph, False)
                agent = name_of(root.graph) if is_inner else self._agent_of(nodes[0], root)
            self.asks.setdefault(self._scribe.session, []).append({"id": "", "agent": agent})
            asked = e.TurnInterrupted(*self._scribe.at(agent, runs[-1]), {where: [*nodes]})
            self._scribe.sink.emit(asked)
            self._scribe.waits_for = runs[-1].id
            self._is_stopped = True

    def _go_on(self) -> None:
        """Code that has stopped a graph calls one again in the same turn: it waits for nobody."""
        if self._is_stopped:
            self._is_stopped, self._scribe.waits_for = False, ""
            self.asks.pop(self._scribe.session, None)

    def place_of(self, problem: BaseException) -> int:
        """Returns the how manieth of the problems of nodes it is."""
        places = (place for place, one in enumerate(self._problems) if one is problem)
        return next(places, len(self._problems))

    def _heard(self, root: Root, graph: Pregel, within: tuple[str, ...], chunk: Any) -> None:
        namespace, mode, payload = chunk
        path = path_of("|".join((*within, *namespace)))
        with self._writing():
            if mode == "tasks" and "triggers" in payload:
                self._starts(root, graph, path, payload, not namespace)
                return
            self._start_all()
            if mode == "tasks":
                self._ends(root, path, payload)
            elif path:
                return
            elif mode == "values":
                root.state.became(payload)
            elif mode == WHOLE:
                root.state.held(payload)
            else:
                self._scribe.saved(root.steps[0] if len(root.steps) == 1 else None)
                root.steps.clear()

    # Tasks

    def _starts(
        self, root: Root, graph: Pregel, path: tuple[str, ...], payload: Mapping[str, Any],
        is_direct: bool,
    ) -> None:  # fmt: skip
        """A task begins, of a node of the graph itself (``is_direct``) or of one below."""
        beside = [one for one in self._starting if one.root is root]
        if not path and not beside:
            root.state.settle()
        outer = self._tasks.get(path[-1]) if path else None
        node = payload["name"]
        self.met[node] = None
        holds = graph if is_direct else outer and graph_below(outer.graph, outer.node, node)
        task = Task(payload, path, holds, root)
        given = (payload.get("metadata") or {}).get("lc_agent_name")
        is_inner = node not in self.named and is_part(node, holds, bool(path))
        if outer is not None and node == outer.node and is_workflow(holds):
            is_inner, given = True, None  # A node that is a function, which is a node itself.
        if is_inner:
            task.agent = str(given or (name_of(graph) if not path else node))
        else:
            task.agent = self.named.get(node) or self._nodes_of(graph).get(node, node)
        if task.id in self._saved:
            self._saved.remove(task.id)
            self._tasks[task.id], task.is_saved = task, True
            return
        if outer is not None:
            task.branch = outer.branch
            task.parent = outer.run.id if outer.run is not None else ""
        if is_inner:
            task.is_own = False
            is_outers = outer is not None and outer.run is not None and given in (
                None, outer.run.agent
            )  # fmt: skip
            task.run = outer.run if outer is not None and is_outers else self._part(path, task)
        caller = path_of(namespace_now())
        if len(caller) > len(path):  # It is called by code, not started by a step.
            self._start_all()
            task.before = self._pushed.get(caller)
            self._pushed[caller] = task
        elif beside and beside[-1].path == path:
            task.before = beside[-1]
        self._tasks[task.id] = task
        self._starting.append(task)

    def looked_up(self, tasks: Collection[str], saved: Collection[str]) -> None:
        """Of tasks that are about to begin, these were done before the graph stopped."""
        with self._writing():
            self._saved.update(saved)
            called = [task for task in self._starting if task.id in tasks]
            for task in called:  # A step looks before it begins its tasks, code that calls after.
                if task.id in self._saved:
                    self._saved.remove(task.id)
                    self._starting.remove(task)
                    task.over.set()
            if called:
                self._start_all()

    def known(self, result: Mapping[str, Any]) -> None:
        """The result of a task is there, and its node does not work."""
        with self._writing():
            self._start_all()
            task = self._tasks.get(result["id"])
            if task is not None and not task.over.is_set():
                self._ends(task.root, task.path, result)

    def _nodes_of(self, graph: Pregel) -> Mapping[str, str]:
        if id(graph) not in self._known:
            self._known[id(graph)] = agents_in(graph)
        return self._known[id(graph)]

    def _part(self, path: tuple[str, ...], task: Task) -> Run:
        """Returns the activation of a prebuilt agent that is called, and is no node itself."""
        key, parts = (path, task.agent), task.root.parts
        run = parts.get(key)
        if run is None or run.is_over:
            self._start_all()
            run = parts[key] = self._scribe.begin_run(task.agent, parent=task.parent)
            self.filters.began(run, path)
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
            self.filters.began(task.run, task.path)
            task.group = group
            if group:
                task.branch = task.run.id

    def _ends(self, root: Root, path: tuple[str, ...], payload: Mapping[str, Any]) -> None:
        task = self._tasks.get(payload["id"])
        if task is None:
            return
        inside = (*path, task.id)
        for key in [key for key in root.parts if key[0][: len(inside)] == inside]:
            self._scribe.end_run(root.parts.pop(key))
        result, run = payload["result"], task.run
        if not path and payload["error"] is None and not (task.is_saved and root.state.goes_on):
            root.state.wrote(result, task.agent, run, task.group, task.branch)
        if payload["interrupts"]:
            self._interrupted(path, task, payload["interrupts"])
        elif task.is_own and run is not None:
            self._over(run, payload["error"] is not None, result)
        if task.is_own and payload["error"] is None:
            self._routes.tell(task.id, run)
        if not path and run is not None:
            root.steps.append(run)
        task.over.set()

    def _over(self, run: Run, has_failed: bool, output: Any = None) -> None:
        if has_failed:
            self._scribe.end_run(run, "failed")
        elif run.final is None and any(one.run == run.id for one in self._scribe.requested):
            self._scribe.end_run(run, "handed_off")
        elif run.final is None and output:
            is_held = isinstance(output, Mapping)
            value = output.get(RETURNED, output.get(END, output)) if is_held else output
            self._scribe.end_run(run, output=self._plain(value))
        else:
            self._scribe.end_run(run)

    def _interrupted(
        self, path: tuple[str, ...], task: Task, interrupts: Sequence[Mapping[str, Any]]
    ) -> None:
        run = task.run
        if not path:
            task.root.state.pauses()
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
        return plain(value, lambda said: self._scribe.logged([*map(as_message, said)]))

    # What callbacks tell

    def began_work(self, namespace: str, may_wait: bool) -> None:
        """A node's code is about to run; where it ``may_wait``, when it is its turn."""
        with self._writing():
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
        with self._writing():
            self._problems.append(problem)
        if not isinstance(problem, ParentCommand):
            return
        command = problem.args[0]
        self.moved(namespace, command)
        with self._writing():
            path = path_of(namespace)
            task = self._tasks.get(path[-1]) if len(path) > 1 else None
            if task is not None:
                if task.is_own and task.run is not None:
                    self._over(task.run, False)
                task.over.set()

    def routed(self, namespace: str, labels: Sequence[str], nodes: Sequence[str]) -> None:
        """A conditional edge has named who is next."""
        with self._writing():
            path = path_of(namespace)
            if path:
                root = self._root_at(path)
                self._routes.chose(path[-1], labels, [self._agent_of(n, root) for n in nodes])

    def moved(self, namespace: str, command: Command[Any]) -> None:
        """Control goes to other nodes, if they are other agents: a handoff, or a router's choice.

        What a model has asked for is a handoff already.
        """
        with self._writing():
            run = self.run_at(namespace)
            seen = (_is_same(namespace, command, *other) for other in self._moved)
            if run is None or any(seen):
                return
            self._moved.append((namespace, command))
            path = path_of(namespace)
            task, root = self._tasks.get(path[-1]), self._root_at(path)
            is_tools = task is not None and task.is_own and has_tools(task.graph, task.node)
            if is_tools:  # Whoever called the tool passes control, not the node that runs it.
                run = next((one for one in reversed(self._scribe.runs) if one.said), run)
            goto = command.goto
            targets = [goto] if isinstance(goto, (str, Send)) else goto
            requested = [r for r in self._scribe.requested if is_tools or r.run == run.id]
            asked = {r.to_agent for r in requested}
            for target in targets:
                node = target.node if isinstance(target, Send) else target
                agent = self._agent_of(node, root)
                if node == END or agent == run.agent or agent in asked:
                    continue
                if not isinstance(target, Send):
                    asked.add(agent)
                if run.agent in self.routers:
                    self._routes.chose(path[-1], (), (agent,))
                    continue
                given = target.arg if isinstance(target, Send) else command.update
                self._scribe.hand_over(run.agent, agent, self._payload(given, root), run=run)

    def _root_at(self, path: tuple[str, ...]) -> Root | None:
        found = (self._tasks[one].root for one in reversed(path) if one in self._tasks)
        return next(found, None)

    def _agent_of(self, node: str, root: Root | None) -> str:
        if node in self.named:
            return self.named[node]
        return self._nodes_of(root.graph).get(node, node) if root is not None else node

    def _payload(self, given: Any, root: Root | None) -> Any:
        """Returns what is handed over beside the conversation."""
        if not isinstance(given, Mapping):
            return self._plain(given)
        conversation = root.state.conversation if root is not None else ()
        more = {key: value for key, value in given.items() if key not in conversation}
        return self._plain(more) or None

    def wrote(self, namespace: str, node: str, given: Any, result: Any) -> None:
        """A node's code is done: what it returns may take messages away."""
        with self._writing():
            run = self.run_at(namespace)
            if run is not None:
                self.filters.wrote(run, path_of(namespace)[:-1], node, given, result)

    def narrowed(self, before: Any, after: Any, by: str) -> None:
        """A filter has made less out of messages; nameless, it is middleware."""
        with self._writing():
            path = path_of(namespace_now())
            task = self._tasks.get(path[-1]) if path else None
            if task is not None and task.run is not None:
                name = by or ", ".join(wrapping(task.graph))
                self.filters.narrowed(task.run, before, after, name)

    def run_at(self, namespace: str) -> Run | None:
        """Returns the activation that code at a namespace works for."""
        for identity in reversed(path_of(namespace)):
            task = self._tasks.get(identity)
            if task is not None and task.run is not None:
                return task.run
        return None
