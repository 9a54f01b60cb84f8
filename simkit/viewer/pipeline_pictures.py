"""A pipeline's graph as text: Mermaid for Markdown, DOT for Graphviz, SVG for anything."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree import ElementTree as xml

from simkit.checks.findings import Finding
from simkit.trace.views import View
from simkit.viewer.document import Edge, Graph, Node

CELL_WIDTH: Final = 220
CELL_HEIGHT: Final = 120
NODE_WIDTH: Final = 160
NODE_HEIGHT: Final = 48
MARGIN: Final = 20
STEPS_MAX: Final = 60
"""The number of steps in a picture of a run: longer ones are not read."""

_COLOURS: Final = """
text { font: 14px system-ui, sans-serif; fill: #1f2328; }
.small { font-size: 12px; fill: #59636e; paint-order: stroke; stroke: #ffffff; stroke-width: 4px; }
.node { fill: #f6f8fa; stroke: #59636e; stroke-width: 1.5; }
.start { stroke-width: 3; }
.edge { fill: none; stroke: #59636e; stroke-width: 1.5; }
.handoff { stroke: #0969da; }
.head { fill: #59636e; }
.handoff-head { fill: #0969da; }
.back { fill: #ffffff; }
"""


# Mermaid


def mermaid_text(graph: Graph) -> str:
    """Return a flowchart: thick edges are handoffs."""
    ids = {node.name: f"n{place}" for place, node in enumerate(graph.nodes)}
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
    ids = {agent: f"a{place}" for place, agent in enumerate(agents)}
    lines = ["sequenceDiagram", "    actor user"]
    lines += [f"    participant {ids[agent]} as {_plain(agent)}" for agent in agents]
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
        first = next(iter(turn.runs), None)
        message = "" if turn.message is None else turn.message.content
        if first is not None:
            yield f"user->>{ids[first.agent]}: {turn.number}. {_plain(message)}"
        handoffs = {run.handoff: run for run in turn.runs if run.handoff}
        last = first
        for run in turn.runs[1:]:
            handoff = view.handoffs.get(run.handoff)
            source = run.handoff_from or (last.agent if last is not None else run.agent)
            if handoff is not None:
                label = handoff.event.type or "handoff"
                yield f"{ids.get(source, 'user')}->>{ids[run.agent]}: {_plain(label)}"
            elif source != run.agent:
                yield f"{ids.get(source, 'user')}-->>{ids[run.agent]}: then"
            last = run
        for handoff in turn.handoffs:
            ends = (ids.get(handoff.event.from_agent), ids.get(handoff.event.to_agent))
            if handoff.id not in handoffs and ends[0]:
                outcome = f"{handoff.event.to_agent}: {handoff.outcome} {handoff.reason}"
                yield f"Note over {ends[0]}: {_plain(outcome)}"
        for number, agent in failing:
            if number == turn.number:
                yield f"Note over {ids.get(agent, 'user')}: ✗ a finding in turn {number}"
        if turn.error is not None:
            yield f"Note over user: {_plain(turn.error.type)}"
        elif last is not None:
            yield f"{ids[last.agent]}->>user: {_plain(str(turn.reply or '(no text)'))}"


def _plain(text: str) -> str:
    """Return a text without what Mermaid reads as syntax."""
    one_line = re.sub(r"[^\w .,!?'=+/@€$%*-]+", " ", text).strip()
    return (one_line[:60] + "…" if len(one_line) > 60 else one_line) or "…"


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


# SVG


def svg_text(graph: Graph) -> str:
    """Return a drawing as one SVG element, with its title and description for screen readers."""
    columns = max((node.x for node in graph.nodes), default=0) + 1
    rows = max((node.y for node in graph.nodes), default=0) + 1
    width = round(columns * CELL_WIDTH + 2 * MARGIN)
    height = round(rows * CELL_HEIGHT + 2 * MARGIN)
    root = xml.Element(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=str(width),
        height=str(height),
        role="img",
    )
    xml.SubElement(root, "title").text = f"The pipeline {graph.name}"
    ways = [f"{e.source} → {e.target}{f' ({e.label})' if e.label else ''}" for e in _drawn(graph)]
    xml.SubElement(root, "desc").text = "; ".join(ways) or "no edges"
    xml.SubElement(root, "style").text = _COLOURS
    xml.SubElement(root, "rect", {"class": "back", "width": str(width), "height": str(height)})
    _arrow_heads(root)
    nodes = {node.name: node for node in graph.nodes}
    sides: dict[tuple[str, str], int] = {}
    for edge in _drawn(graph):
        pair = (edge.source, edge.target)
        sides[pair] = sides.get(pair, -1) + 1
        _draw_edge(root, edge, nodes[edge.source], nodes[edge.target], sides[pair])
    for node in graph.nodes:
        _draw_node(root, node)
    xml.indent(root)
    return xml.tostring(root, encoding="unicode")


def _arrow_heads(root: xml.Element) -> None:
    definitions = xml.SubElement(root, "defs")
    for name in ("head", "handoff-head"):
        marker = xml.SubElement(
            definitions,
            "marker",
            id=name,
            viewBox="0 0 10 10",
            refX="9",
            refY="5",
            markerWidth="7",
            markerHeight="7",
            orient="auto-start-reverse",
        )
        xml.SubElement(marker, "path", {"d": "M 0 0 L 10 5 L 0 10 z", "class": name})


def _middle(node: Node) -> tuple[float, float]:
    return MARGIN + (node.x + 0.5) * CELL_WIDTH, MARGIN + (node.y + 0.5) * CELL_HEIGHT


def _draw_node(root: xml.Element, node: Node) -> None:
    x, y = _middle(node)
    style = "node start" if node.is_start else "node"
    xml.SubElement(
        root,
        "rect",
        {
            "class": style,
            "x": _number(x - NODE_WIDTH / 2),
            "y": _number(y - NODE_HEIGHT / 2),
            "width": str(NODE_WIDTH),
            "height": str(NODE_HEIGHT),
            "rx": "8",
        },
    )
    _draw_text(root, node.name, x, y + 5)


def _draw_edge(root: xml.Element, edge: Edge, source: Node, target: Node, side: int) -> None:
    start, end = _middle(source), _middle(target)
    if source.name == target.name:
        x, y = start[0] + NODE_WIDTH / 2, start[1]
        line = f"M {_number(x)} {_number(y - 12)} c 50 -20 50 44 0 24"
        label = (x + 44, y + 4)
    elif source.y < target.y:
        y1, y2 = start[1] + NODE_HEIGHT / 2, end[1] - NODE_HEIGHT / 2
        bend = (y2 - y1) / 2
        line = f"M {_xy(start[0], y1)} C {_xy(start[0], y1 + bend)} "
        line += f"{_xy(end[0], y2 - bend)} {_xy(end[0], y2)}"
        label = ((start[0] + end[0]) / 2, (y1 + y2) / 2 + 14 * side)
    else:
        # Back, or along one row: around the right side.
        x1, x2 = start[0] + NODE_WIDTH / 2, end[0] + NODE_WIDTH / 2
        bow = max(x1, x2) + 34 + 14 * side
        line = f"M {_xy(x1, start[1])} C {_xy(bow, start[1])} {_xy(bow, end[1])} {_xy(x2, end[1])}"
        label = (bow - 12, (start[1] + end[1]) / 2)
    is_handoff = edge.kind == "handoff"
    head = "handoff-head" if is_handoff else "head"
    style = "edge handoff" if is_handoff else "edge"
    xml.SubElement(root, "path", {"class": style, "d": line, "marker-end": f"url(#{head})"})
    if edge.label:
        _draw_text(root, edge.label, *label, style="small")


def _draw_text(root: xml.Element, text: str, x: float, y: float, style: str = "") -> None:
    label = text if len(text) <= 22 else f"{text[:21]}…"
    places = {"x": _number(x), "y": _number(y), "text-anchor": "middle"}
    element = xml.SubElement(root, "text", places | ({"class": style} if style else {}))
    element.text = label
    if label != text:
        xml.SubElement(element, "title").text = text


def _xy(x: float, y: float) -> str:
    return f"{_number(x)} {_number(y)}"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
