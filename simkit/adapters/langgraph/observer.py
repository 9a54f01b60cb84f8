"""Events of a graph as agent runs: starts, ends, questions, handoffs.

A task is one execution of one node. Tasks of one step start together; in threads, each waits for
those started before it, so that a run is the same every time.
"""

from __future__ import annotations

from asyncio import _get_running_loop
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from langgraph.errors import ParentCommand
from langgraph.pregel import Pregel

from simkit.adapters import api
from simkit.adapters.langgraph import compat, graphs
from simkit.adapters.langgraph.filters import Filters, may_filter, wrapping
from simkit.adapters.langgraph.routing import (
    ControlFlow,
    NodeTask,
    Root,
    held_at,
    led_to,
    output_of,
)
from simkit.adapters.langgraph.state import State, States
from simkit.adapters.langgraph.stream_observers import (
    CHANNELS,
    SAVED,
    TASKS,
    ChannelValues,
    End,
    Hear,
    namespace_now,
)
from simkit.adapters.langgraph.tools import Stored, calling

PATIENCE_S: Final = 10.0
"""Seconds that a task waits for its turn before it runs in parallel."""


class GraphObserver(ControlFlow):
    """Reports the events of graphs to a recorder; any thread may call it."""

    def __init__(self, adapter_context: api.AdapterContext) -> None:
        super().__init__(adapter_context)
        recorder = adapter_context.recorder
        self.agents_met: dict[str, None] = {}
        """The nodes that have run."""
        self.states = States(recorder)
        self.stored = Stored(recorder)
        """The channels in stores."""
        self._starting: list[NodeTask] = []
        """Tasks of one step whose start is not reported yet."""
        self._pushed: dict[tuple[str, ...], NodeTask] = {}
        """Task path to the last task that its code has called."""
        self.filters = Filters(recorder)
        self._is_stopped = False
        """Whether a graph stopped at a breakpoint in this turn."""
        self._saved: set[str] = set()
        """Tasks of the next step that were done before the graph stopped."""
        self._problems: list[BaseException] = []
        """The exceptions of nodes, in order."""
        self._works_in: dict[str, State] = {}
        """Agent run to the state that it uses."""
        self.asks: dict[str, list[Mapping[str, Any]]] = {}
        """Session to the interrupts that wait for an answer."""

    def forget(self) -> None:
        """Begin a turn."""
        self._tasks, self._starting, self._pushed, self._chosen = {}, [], {}, {}
        self._saved = set()
        self._is_stopped = False
        self._problems, self._moved, self._works_in = [], [], {}
        self.states.forget()
        self.filters.forget()

    # Calls of graphs

    def run_began(self, graph: Pregel, within: tuple[str, ...]) -> tuple[Hear, End]:
        """Return receivers for the events of a called graph, and for its end."""
        with self._writing():
            path = graphs.path_of("|".join(within))
            outer = self._tasks.get(path[-1]) if path else None
            is_first = outer is None
            if outer is None:
                are_kept = bool(graph.checkpointer)
                root = Root(graph, self.states.of(graph.channels, are_kept=are_kept))
            else:
                root = outer.root
            if not within:
                self._go_on()
                self.states.last = None
                if not graph.checkpointer:
                    self.filters.restart()
        hear = partial(self._record, root, graph, within, object())
        return hear, partial(self._ended, root, is_first)

    def _ended(self, root: Root, is_first: bool, problem: BaseException | None) -> None:
        with self._writing():
            self._start_all()
            if not is_first:
                return
            if problem is None:
                for state in (root.state, *root.states.values()):
                    state.settle()
            root.state.end()
            tasks = [task for task in self._tasks.values() if task.root is root]
            for task in tasks:
                task.end()
            status = api.status_after(problem)
            for run in root.parts.values():
                self._recorder.end_run(run, status)
            root.parts.clear()
            if status == "cancelled":  # A cancelled step does not report the ends of its tasks.
                for task in reversed(tasks):
                    if task.run is not None:
                        self._recorder.end_run(task.run, status)

    def stopped(self, where: str, nodes: Sequence[str], namespace: str) -> None:
        """Handle a stop at a breakpoint: nobody asks, but the graph waits for the user.

        The next node gets the answer.
        """
        with self._writing():
            self._start_all()
            path = graphs.path_of(namespace)
            runs, latest = self._recorder.runs, next(reversed(self._tasks.values()), None)
            if latest is None or not runs:
                return
            root, outer, agent = latest.root, self._tasks.get(path[0]) if path else None, ""
            if outer is not None:
                agent = outer.agent
            elif nodes:
                is_inner = graphs.is_part(nodes[0], root.graph, False)
                agent = graphs.name_of(root.graph) if is_inner else self._agent_of(nodes[0], root)
            self.asks.setdefault(self._recorder.session, []).append({"id": "", "agent": agent})
            self._recorder.events.record_question(
                self._recorder.at(runs[-1], agent), question={where: [*nodes]}
            )
            self._recorder.waits_for = runs[-1].id
            self._is_stopped = True

    def _go_on(self) -> None:
        """Handle a new call of a graph that stopped in the same turn: it no longer waits."""
        if self._is_stopped:
            self._is_stopped, self._recorder.waits_for = False, ""
            self.asks.pop(self._recorder.session, None)

    def place_of(self, problem: BaseException) -> int:
        """Return the index of an exception among those of nodes."""
        places = (index for index, known in enumerate(self._problems) if known is problem)
        return next(places, len(self._problems))

    def _record(
        self, root: Root, graph: Pregel, within: tuple[str, ...], receiver: object,
        namespace: tuple[str, ...], kind: str, payload: Any,
    ) -> None:  # fmt: skip
        """Record an event of the loop of a graph."""
        path = graphs.path_of("|".join((*within, *namespace))) if within or namespace else ()
        with self._writing():
            if kind == TASKS and "triggers" in payload:
                key = receiver, namespace
                states = root.states
                state = states.get(key, root.state)
                self._starts(root, graph, path, payload, state, not namespace)
                return
            if self._starting:
                self._start_all()
            if kind == TASKS:
                self._ends(root, path, payload)
            elif kind == CHANNELS:
                self._holds(root, path, (receiver, namespace), payload)
            elif kind == SAVED and not path:
                self._recorder.saved(root.steps[0] if len(root.steps) == 1 else None)
                root.steps.clear()

    def _holds(
        self,
        root: Root,
        path: tuple[str, ...],
        key: tuple[object, tuple[str, ...]],
        values: ChannelValues,
    ) -> None:
        """Record the channel values at the start of a call, or at the end of a step."""
        outer = self._tasks.get(path[-1]) if path else None
        if values.is_first:
            around = root.state if outer is None else outer.state
            is_roots = not path
            root.states[key] = (
                root.state
                if is_roots
                else State(values.channels, self._recorder, self.states, around=around)
            )
            root.states[key].begin(values.values)
        else:
            root.states[key].became(values.values)
        if values.output is not api.ABSENT and not path:
            self.states.last = values.output

    # Tasks

    def _starts(
        self,
        root: Root,
        graph: Pregel,
        path: tuple[str, ...],
        payload: Mapping[str, Any],
        state: State,
        is_direct: bool,
    ) -> None:
        """Handle the start of a task, in the graph itself (``is_direct``) or an inner one."""
        siblings = [other_task for other_task in self._starting if other_task.root is root]
        outer = self._tasks.get(path[-1]) if path else None
        node, state.is_at_work = payload["name"], True
        self.agents_met[node] = None
        holds = graph if is_direct else outer and graphs.graph_below(outer.graph, outer.node, node)
        task = NodeTask(payload, path, holds, root, state)
        agent_name = (payload.get("metadata") or {}).get(compat.AGENT_NAME)
        is_inner = node not in self.named and graphs.is_part(node, holds, bool(path))
        if outer is not None and node == outer.node and graphs.is_workflow(holds):
            is_inner, agent_name = True, None  # A node that is a function, and so a node itself.
        task.agent = self._agent_name(node, graph, path, agent_name, is_inner=is_inner)
        if task.id in self._saved:
            self._saved.remove(task.id)
            self._tasks[task.id], task.is_saved = task, True
            return
        if outer is not None:
            task.join(outer)
        if is_inner:
            task.is_own = False
            task.run = _run_continued(outer, agent_name) or self._part(path, task)
        task.before = self._task_before(path, task, siblings)
        self._tasks[task.id] = task
        self._starting.append(task)

    def _agent_name(
        self, node: str, graph: Pregel, path: tuple[str, ...], name: str | None, *, is_inner: bool
    ) -> str:
        """Return the agent of a node; ``name`` is that of the prebuilt agent around it."""
        if is_inner:
            return str(name or (node if path else graphs.name_of(graph)))
        return self.named.get(node) or self._nodes_of(graph).get(node, node)

    def _task_before(
        self, path: tuple[str, ...], task: NodeTask, siblings: Sequence[NodeTask]
    ) -> NodeTask | None:
        """Return the parallel task for which a task waits; None if there is none."""
        now = namespace_now()
        caller = graphs.path_of(now) if now else ()
        if caller and len(caller) > len(path):  # Code calls it; no step started it.
            self._start_all()
            before = self._pushed.get(caller)
            self._pushed[caller] = task
            return before
        return siblings[-1] if siblings and siblings[-1].path == path else None

    def looked_up(self, tasks: Collection[str], saved: Collection[str]) -> None:
        """Record that some of the next tasks were done before the graph stopped."""
        with self._writing():
            self._saved.update(saved)
            called = [task for task in self._starting if task.id in tasks]
            for task in called:  # A step looks before it begins tasks.
                if task.id in self._saved:
                    self._saved.remove(task.id)
                    self._starting.remove(task)
                    task.end()
            if called:
                self._start_all()

    def known(self, result: Mapping[str, Any]) -> None:
        """Handle a task's known result: its node does not run."""
        with self._writing():
            self._start_all()
            task = self._tasks.get(result["id"])
            if task is not None and not task.is_over:
                self._ends(task.root, task.path, result)

    def _part(self, path: tuple[str, ...], task: NodeTask) -> api.Run:
        """Return the run of a prebuilt agent that is called, and is no node itself."""
        call = self._carried_out() if task.parent else ""
        key, parts = (path, task.agent, call), task.root.parts
        run = parts.get(key)
        if run is None or run.is_over:
            self._start_all()
            task.state.open()
            channels, received = task.state.received(task.input, self._reads_of(task))
            run = parts[key] = self._recorder.begin_run(
                task.agent,
                parent=task.parent,
                call_id=call,
                state=task.state.id,
                channels=channels,
                received=received,
            )
            self._works_in[run.id] = task.state
            self.filters.run_began(run, path)
        return run

    def _carried_out(self) -> str:
        """Return simkit's id of the tool call that this code executes; empty for none."""
        request = self._recorder.call_request(calling.get())
        if request is None or request.is_answered or request.call.is_handoff:
            return ""
        return request.call.id

    def _start_all(self) -> None:
        """Report the start of a step's tasks: several are a parallel group."""
        if not self._starting:
            return
        starting, self._starting = self._starting, []
        own = starting
        if len(starting) > 1 or not starting[0].is_own:
            own = [task for task in starting if task.is_own]
        group = self._recorder.begin_group() if own is not starting and len(own) > 1 else ""
        for task in own:
            outer = task.branch
            input = self._plain(task.sent_input) if task.sent_input is not None else None
            if task.agent in self.inputs:
                input = held_at(self.inputs[task.agent], received=self._plain(task.input))
            task.state.open()
            channels, received = task.state.received(task.input, self._reads_of(task))
            task.run = self._recorder.begin_run(
                task.agent, input, group=group, branch=outer, outer=outer if group else "",
                parent=task.parent, call_id=self._carried_out() if task.parent else "",
                is_node=True, state=task.state.id, channels=(*channels, *self.stored.channels),
                received=received, after=led_to(task),
            )  # fmt: skip
            self._works_in[task.run.id] = task.state
            self.filters.run_began(task.run, task.path)
            task.group = group
            if group:
                task.branch = task.run.id

    def _ends(self, root: Root, path: tuple[str, ...], payload: Mapping[str, Any]) -> None:
        task = self._tasks.get(payload["id"])
        if task is None:
            return
        self._end_parts(root, (*path, task.id))
        result, run = payload["result"], task.run
        state, has_failed = task.state, payload["error"] is not None
        if not has_failed and not (task.is_saved and state.goes_on):
            writer = run if self._works_in_state(run, state) else None
            state.wrote(result, task.agent, writer, task.group, task.branch)
        if payload["interrupts"]:
            self._interrupted(path, task, payload["interrupts"])
        elif task.is_own and run is not None:
            self._over(run, has_failed, task, result)
            for to in self._plain_targets_of(task.graph).get(task.node, ()):
                task.targets.add(self._agent_of(to, root))
            if task.targets:
                root.done.setdefault(path, []).append(task)
        if task.is_own and not has_failed:
            self._tell_routes(task.id, run)
        if not path and run is not None:
            root.steps.append(run)
        task.end()

    def _works_in_state(self, run: api.Run | None, state: State) -> bool:
        return run is not None and self._works_in.get(run.id) is state

    def _end_parts(self, root: Root, path: tuple[str, ...]) -> None:
        """End the runs of prebuilt agents that the code of a task has called."""
        for key in [key for key in root.parts if key[0][: len(path)] == path]:
            self._recorder.end_run(root.parts.pop(key))

    def _over(
        self, run: api.Run, has_failed: bool, task: NodeTask | None = None, output: Any = None
    ) -> None:
        if has_failed:
            self._recorder.end_run(run, "failed")
        elif run.final is None and self._recorder.pending_handoffs(run):
            self._recorder.end_run(run, "handed_off")
        elif run.agent in self.outputs and task is not None:
            value = held_at(self.outputs[run.agent], update=self._plain(output, run))
            # A path without a value must not make the model's message the output.
            self._recorder.end_run(run, output=value, is_null=value is None)
        else:
            own_output = output_of(task, output, run)
            if own_output is not None:
                own_output = self._plain(own_output, run)
            self._recorder.end_run(run, output=own_output)

    def _interrupted(
        self, path: tuple[str, ...], task: NodeTask, interrupts: Sequence[Mapping[str, Any]]
    ) -> None:
        run = task.run
        if not path:
            task.root.state.pauses = True
        if run is None or (path and not task.is_own):
            return
        if path:
            self._recorder.end_run(run, "interrupted")
            return
        waiting = self.asks.setdefault(self._recorder.session, [])
        for interrupt in interrupts:
            waiting.append({"id": interrupt["id"], "agent": task.agent})
            self._recorder.interrupted(run, self._plain(interrupt["value"]))

    # Callbacks

    def began_work(self, namespace: str) -> None:
        """Handle that a node's code is about to run; outside event loops, wait for its turn."""
        with self._writing():
            if self._starting:
                self._start_all()
            path = graphs.path_of(namespace)
            task = self._tasks[path[-1]] if path and path[-1] in self._tasks else None
        before = task.before if task is not None else None
        if before is None or _get_running_loop() is not None:
            return
        # The earlier task goes first; while it sleeps, the next one continues.
        if not api.wait_for_thread(lambda: before.is_over):
            before.wait(PATIENCE_S)

    def raised(self, namespace: str, problem: BaseException) -> None:
        """Handle an exception of a node's code, which may pass control in the outer graph."""
        with self._writing():
            self._problems.append(problem)
        if not isinstance(problem, ParentCommand):
            return
        command = problem.args[0]
        self.moved(namespace, command)
        with self._writing():
            path = graphs.path_of(namespace)
            task = self._tasks.get(path[-1]) if len(path) > 1 else None
            if task is not None:
                if task.is_own and task.run is not None:
                    self._over(task.run, False)
                task.end()

    def wrote(self, namespace: str, node: str, input: Any, result: Any) -> None:
        """Handle the end of a node's code, whose result may remove messages."""
        if not may_filter(result):
            return
        with self._writing():
            run = self.run_at(namespace)
            if run is not None:
                self.filters.wrote(run, graphs.path_of(namespace)[:-1], node, input, result)

    def narrowed(self, before: Any, after: Any, by: str) -> None:
        """Handle a filter that dropped messages; without a name it is middleware."""
        with self._writing():
            path = graphs.path_of(namespace_now())
            task = self._tasks.get(path[-1]) if path else None
            if task is not None and task.run is not None:
                name = by or ", ".join(wrapping(task.graph))
                self.filters.narrowed(task.run, before, after, name)


def _run_continued(outer: NodeTask | None, agent: str | None) -> api.Run | None:
    """Return the outer task's run if its inner task belongs to the same agent, or names none."""
    run = outer.run if outer is not None else None
    return run if run is not None and agent in (None, run.agent) else None
