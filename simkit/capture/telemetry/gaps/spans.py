"""Lines on what the spans of a conversation tell of others, and of replies, that the file lacks.

Each line is a fact that a whole export seldom has: a graph's node that asks no model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from simkit.capture.telemetry.exports import DAY_NS
from simkit.capture.telemetry.recorded import RecordedTurn
from simkit.capture.telemetry.spans import Step, node_metadata, outwards
from simkit.core.messages import ABSENT, HANDOFF_PREFIX

_ROUNDED_NS: Final = 10**6
ONLY_CALLS: Final = "the trace has only model calls: of a lost one, only later ones tell"
"""Said of clients by hand, which have no spans around their calls."""


def lines_of_spans(steps: Sequence[Step], turns: Sequence[RecordedTurn]) -> Iterator[str]:
    """Yield what the spans of a conversation tell of spans that the file lacks."""
    if any(turn.own for turn in turns):
        return  # Runs of simkit have a count of their spans, and virtual time.
    yield from _clocks(steps)
    kinds = ("tool", "agent", "handoff")
    if not any(step.kind in kinds or node_metadata(step.attributes) for step in steps):
        yield ONLY_CALLS
        return
    for step in steps:
        if not step.end and step.kind != "model":
            yield f"the file does not have the end of {step.name!r}"
    if idle := [*dict.fromkeys(_idle(steps))]:
        where = ", ".join(map(repr, idle))
        yield f"no model call or tool is within {where}: code alone, or the file lacks the spans"
    yield from _calls_without_span(steps, turns)


def _clocks(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the spans whose times cannot be right beside others."""
    around = {step.id: step for step in steps}
    for step in steps:
        outer = around.get(step.parent, step)
        if not step.start:
            yield f"the file does not have the beginning of {step.name!r}"
        elif step.end and not 0 <= step.end - step.start < DAY_NS:
            yield f"{step.name!r} ends before it begins, or a day later: its clock is wrong"
        elif not outer.start - _ROUNDED_NS < step.start < (outer.end or step.start) + _ROUNDED_NS:
            yield f"{step.name!r} begins before or after {outer.name!r}, which is around it"


def _idle(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the nodes without a span of a model or a tool, and what is called as their likes."""
    around = {step.id: step for step in steps}
    busy, asking = set[str](), set[str]()
    for step in steps:
        if step.kind in ("model", "tool", "handoff"):
            outer = [*outwards(step, around)][1:]
            asking |= {at.name for at in outer[:1] if step.kind == "model"}
            busy |= {at.id for at in outer}
    for step in steps:
        is_node = node_metadata(step.attributes).get("langgraph_node") == step.name
        if step.kind == "other" and step.id not in busy and (is_node or step.name in asking):
            yield step.name


def _calls_without_span(steps: Sequence[Step], turns: Sequence[RecordedTurn]) -> Iterator[str]:
    """Yield the tools that replies call more often than they have spans."""
    asks = Counter(ask.name for turn in turns for ask in turn.asks)
    lacking = asks - Counter(step.name for step in steps if step.kind == "tool")
    handoffs = sum(step.kind == "handoff" for step in steps)
    for name in sorted(lacking, key=lambda name: not name.startswith(HANDOFF_PREFIX)):
        known = min(lacking[name], handoffs)
        handoffs -= known
        if count := lacking[name] - known:
            yield (
                f"tool {name!r}: {count} of its {asks[name]} calls without a span: a result is a "
                "later context's, and an error reads as one"
            )


def lines_of_tools(turn: RecordedTurn) -> Iterator[str]:
    """Yield what the tools and handoffs of a turn tell of replies, and lack themselves."""
    asks = [ask.name for ask in turn.asks]
    used = {*turn.asking, *(tool.name for tool in turn.tools)}
    for name in sorted(used.difference(asks)):
        yield f", tool {name!r}: it ran, and no reply in the trace calls it"
    if len(turn.targets) > sum(name not in used for name in asks):
        yield f": control went to {turn.targets[0]!r}, and no reply hands it over"
    for line in dict.fromkeys(f"{t.name!r}: {text}" for t in turn.tools for text in t.missing):
        yield f", tool {line}"
    for tool in turn.tools:
        yield from _other_copies(tool, turn)
    lacking = [t.name for t in turn.tools if t.result is ABSENT and not t.failed]
    for name in dict.fromkeys(lacking):
        yield f", tool {name!r}: its result is not in the trace"


def _other_copies(tool: Step, turn: RecordedTurn) -> Iterator[str]:
    """Yield what a tool's span lacks, or has otherwise than replies and contexts."""
    if tool.failed and not tool.status.strip():
        yield f", tool {tool.name!r}: it failed, and its span does not say how"
    args = [ask.args for ask in turn.asks if ask.name == tool.name]
    if args and isinstance(tool.args, Mapping) and tool.args not in args:
        yield f", tool {tool.name!r}: it ran with other arguments than a reply has"
    results = [m.content for c in turn.calls for m in c.messages or () if m.tool == tool.name]
    if isinstance(tool.result, str) and results and tool.result not in "\n".join(results):
        yield f", tool {tool.name!r}: its result is another than what a model was sent"
