"""Steps of LangSmith's runs, and of what the OpenAI Agents SDK exports."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from simkit.capture.telemetry.exports import (
    AGENTS,
    OTLP,
    Export,
    mapping_or_empty,
    reading,
    text_of,
)
from simkit.capture.telemetry.gaps import cut_texts
from simkit.capture.telemetry.spans import (
    Step,
    kind_of,
    name_graph_agents,
    note_kind,
    read_beginning,
    read_parts,
    steps_of_spans,
)


def steps_of_langsmith(records: Sequence[Mapping[str, Any]], problems: list[str]) -> list[Step]:
    """Return the step of each run, of which batches have the beginning and the end apart."""
    runs: dict[str, dict[str, Any]] = {}
    for record in records:
        _merge(runs.setdefault(str(record["id"]), {}), record)
    steps = []
    for identity, run in runs.items():
        with reading(f"run {run.get('name', identity)!r}", problems):
            steps.append(_of_run(identity, run))
            note_kind(steps[-1].name, str(run.get("run_type")), problems)
    return steps


def _merge(run: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add what a later record says of a run: it may say less of a part than the first."""
    for key, value in more.items():
        first = run.get(key)
        if isinstance(first, list) and (not isinstance(value, list) or len(first) > len(value)):
            continue
        if value in (None, {}, []):
            continue
        if isinstance(value, Mapping) and isinstance(run.get(key, {}), dict):
            _merge(run.setdefault(key, {}), value)
        else:
            run[key] = value


def _of_run(identity: str, run: Mapping[str, Any]) -> Step:
    extra = run.get("extra") or {}
    metadata = extra.get("metadata") or {}
    step = Step(
        id=identity,
        trace=str(run.get("trace_id", identity)),
        parent=str(run.get("parent_run_id") or ""),
        kind=kind_of(run.get("run_type")),
        name=str(run.get("name", "")),
        session=str(next((metadata[key] for key in _THREADS if metadata.get(key)), "")),
        start=_nanoseconds(run.get("start_time")),
        end=_nanoseconds(run.get("end_time")),
        failed=bool(run.get("error")),
        status=str(run.get("error") or ""),
        attributes={"metadata": metadata},
    )
    inputs, outputs = run.get("inputs"), run.get("outputs")
    if step.end and not step.failed and outputs is None:
        step.missing.append(f"{step.name!r} ended, and has neither an outcome nor an error")
    is_model = step.kind == "model"
    read_parts(
        step,
        lambda: inputs if is_model else (inputs or {}).get("input", inputs),
        lambda: _generation(outputs) if is_model else outputs,
        lambda: (extra.get("invocation_params") or {}).get("tools"),
    )
    read_beginning(step, inputs)
    return step


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
                data = mapping_or_empty(record.get("span_data"))
                note_kind(str(data.get("name", "")), str(data.get("type")), problems)
    return steps


def _of_agents_span(record: Mapping[str, Any], groups: Mapping[str, str]) -> Step:
    trace, error = str(record.get("trace_id", "")), record.get("error")
    step = Step(
        id=str(record["id"]),
        trace=trace,
        parent=str(record.get("parent_id") or ""),
        kind=kind_of(mapping_or_empty(record.get("span_data")).get("type")),
        session=groups.get(trace, ""),
        start=_nanoseconds(record.get("started_at")),
        end=_nanoseconds(record.get("ended_at")),
        failed=error is not None,
        status="" if error is None else f"{text_of(error['message'])} {error.get('data') or ''}",
    )
    if "error" not in record:
        step.missing.append("its span does not say whether it failed")
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
    if step.kind in ("agent", "tool", "handoff"):
        step.name = text_of(data.get("to_agent" if step.kind == "handoff" else "name"))
    step.server = str(mapping_or_empty(data.get("mcp_data")).get("server", ""))
    if data.get("type") == "response":
        step.missing.append(
            "the SDK's exporter sends only the ids of responses, not what they say: use a chat "
            "completions model, or an OpenTelemetry instrumentation"
        )
    read_parts(step, partial(data.get, "input"), partial(data.get, "output"))
    if step.server:
        step.result = _mcp_result(step.result)


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
        first = by_id.get(step.id, step)
        if step.end and first.end and (step.start, step.end) != (first.start, first.end):
            export.problems.append(f"two spans have the id of {step.name!r}: the first is left out")
        if step.end or first is step:
            by_id[step.id] = step
    name_graph_agents([*by_id.values()], export.problems)
    ordered = sorted(by_id.values(), key=lambda step: step.start)
    export.problems += [*_traces_without_calls(ordered), *cut_texts(ordered, export.objects)]
    sessions = {step.trace: step.session for step in ordered if step.session}
    for step in ordered:
        step.session = step.session or sessions.get(step.trace, "")
    return ordered


def _traces_without_calls(steps: Sequence[Step]) -> Iterator[str]:
    asking = {step.trace for step in steps if step.kind == "model"}
    agents = {s.trace: s.name for s in steps if s.kind == "agent" and s.trace not in asking}
    for name in agents.values():
        yield f"agent {name!r} ran, and its trace has no model call"
