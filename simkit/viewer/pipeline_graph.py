"""The pipeline as a graph: what is declared, and what runs used.

The page lays it out; as text it is Mermaid for Markdown, or DOT for Graphviz.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from simkit.checks.findings import Finding
from simkit.core.text import short_end, without_secrets_in
from simkit.trace import events as e
from simkit.trace.event_parts import PipelineFacts
from simkit.trace.views import TurnView, View
from simkit.viewer.document import Edge, FindingData, Graph, Node

_Key = tuple[str, str, str]


def graph_of(
    facts: PipelineFacts, view: View | None = None, findings: Sequence[FindingData] = ()
) -> Graph:
    """Return a pipeline's graph; with a view, with what its run used, and where findings are."""
    edges = _declared(facts)
    nodes = {
        name: Node(
            name, is_start=name in facts.starts, is_function=agent.is_function, tools=agent.tools
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
            nodes[node.name] = _node_sum(nodes.get(node.name) or Node(node.name), node)
        for edge in graph.edges:
            key = (edge.source, edge.target, edge.label)
            edges[key] = _edge_sum(edges.get(key) or Edge(*key), edge)
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
    for source, target, kind in _edges_taken(view):
        key = _key_of(source, target, "", edges)
        edge = edges.get(key) or Edge(*key, kind)
        edges[key] = replace(edge, count=edge.count + 1)


def _key_of(source: str, target: str, label: str, edges: Mapping[_Key, Edge]) -> _Key:
    """Return the edge's key: without a label of its own, the only one between the two."""
    if label and (source, target, label) not in edges and (source, target, "") in edges:
        return source, target, ""
    return source, target, label


def _edges_taken(view: View) -> Iterable[tuple[str, str, str]]:
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


STEPS_MAX: Final = 60
"""The number of steps in a picture of a run: longer ones are not read."""


# Mermaid


def mermaid_text(graph: Graph) -> str:
    """Return a flowchart: thick edges are handoffs."""
    ids = {node.name: f"n{number}" for number, node in enumerate(graph.nodes)}
    lines = ["flowchart TD"]
    for node in graph.nodes:
        opening, closing = ("([", "])") if node.is_start else ("[", "]")
        lines.append(f"    {ids[node.name]}{opening}{_quoted(node.name)}{closing}")
    for edge in _drawn(graph):
        arrow = "==>" if edge.kind == "handoff" else "-->"
        label = f"|{_quoted(edge.label)}|" if edge.label else ""
        lines.append(f"    {ids[edge.source]} {arrow}{label} {ids[edge.target]}")
    return "\n".join(lines)


def sequence_text(view: View, findings: Sequence[Finding] = ()) -> str:
    """Return a run's control as a sequence diagram: user, handoffs, routes.

    Findings are noted at the agent that they name, else at that of the event that they concern.
    """
    failing = [(finding.turn, _agent_of(finding, view)) for finding in findings]
    agents = list(dict.fromkeys(run.agent for run in view.runs.values()))
    ids = {agent: f"a{number}" for number, agent in enumerate(agents)}
    lines = ["sequenceDiagram", "    actor user"]
    lines += [f"    participant {ids[agent]} as {_label(agent)}" for agent in agents]
    steps = list(_steps(view, ids, failing))
    lines += [f"    {step}" for step in steps[:STEPS_MAX]]
    if len(steps) > STEPS_MAX:
        lines.append(f"    Note over user: … and {len(steps) - STEPS_MAX} more steps")
    return "\n".join(lines)


def _agent_of(finding: Finding, view: View) -> str:
    if finding.agent or finding.event is None or finding.event >= len(view.events):
        return finding.agent
    return view.events[finding.event].agent


def _steps(view: View, ids: dict[str, str], failing: Sequence[tuple[int, str]]) -> Iterator[str]:
    for turn in view.turns:
        message = "" if turn.message is None else turn.message.content
        if turn.runs:
            yield f"user->>{ids[turn.runs[0].agent]}: {turn.number}. {_label(message)}"
        yield from _moves(turn, view, ids)
        yield from _lost_handoffs(turn, ids)
        for number, agent in failing:
            if number == turn.number:
                yield f"Note over {ids.get(agent, 'user')}: ✗ a finding in turn {number}"
        if turn.error is not None:
            yield f"Note over user: {_label(turn.error.type)}"
        elif turn.runs:
            yield f"{ids[turn.runs[-1].agent]}->>user: {_label(str(turn.reply or '(no text)'))}"


def _moves(turn: TurnView, view: View, ids: dict[str, str]) -> Iterator[str]:
    """Yield how control went from run to run."""
    for last, run in pairwise(turn.runs):
        handoff = view.handoffs.get(run.handoff)
        source = run.handoff_from or last.agent
        if handoff is not None:
            label = handoff.event.type or "handoff"
            yield f"{ids.get(source, 'user')}->>{ids[run.agent]}: {_label(label)}"
        elif source != run.agent:
            yield f"{ids.get(source, 'user')}-->>{ids[run.agent]}: then"


def _lost_handoffs(turn: TurnView, ids: dict[str, str]) -> Iterator[str]:
    """Yield the handoffs that started no run."""
    followed = {run.handoff for run in turn.runs}
    for handoff in turn.handoffs:
        event = handoff.event
        if handoff.id not in followed and event.from_agent in ids:
            outcome = f"{event.to_agent}: {handoff.outcome} {handoff.reason}"
            yield f"Note over {ids[event.from_agent]}: {_label(outcome)}"


def _label(text: str) -> str:
    """Return a text without what Mermaid reads as syntax."""
    one_line = re.sub(r"[^\w .,!?'=+/@€$%*-]+", " ", without_secrets_in(text)).strip()
    return short_end(one_line, 61) or "…"


def _quoted(text: str) -> str:
    escaped = text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;")
    return f'"{escaped.replace(chr(10), " ")}"'


# Graphviz


def dot_text(graph: Graph) -> str:
    """Return a digraph for Graphviz."""
    lines = [f"digraph {_dot(graph.name)} {{", "    rankdir=TB;", "    node [shape=box];"]
    for node in graph.nodes:
        options = ["penwidth=2"] if node.is_start else []
        lines.append(f"    {_dot(node.name)}{_options(options)};")
    for edge in _drawn(graph):
        options = [f"label={_dot(edge.label)}"] if edge.label else []
        options += ["style=bold"] if edge.kind == "handoff" else []
        lines.append(f"    {_dot(edge.source)} -> {_dot(edge.target)}{_options(options)};")
    return "\n".join([*lines, "}"])


def _dot(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _options(options: Sequence[str]) -> str:
    return f" [{', '.join(options)}]" if options else ""


def _drawn(graph: Graph) -> Iterator[Edge]:
    names = {node.name for node in graph.nodes}
    return (edge for edge in graph.edges if edge.source in names and edge.target in names)
