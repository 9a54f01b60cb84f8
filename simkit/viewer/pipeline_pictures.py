"""A pipeline's graph as text: Mermaid for Markdown, DOT for Graphviz."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from simkit.checks.findings import Finding
from simkit.trace.views import TurnView, View
from simkit.viewer.document import Edge, Graph

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
        message = "" if turn.message is None else turn.message.content
        if turn.runs:
            yield f"user->>{ids[turn.runs[0].agent]}: {turn.number}. {_plain(message)}"
        yield from _moves(turn, view, ids)
        yield from _lost_handoffs(turn, ids)
        for number, agent in failing:
            if number == turn.number:
                yield f"Note over {ids.get(agent, 'user')}: ✗ a finding in turn {number}"
        if turn.error is not None:
            yield f"Note over user: {_plain(turn.error.type)}"
        elif turn.runs:
            yield f"{ids[turn.runs[-1].agent]}->>user: {_plain(str(turn.reply or '(no text)'))}"


def _moves(turn: TurnView, view: View, ids: dict[str, str]) -> Iterator[str]:
    """Yield how control went from run to run."""
    for last, run in pairwise(turn.runs):
        handoff = view.handoffs.get(run.handoff)
        source = run.handoff_from or last.agent
        if handoff is not None:
            label = handoff.event.type or "handoff"
            yield f"{ids.get(source, 'user')}->>{ids[run.agent]}: {_plain(label)}"
        elif source != run.agent:
            yield f"{ids.get(source, 'user')}-->>{ids[run.agent]}: then"


def _lost_handoffs(turn: TurnView, ids: dict[str, str]) -> Iterator[str]:
    """Yield the handoffs that started no run."""
    followed = {run.handoff for run in turn.runs}
    for handoff in turn.handoffs:
        event = handoff.event
        if handoff.id not in followed and event.from_agent in ids:
            outcome = f"{event.to_agent}: {handoff.outcome} {handoff.reason}"
            yield f"Note over {ids[event.from_agent]}: {_plain(outcome)}"


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
