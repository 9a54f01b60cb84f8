"""Flows: four ways in which control moves between agents, built from the same few steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from simkit.core.errors import NoRoute
from simkit.core.text import short_end
from simkit.language.paths import Template
from simkit.language.paths import compile as compile_references
from simkit.runtime.activation import Activation
from simkit.runtime.chain import chain, in_parallel, passed_on
from simkit.runtime.compiled import CompiledPipeline
from simkit.runtime.context.rendering import json_text, text_form
from simkit.runtime.conversation import Branch, common
from simkit.runtime.scheduler import Steps, WaitForAll
from simkit.runtime.turn import Start, Turn
from simkit.spec.pipeline import model as p
from simkit.spec.pipeline.agents import ELSE
from simkit.spec.pipeline.model import Goal

# The graph: nodes, labelled edges, and branches that run in parallel and join


ANSWER_CHARACTERS_MAX: Final = 120
"""The length of a decision's or a router's answer in an error."""

Decision = Mapping[str, str]
"""``{node, label}``: the decision that led here."""


class GraphFlow:
    """A flow in which nodes run along edges; a node's output is the next one's input."""

    def __init__(self, graph: p.GraphFlow) -> None:
        self.nodes = graph.nodes
        self.edges: dict[str, list[p.Edge]] = {name: [] for name in graph.nodes}
        for edge in graph.edges:
            self.edges[edge.from_].append(edge)
        self.start = next(name for name, node in graph.nodes.items() if node.start)
        self.reach = {name: self._reachable(name) for name in graph.nodes}
        route = graph.route_by
        fields_set = route.model_fields_set if route is not None else frozenset()
        self._equals = (
            compile_references(route.equals) if route and "equals" in fields_set else None
        )
        self._contains = (
            compile_references(route.contains) if route and "contains" in fields_set else None
        )

    def _reachable(self, start: str) -> frozenset[str]:
        reachable: set[str] = set()
        waiting = [start]
        while waiting:
            for edge in self.edges[waiting.pop()]:
                if edge.to not in reachable:
                    reachable.add(edge.to)
                    waiting.append(edge.to)
        return frozenset(reachable)

    def run(self, turn: Turn) -> Steps:
        """Run one turn from the start node until no branch continues."""
        return _Walk(self, turn).go(_ReadyNode(Start(self.start), None))

    def chosen(self, node: str, source: Activation) -> tuple[list[str], p.Edge | None]:
        """Return the labels that match a decision's answer, and the edge that is taken."""
        value = self._decided(source)
        labelled = [edge for edge in self.edges[node] if edge.label not in (None, ELSE)]
        matching = [edge for edge in labelled if self._matches(edge.label or "", value)]
        if matching:
            return list(dict.fromkeys(edge.label or "" for edge in matching)), matching[0]
        other = next((edge for edge in self.edges[node] if edge.label == ELSE), None)
        if other is not None:
            return [ELSE], other
        if self.nodes[node].exit:
            return [], None
        raise self._no_route(node, value, labelled)

    def _no_route(self, node: str, value: Any, labelled: Sequence[p.Edge]) -> NoRoute:
        """Return the error of a decision that none of the labels fits."""
        labels = ", ".join(dict.fromkeys(edge.label or "" for edge in labelled))
        return NoRoute(
            f"node {node!r} decided {_answer_text(value)}, which "
            f"{'holds' if self._contains else 'is'} none of its labels: {labels}"
        )

    def _decided(self, source: Activation) -> Any:
        template: Template | None = self._contains if self._equals is None else self._equals
        if template is not None:
            return template.resolve(source.root_now())
        decision = source.output
        return (
            decision["decision"]
            if isinstance(decision, Mapping) and "decision" in decision
            else decision
        )

    def _matches(self, label: str, value: Any) -> bool:
        if value is None:
            return False
        text = text_form(value)
        return label in text if self._contains is not None else label == text


def _answer_text(answer: Any) -> str:
    return short_end(json_text(answer), ANSWER_CHARACTERS_MAX)


class _ReadyNode(msgspec.Struct, frozen=True):
    """A node that is about to run."""

    start: Start
    decision: Decision | None
    """The last decision on the way to it; None if there is none."""


class _Arrival(msgspec.Struct, frozen=True):
    """One branch's arrival at a merge."""

    start: Start
    source: Activation
    node: str
    """The node of ``source``."""
    as_input: Mapping[str, Any]
    decision: Decision | None


