"""Steps of LangSmith's runs, and of what the OpenAI Agents SDK exports."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from simkit.capture.telemetry.exports import AGENTS, OTLP, Export, reading
from simkit.capture.telemetry.messages import answer_in, messages_in, offers_in
from simkit.capture.telemetry.spans import (
    Kind,
    Step,
    name_graph_agents,
    or_absent,
    read_ends,
    reading_part,
    steps_of_spans,
    tool_result,
)


def steps_of_langsmith(records: Sequence[Mapping[str, Any]], problems: list[str]) -> list[Step]:
    """Return the step of each run, of which batches have the beginning and the end apart."""
    runs: dict[str, dict[str, Any]] = {}
    for record in records:
        run = runs.setdefault(str(record["id"]), {})
        run |= {key: value for key, value in record.items() if value not in (None, {}, [])}
    steps = []
    for identity, run in runs.items():
        with reading(f"run {run.get('name', identity)!r}", problems):
            steps.append(_of_run(identity, run))
    return steps


_KINDS: Final[Mapping[str, Kind]] = {"llm": "model", "tool": "tool"}


def _of_run(identity: str, run: Mapping[str, Any]) -> Step:
    extra = run.get("extra") or {}
    metadata = extra.get("metadata") or {}
    step = Step(
        id=identity,
        trace=str(run.get("trace_id", identity)),
        parent=str(run.get("parent_run_id") or ""),
        kind=_KINDS.get(str(run.get("run_type")), "other"),
        name=str(run.get("name", "")),
        session=str(next((metadata[key] for key in _THREADS if metadata.get(key)), "")),
        start=_nanoseconds(run.get("start_time")),
        end=_nanoseconds(run.get("end_time")),
        failed=bool(run.get("error")),
        status=str(run.get("error") or ""),
        missing=[],
        attributes={"metadata": metadata},
    )
    inputs, outputs = run.get("inputs"), run.get("outputs")
    if step.kind == "model":
        _read_call(step, inputs, _generation(outputs))
        step.offers = offers_in((extra.get("invocation_params") or {}).get("tools"))
    elif step.kind == "tool":
        step.args = or_absent((inputs or {}).get("input", inputs))
        step.result = tool_result(or_absent(outputs))
    read_ends(step, inputs, outputs)
    return step


def _read_call(step: Step, source: Any, output: Any) -> None:
    with reading_part(step, "what the model was sent"):
        step.messages = None if source is None else tuple(messages_in(source))
    with reading_part(step, "the model's reply"):
        step.answer = None if output is None else answer_in(output)


_THREADS: Final = ("session_id", "thread_id", "conversation_id")
"""The keys by which LangSmith groups traces into threads."""


def _generation(output: Any) -> Any:
    """Return the reply in what LangChain says of a model call."""
    if isinstance(output, Mapping) and "generations" in output:
        output = output["generations"]
        while isinstance(output, list) and output:
            output = output[0]
    return output


def _nanoseconds(value: Any) -> int:
    if not value:
        return 0
    moment = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    return round(moment.timestamp() * 1_000_000) * 1_000


# The OpenAI Agents SDK


def steps_of_agents(records: Sequence[Mapping[str, Any]], problems: list[str]) -> list[Step]:
    """Return the step of each span."""
    traces = [record for record in records if record.get("object") == "trace"]
    groups = {str(trace["id"]): str(trace.get("group_id") or "") for trace in traces}
    steps = []
    for record in records:
        if record.get("object") != "trace":
            with reading(f"span {record['id']!r}", problems):
                steps.append(_of_agents_span(record, groups))
    return steps


def _of_agents_span(record: Mapping[str, Any], groups: Mapping[str, str]) -> Step:
    trace, error = str(record.get("trace_id", "")), record.get("error") or {}
    step = Step(
        id=str(record["id"]),
        trace=trace,
        parent=str(record.get("parent_id") or ""),
        session=groups.get(trace, ""),
        start=_nanoseconds(record.get("started_at")),
        end=_nanoseconds(record.get("ended_at")),
        failed=bool(error),
        status=" ".join(str(part) for part in (error.get("message"), error.get("data")) if part),
        missing=[],
    )
    _read_agents_span(step, record.get("span_data") or {})
    return step


def _mcp_result(output: Any) -> Any:
    """Return the text of an MCP result, which the SDK writes as Python shows it."""
    try:
        parts = literal_eval(output)
    except (ValueError, SyntaxError, TypeError):
        return output
    parts = parts if isinstance(parts, list) else [parts]
    texts = [str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part]
    return "\n".join(texts) if texts and len(texts) == len(parts) else output


def _read_agents_span(step: Step, data: Mapping[str, Any]) -> None:
    kind = data.get("type")
    if kind == "agent":
        step.kind, step.name = "agent", str(data.get("name", ""))
    elif kind == "handoff":
        step.kind, step.name = "handoff", str(data.get("to_agent") or "")
    elif kind == "function":
        step.kind, step.name = "tool", str(data.get("name", ""))
        step.args, step.result = or_absent(data.get("input")), or_absent(data.get("output"))
        mcp = data.get("mcp_data")
        step.server = str(mcp.get("server", "")) if isinstance(mcp, Mapping) else ""
        if step.server:
            step.result = _mcp_result(step.result)
    elif kind == "generation":
        step.kind = "model"
        _read_call(step, data.get("input"), data.get("output"))
    elif kind == "response":
        step.kind = "model"
        step.missing.append(
            "the SDK's exporter sends only the ids of responses, not what they say: use a chat "
            "completions model, or an OpenTelemetry instrumentation"
        )


# The steps of an export, in whichever format it is


def steps_of(export: Export) -> list[Step]:
    """Return the steps of an export, in the order in which they began."""
    if export.format == OTLP:
        steps = steps_of_spans(export.spans, export.problems)
    else:
        read = steps_of_agents if export.format == AGENTS else steps_of_langsmith
        steps = read(export.records, export.problems)
    by_id: dict[str, Step] = {}
    for step in steps:
        # Ids need to differ within a trace only.
        step.parent = f"{step.trace}/{step.parent}" if step.parent else ""
        step.id = f"{step.trace}/{step.id}"
        known = by_id.get(step.id, step)
        if step.end and known.end and (step.start, step.end) != (known.start, known.end):
            export.problems.append(f"two spans have the id of {step.name!r}: the first is left out")
        if step.end or known is step:
            by_id[step.id] = step
    _cut_rings([*by_id.values()], by_id, export.problems)
    name_graph_agents([*by_id.values()])
    ordered = sorted(by_id.values(), key=lambda step: step.start)
    export.problems += _traces_without_calls(ordered)
    sessions = {step.trace: step.session for step in ordered if step.session}
    for step in ordered:
        step.session = step.session or sessions.get(step.trace, "")
    return ordered


def _traces_without_calls(steps: Sequence[Step]) -> Iterator[str]:
    asking = {step.trace for step in steps if step.kind == "model"}
    agents = {s.trace: s.name for s in steps if s.kind == "agent" and s.trace not in asking}
    for name in agents.values():
        yield f"agent {name!r} ran, and its trace has no model call"


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
