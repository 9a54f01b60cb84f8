"""Graphs written on one line, for tests: ``graph("s>a s>b a>m b>m", s="role: split", …)``."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.building import Ran, run_yaml

HEAD = """
channels:
  outputs: {reducer: merge}
  seen: {reducer: append}
defaults:
  context: [instructions, history, current_message]
  writes:
    messages: ["${run.final_message}"]
    outputs: {"${agent}": "${run.output}"}
    seen: "${agent}"
"""
"""Channels in which a run shows what it saw: who wrote before it, and what."""


def graph(
    edges: str,
    agents: Mapping[str, str] | None = None,
    more: str = "",
    head: str = HEAD,
    **nodes: str,
) -> str:
    """Returns a pipeline: edges as ``from>to`` or ``from>to:label``, nodes with what they say.

    The first node of the first edge starts, unless another says so. ``agents`` says what an
    agent's definition holds.
    """
    ways = [_edge(word) for word in edges.split()]
    named = dict.fromkeys(name for way in ways for name in (way["from"], way["to"]))
    named = dict.fromkeys((*named, *nodes))
    first = ways[0]["from"] if ways else next(iter(named))
    by_name = {name: [nodes[name]] if nodes.get(name) else [] for name in named}
    if not any("start: true" in value for value in nodes.values()):
        by_name[first].insert(0, "start: true")
    drawn = "\n".join(f"      {name}: {{{', '.join(reply)}}}" for name, reply in by_name.items())
    defined = {name: "" for name, reply in by_name.items() if "agent: " not in nodes.get(name, "")}
    defined |= dict(agents or {})
    text = "\n".join(
        f"  {name}: {{instructions: {name.upper()}.{', ' + reply if reply else ''}}}"
        for name, reply in defined.items()
    )
    return (
        f"version: 1\npipeline: p\n{head}\n{more}\nagents:\n{text}\nflow:\n  graph:\n"
        f"    nodes:\n{drawn}\n    edges: {json.dumps(ways)}\n"
    )


def _edge(text: str) -> dict[str, str]:
    source, _, rest = text.partition(">")
    target, _, label = rest.partition(":")
    return {"from": source, "to": target, **({"label": label} if label else {})}


def ran(pipeline: str, expect: str = "{}", more: str = "", **replies: str) -> Ran:
    """Runs one turn, in which the user says Hi."""
    text = ", ".join(f"{agent}: {line}" for agent, line in replies.items())
    return run_yaml(
        pipeline, f"{more}\nturns:\n  - user: Hi\n    expect: {expect}\n    replies: {{{text}}}\n"
    )


def order(outcome: Ran) -> list[str]:
    """Returns who ran, in the order of the starts, with parallel groups and times."""
    return [
        f"{run.agent}{f' {run.group}' if run.group else ''}{f' @{run.at}' if run.at else ''}"
        for run in outcome.turn().runs
    ]


def problems(outcome: Ran) -> list[str]:
    """Returns the findings of a run."""
    return [f"{finding.id}: {finding.what}" for finding in outcome.judgement.findings]