class _Walk:
    """One turn's walk through the graph."""

    def __init__(self, flow: GraphFlow, turn: Turn) -> None:
        self._flow, self._turn = flow, turn
        self._active: list[str] = [flow.start]
        """Running nodes, one entry a branch."""
        self._waiting: dict[str, list[_Arrival]] = {}
        """Merges that a branch has reached, in the order in which they were reached."""

    def go(self, place: _ReadyNode, started: Activation | None = None) -> Steps:
        """Run a node and those after it, until its branch ends or forks."""
        while True:
            node = place.start.agent
            source: Activation = yield from chain(self._turn, place.start, started)
            started = None
            next_nodes = _Onward(self._flow, self._turn, node, place)
            starts: list[Start] = yield from passed_on(self._turn, node, source, next_nodes)
            source = next_nodes.source or source
            self._active.remove(node)
            arrived = self._arrived(starts, source, next_nodes)
            ready = self._ready()
            onward = [*arrived, *ready]
            if len(next_nodes.places) > 1 or len(onward) != 1:
                yield from self._split(source.branch, arrived, ready)
                return
            (place,) = onward

    def _arrived(
        self, starts: list[Start], source: Activation, onward: _Onward
    ) -> list[_ReadyNode]:
        """Return the places that can run at once; merges record their arrivals."""
        places_reached = []
        for start in starts:
            node = start.agent
            if self._flow.nodes[node].role != "merge":
                self._active.append(node)
                places_reached.append(_ReadyNode(start, onward.decision))
                continue
            as_input = onward.as_input(source)
            arrival = _Arrival(start, source, onward.node, as_input, onward.decision)
            self._waiting.setdefault(node, []).append(arrival)
        return places_reached

    def _split(
        self, branch: Branch | None, split_places: Sequence[_ReadyNode], ready: Sequence[_ReadyNode]
    ) -> Steps:
        """Run the continuations of a branch in parallel; several get a branch each."""
        by_branch = {id(branch): list(split_places)}
        for place in ready:
            by_branch.setdefault(id(place.start.branch), []).append(place)
        work = [self._side_by_side(places) for places in by_branch.values() if places]
        if work:
            yield WaitForAll(work)

    def _side_by_side(self, places: Sequence[_ReadyNode]) -> Steps:
        """Run places of one branch in parallel."""
        if len(places) == 1:
            return self.go(places[0])
        starts = [place.start for place in places]
        return in_parallel(self._turn, starts, lambda at, start: self.go(places[at], start))

    def _ready(self) -> list[_ReadyNode]:
        """Return the merges that no unfinished run can still reach."""
        reach, places = self._flow.reach, []
        for node in list(self._waiting):
            others = [other for other in self._waiting if other != node]
            is_held = any(node in reach[active] for active in self._active) or any(
                node in reach[other] and other not in reach[node] for other in others
            )
            if not is_held:
                places.append(self._merged(node, self._waiting.pop(node)))
                self._active.append(node)
        return places

    def _merged(self, node: str, arrivals: Sequence[_Arrival]) -> _ReadyNode:
        handoffs = [each.start.handoff for each in arrivals if each.start.handoff is not None]
        start = Start(
            node,
            handoffs[-1] if handoffs else None,
            max(each.start.depth for each in arrivals),
            common([each.source.branch for each in arrivals]),
            {each.node: each.source.output for each in arrivals},
            upstream={each.node: each.as_input for each in arrivals},
            after=tuple(each.source.id for each in arrivals),
        )
        return _ReadyNode(start, arrivals[-1].decision)


class _Onward:
    """The targets of an ended node; computed again if a contract made the node run again."""

    def __init__(self, flow: GraphFlow, turn: Turn, node: str, place: _ReadyNode) -> None:
        self._flow, self._turn, self.node, self._place = flow, turn, node, place
        self.decision = place.decision
        self.source: Activation | None = None
        self.places: list[str] = []

    def __call__(self, source: Activation) -> list[Start]:
        self.source = source
        self.places = [edge.to for edge in self._edges(source)]
        return [
            Start(
                node,
                None,
                source.spec.depth,
                source.branch,
                source.output,
                upstream={self.node: self.as_input(source)},
                after=(source.id,),
            )
            for node in self.places
        ]

    def _edges(self, source: Activation) -> list[p.Edge]:
        node = self._flow.nodes[self.node]
        if node.role != "decision":
            return self._flow.edges[self.node]
        labels, edge = self._flow.chosen(self.node, source)
        if edge is None:
            return []
        turn = self._turn
        turn.recorder.record_route(
            turn.position(self.node, source.id), targets=(edge.to,), labels=tuple(labels)
        )
        self.decision = {"node": self.node, "label": edge.label or ""}
        return [edge]

    def as_input(self, source: Activation) -> dict[str, Any]:
        """Return this node's result for the next node, with the last decision."""
        as_input = source.as_input()
        return {**as_input, "decision": self.decision} if self.decision is not None else as_input


# All flows


class Flow(Protocol):
    """How control moves between agents."""

    def run(self, turn: Turn) -> Steps:
        """Run one turn to its end."""


