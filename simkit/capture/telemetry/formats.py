"""The steps of an export, in whichever format it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simkit.capture.telemetry.exports import AGENTS, OTLP, Export
from simkit.capture.telemetry.records import steps_of_agents, steps_of_langsmith
from simkit.capture.telemetry.spans import steps_of_spans
from simkit.capture.telemetry.steps import Step, name_graph_agents


def steps_of(export: Export) -> list[Step]:
    """Return the steps of an export, in the order in which they began."""
    if export.format == OTLP:
        steps = steps_of_spans(export.spans, export.problems)
    elif export.format == AGENTS:
        steps = steps_of_agents(export.records, export.problems)
    else:
        steps = steps_of_langsmith(export.records, export.problems)
    by_id: dict[str, Step] = {}
    for step in steps:
        # Ids need to differ within a trace only.
        step.parent = f"{step.trace}/{step.parent}" if step.parent else ""
        step.id = f"{step.trace}/{step.id}"
        if step.end or step.id not in by_id:
            by_id[step.id] = step
    _cut_rings([*by_id.values()], by_id, export.problems)
    name_graph_agents([*by_id.values()])
    ordered = sorted(by_id.values(), key=lambda step: step.start)
    sessions = {step.trace: step.session for step in ordered if step.session}
    for step in ordered:
        step.session = step.session or sessions.get(step.trace, "")
    return ordered


def _cut_rings(steps: Sequence[Step], by_id: Mapping[str, Step], problems: list[str]) -> None:
    """Take the parent from a step that stands in itself."""
    outside: set[str] = set()
    for step in steps:
        path: dict[str, Step] = {}
        at: Step | None = step
        while at is not None and at.id not in outside:
            if at.id in path:
                problems.append(f"span {at.name!r} is its own ancestor: its parent is unknown")
                at.parent = ""
                break
            path[at.id] = at
            at = by_id.get(at.parent)
        outside |= path.keys()
