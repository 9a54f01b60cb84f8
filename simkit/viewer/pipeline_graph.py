"""The pipeline as a graph: what is declared, and what runs used. The page lays it out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from simkit.trace import events as e
from simkit.trace.pipeline_metadata import PipelineFacts
from simkit.trace.views import View
from simkit.viewer.document import Edge, FindingData, Graph, Node

_Key = tuple[str, str, str]


def graph_of(
    facts: PipelineFacts, view: View | None = None, findings: Sequence[FindingData] = ()
) -> Graph:
    """Return a pipeline's graph; with a view, with what its run used, and where findings are."""
    edges = _declared(facts)
    nodes = {
        name: Node(
            name,
            is_start=name in facts.starts,
            is_function=agent.is_function,
            tools=agent.tools,
        )
        for name, agent in facts.agents.items()
    }
    if view is not None:
        _count_runs(view, nodes)
        _count_edges(view, edges, nodes)
        _pin(findings, view, nodes, edges)
    return Graph(
        facts.name, facts.flow, tuple(nodes.values()), tuple(edges.values()), int(view is not None)
    )


def together(graphs: Iterable[Graph]) -> list[Graph]:
    """Return one graph for each pipeline, with the counts of all its runs."""
    by_name: dict[str, list[Graph]] = {}
    for graph in graphs:
        by_name.setdefault(graph.name, []).append(graph)
    return [_sum(name, of_name) for name, of_name in by_name.items()]


def _sum(name: str, graphs: Sequence[Graph]) -> Graph:
    nodes: dict[str, Node] = {}
    edges: dict[_Key, Edge] = {}
    for graph in graphs:
        for node in graph.nodes:
            old = nodes.get(node.name)
            nodes[node.name] = node if old is None else _node_sum(old, node)
        for edge in graph.edges:
            key = (edge.source, edge.target, edge.label)
            old_edge = edges.get(key)
            edges[key] = edge if old_edge is None else _edge_sum(old_edge, edge)
    runs = sum(graph.runs for graph in graphs)
    flow = max(graph.flow for graph in graphs)
    return Graph(name, flow, tuple(nodes.values()), tuple(edges.values()), runs)


def _node_sum(node: Node, other: Node) -> Node:
    return replace(
        node,
        **_counts_of(node, other, "runs", "calls", "tokens", "findings"),
        is_start=node.is_start or other.is_start,
        is_function=node.is_function or other.is_function,
        tools=tuple(dict.fromkeys((*node.tools, *other.tools))),
    )


def _edge_sum(edge: Edge, other: Edge) -> Edge:
    return replace(
        edge,
        **_counts_of(edge, other, "count", "rejected", "findings"),
        # Code shows only in some runs that a way is one of handoffs.
        kind=max(edge.kind, other.kind),
        is_declared=edge.is_declared or other.is_declared,
    )


def _counts_of(item: Node | Edge, other: Node | Edge, *names: str) -> dict[str, int]:
    return {name: getattr(item, name) + getattr(other, name) for name in names}


def _declared(facts: PipelineFacts) -> dict[_Key, Edge]:
    edges: dict[_Key, Edge] = {}
    for source, target in facts.edges:
        edges[source, target, ""] = Edge(source, target, is_declared=True)
    for contract in facts.contracts:
        sources = facts.agents if "*" in contract.from_agents else contract.from_agents
        for source in sources:
            if source != contract.to_agent:
                key = (source, contract.to_agent, contract.type)
                edges[key] = Edge(*key, "handoff", is_declared=True)
                edges.pop((*key[:2], ""), None)
    if not facts.is_open:
        pairs = {key[:2] for key in edges}
        for name, agent in facts.agents.items():
            for target in agent.handoffs:
                if (name, target) not in pairs:
                    edges[name, target, ""] = Edge(name, target, "", "handoff", is_declared=True)
    if facts.decider:
        edges.update(_routes(facts, {target for _, target, _ in edges}))
    return edges


def _routes(facts: PipelineFacts, reached: set[str]) -> dict[_Key, Edge]:
    """Return the ways of a router, which may choose any agent to which no other leads."""
    router = facts.decider
    return {
        (router, name, ""): Edge(router, name, "", "route", is_declared=True)
        for name in facts.agents
        if name != router and name not in reached
    }


def _count_runs(view: View, nodes: dict[str, Node]) -> None:
    for run in view.runs.values():
        node = nodes.get(run.agent) or Node(run.agent)
        nodes[run.agent] = replace(
            node,
            runs=node.runs + 1,
            calls=node.calls + len(run.calls),
            tokens=node.tokens + sum(call.context.tokens for call in run.calls),
        )


def _count_edges(view: View, edges: dict[_Key, Edge], nodes: dict[str, Node]) -> None:
    for handoff in view.handoffs.values():
        event = handoff.event
        key = _key_of(event.from_agent, event.to_agent, event.type, edges)
        edge = edges.get(key) or Edge(*key, "handoff")
        is_made = handoff.outcome == "made"
        edges[key] = replace(
            edge,
            kind="handoff",
            count=edge.count + is_made,
            rejected=edge.rejected + (handoff.outcome == "rejected"),
        )
        for name in key[:2]:
            nodes.setdefault(name, Node(name))
    for source, target, kind in _steps(view):
        key = _key_of(source, target, "", edges)
        edge = edges.get(key) or Edge(*key, kind)
        edges[key] = replace(edge, count=edge.count + 1)


def _key_of(source: str, target: str, label: str, edges: Mapping[_Key, Edge]) -> _Key:
    """Return the edge's key: without a label of its own, the only one between the two."""
    if label and (source, target, label) not in edges and (source, target, "") in edges:
        return source, target, ""
    return source, target, label


def _steps(view: View) -> Iterable[tuple[str, str, str]]:
    """Yield the ways that control took without a handoff."""
    # A run that chose its successors is counted by its route.
    routed = {event.run for event in view.events if type(event) is e.RouteChosen}
    for event in view.events:
        if type(event) is e.RouteChosen and event.agent:
            for target in event.targets:
                yield event.agent, target, "route"
        elif type(event) is e.AgentStarted and not event.handoff:
            for before in event.after:
                if before in view.runs and before not in routed:
                    yield view.runs[before].agent, event.agent, "edge"


def _pin(
    findings: Sequence[FindingData], view: View, nodes: dict[str, Node], edges: dict[_Key, Edge]
) -> None:
    """Count what fails at its agent, and at the handoffs that it is about."""
    for finding in findings:
        if finding.level != "failing":
            continue
        if finding.agent in nodes:
            node = nodes[finding.agent]
            nodes[finding.agent] = replace(node, findings=node.findings + 1)
        if not finding.handoff:
            continue
        for handoff in view.handoffs.values():
            event = handoff.event
            ends = (event.from_agent, event.to_agent)
            if finding.turn in (0, handoff.turn) and (not finding.agent or finding.agent in ends):
                key = _key_of(*ends, event.type, edges)
                edges[key] = replace(edges[key], findings=edges[key].findings + 1)