def flow_of(compiled: CompiledPipeline) -> Flow:
    """Return the pipeline's flow, ready to run; all runs share it."""
    if compiled.flow is None:
        compiled.flow = _compiled_flow(compiled)
    flow: Flow = compiled.flow
    return flow


def _compiled_flow(compiled: CompiledPipeline) -> Flow:
    flow = compiled.pipeline.flow
    if flow.router is not None:
        return RouterFlow(compiled, flow.router.decide, flow.router.to)
    if flow.graph is not None:
        return GraphFlow(flow.graph)
    if flow.supervisor is not None:
        return SupervisorFlow(flow.supervisor.goals)
    assert flow.handoffs is not None
    return HandoffsFlow(compiled, flow.handoffs.start)


class RouterFlow:
    """A flow in which one agent decides; the named agents run in order or in parallel."""

    def __init__(self, compiled: CompiledPipeline, decide: str, to: Any) -> None:
        self._agents, self._decide, self._to = compiled.agents, decide, compile_references(to)
        self._targets = self._agents.keys() - {decide}

    def run(self, turn: Turn) -> Steps:
        """Run the decider, then its targets."""
        decider: Activation = yield from chain(turn, Start(self._decide))
        turn.reply = None
        chosen = self._to.resolve(decider.root_now())
        parallel = isinstance(chosen, Mapping) and "parallel" in chosen
        route_targets = chosen["parallel"] if parallel else chosen
        is_list = isinstance(route_targets, (list, tuple))
        targets = tuple(route_targets) if is_list else (route_targets,)
        for target in targets or (None,):
            if not isinstance(target, str) or target not in self._targets:
                raise self._no_route(target, decider.output)
        turn.recorder.record_route(
            turn.position(decider.agent.name, decider.id), targets=targets, parallel=parallel
        )
        starts = [Start(target) for target in targets]
        if parallel and len(targets) > 1:
            yield from in_parallel(turn, starts, lambda at, run: chain(turn, starts[at], run))
            return
        for start in starts:
            yield from chain(turn, start)

    def _no_route(self, target: Any, answer: Any) -> NoRoute:
        chosen = f"{target!r}, which is no agent"
        if target is None or target == self._decide:
            chosen = "nobody" if target is None else "itself"
        known = ", ".join(name for name in self._agents if name != self._decide)
        return NoRoute(
            f"router {self._decide!r} chose {chosen}; it answered {_answer_text(answer)}; "
            f"agents: {known}"
        )


class HandoffsFlow:
    """A flow in which a turn starts with one agent, and agents pass control themselves."""

    def __init__(self, compiled: CompiledPipeline, start: Any) -> None:
        self._agents, self._start = compiled.agents, compile_references(start)

    def run(self, turn: Turn) -> Steps:
        """Run the starting agent and those it passes control to."""
        first = self._start.resolve(turn.root())
        if not isinstance(first, str) or first not in self._agents:
            target_text = "nobody" if first is None else repr(first)
            raise NoRoute(
                f"the flow starts with {target_text}, which is no agent; agents: "
                f"{', '.join(self._agents)}"
            )
        yield from chain(turn, Start(first))


class SupervisorFlow:
    """A flow of goals: each step is an agent and its task."""

    def __init__(self, goals: Mapping[str, Goal]) -> None:
        self._goals = {
            name: [
                (agent, compile_references(task))
                for step in goal.steps
                for agent, task in step.items()
            ]
            for name, goal in goals.items()
        }

    def run(self, turn: Turn) -> Steps:
        """Run all goals in order, or the one that the user's message names as its ``goal``."""
        last: Activation | None = None
        before = ""
        for goal, agent, task in self._plan(turn.input):
            start, root = Start(agent), turn.root()
            if last is not None:
                ended: list[Activation] = []
                (start,) = yield from passed_on(turn, before, last, _next_step(agent, ended))
                # The handoff is made by now, so the task can refer to what its contract wrote.
                root = ended[-1].root_now()
            words = text_form(task.resolve(root))
            last = yield from chain(turn, replace(start, input=words, task=words, goal=goal))
            before = agent

    def _plan(self, user_value: Any) -> Iterator[tuple[str, str, Template]]:
        goal_name = user_value.get("goal") if isinstance(user_value, Mapping) else None
        if goal_name is not None and goal_name not in list(self._goals):
            raise NoRoute(f"there is no goal {goal_name!r}; goals: {', '.join(self._goals)}")
        for name, steps in self._goals.items():
            if goal_name is None or name == goal_name:
                yield from ((name, agent, task) for agent, task in steps)


def _next_step(agent: str, ended: list[Activation]) -> Callable[[Activation], list[Start]]:
    """Return a function that finds the next step after a run, and records that run."""

    def starts_after(source: Activation) -> list[Start]:
        ended.append(source)
        return [Start(agent, after=(source.id,))]

    return starts_after
