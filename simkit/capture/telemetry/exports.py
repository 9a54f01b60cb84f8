"""Files of exported traces: which format a file has, and its spans as plain values.

Known are OTLP as JSON, as lines of JSON and as protobuf (spans and log records), batches of
LangSmith's runs, and what the OpenAI Agents SDK sends to its own dashboard.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final

import msgspec

from simkit.core.errors import TraceError
from simkit.core.requirements import install_command
from simkit.core.text import counted, short

_HEX: Final = re.compile(r"[0-9a-f]+", re.IGNORECASE)
_ID_BYTES: Final = (8, 16)
DAY_NS: Final = 86_400 * 10**9


class Span(msgspec.Struct, kw_only=True):
    """One span, whatever exported it."""

    id: str
    trace: str
    parent: str = ""
    name: str = ""
    scope: str = ""
    """The instrumentation."""
    start: int = 0
    """In nanoseconds."""
    end: int = 0
    """0 if it did not end."""
    attributes: dict[str, Any] = {}
    events: list[tuple[str, Any, Mapping[str, Any]]] = []
    """Name, body and attributes of each event, those of log records after the span's own."""
    failed: bool = False
    status: str = ""
    """The exporter's words for its failure."""
    cut: int = 0
    """The number of attributes and events that its exporter dropped."""


class Export(msgspec.Struct, kw_only=True):
    """The content of a file."""

    format: str
    spans: list[Span] = []
    records: list[Mapping[str, Any]] = []
    """Of other formats than OTLP: the exported objects."""
    problems: list[str] = []
    """Its parts that cannot be read."""
    objects: list[Any] = []
    """All that the file holds, as plain values."""


UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""The errors of reading a part that has another form than its format asks for."""


@contextmanager
def reading(subject: str, problems: list[str]) -> Iterator[None]:
    """Note a part of a file that cannot be read, and go on without it."""
    try:
        yield
    except UNREADABLE as problem:
        why = f"it has no {problem}" if isinstance(problem, KeyError) else short(str(problem), 80)
        problems.append(f"{subject} cannot be read, and was left out: {why}")


def read_export(content: bytes, name: str) -> Export:
    """Return what the bytes of a file hold; raise TraceError if no format is recognised."""
    objects, problems = _objects(content)
    if objects is None:
        return _protobuf(content, name)
    export = Export(format="", problems=problems, objects=objects)
    logs: list[Mapping[str, Any]] = []
    unknown = 0
    for kind, value in chain.from_iterable(map(_parts, objects)):
        if not kind:
            unknown += 1
            continue
        if export.format not in ("", kind):
            raise TraceError(f"{name}: it holds both {export.format} and {kind}")
        export.format = kind
        if kind == OTLP:
            export.spans += _spans(value, problems)
            logs += [record for *_, record in _records(value, _LOGS, problems)]
        else:
            export.records.append(value)
    if unknown:
        problems.append(f"{counted(unknown, 'object')} of no known format")
    if not export.format:
        why = "\n  ".join(problems[:3]) or "it is an empty list"
        raise TraceError(
            f"{name}: no exported trace was recognised in it: {why}\n"
            "  Known are OTLP (JSON, lines of JSON, protobuf), batches of LangSmith's runs, and "
            "what the OpenAI Agents SDK exports."
        )
    _add_logs(export, logs)
    return export


OTLP: Final = "OTLP"
LANGSMITH: Final = "LangSmith"
AGENTS: Final = "OpenAI Agents"


def _objects(content: bytes) -> tuple[list[Any] | None, list[str]]:
    """Return the JSON values of a file, or None for bytes that are no text."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None, []
    if text.lstrip()[:1] not in ("{", "["):
        if any(ord(each) < 32 and not each.isspace() for each in text):
            return None, []
        return [], ["it is text, and no JSON" if text.strip() else "the file is empty"]
    try:
        whole = json_value(text)
    except (ValueError, RecursionError):
        return _lines(text)
    return (whole if isinstance(whole, list) else [whole]), []


def json_value(text: str) -> Any:
    """Return the value of a JSON text; halves of characters, which no file can hold, as U+FFFD."""
    if "\\ud" in text:
        whole = json.dumps(json.loads(text), ensure_ascii=False)
        text = whole.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return json.loads(text)


def _lines(text: str) -> tuple[list[Any], list[str]]:
    values, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            values.append(json_value(line))
        except (ValueError, RecursionError) as problem:
            problems.append(f"line {number} is no JSON, and was left out: {problem}")
    return values, problems


_LISTS: Final = ("data", "post", "patch", "runs")


def _parts(item: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the format and the records of one JSON value; no format for what is unknown."""
    if not isinstance(item, Mapping):
        yield "", {}
    elif "resourceSpans" in item or "resourceLogs" in item:
        yield OTLP, item
    elif item.get("object") in ("trace", "trace.span") and "id" in item:
        yield AGENTS, item
    elif "run_type" in item and "id" in item:
        yield LANGSMITH, item
    elif lists := [item[key] for key in _LISTS if isinstance(item.get(key), list)]:
        for inner in chain.from_iterable(lists):
            yield from _parts(inner)
    else:
        yield "", item


# OTLP


def _protobuf(content: bytes, name: str) -> Export:
    try:
        from google.protobuf.json_format import MessageToDict
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
    except ImportError:
        raise TraceError(
            f"{name}: it is no JSON; to read it as OTLP's protobuf: {install_command('otlp')}"
        ) from None
    message = trace_service_pb2.ExportTraceServiceRequest()
    try:
        message.ParseFromString(content)
    except DecodeError:
        message.Clear()
    value = MessageToDict(message)
    export = Export(format=OTLP, objects=[value])
    export.spans += _spans(value, export.problems)
    if not export.spans:
        raise TraceError(f"{name}: it is neither JSON nor OTLP's protobuf, or it is cut off")
    return export


_SPANS: Final = ("resourceSpans", "scopeSpans", "spans")
_LOGS: Final = ("resourceLogs", "scopeLogs", "logRecords")


def _records(
    value: Mapping[str, Any], keys: tuple[str, str, str], problems: list[str]
) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the scope, the resource's attributes and the content of each span or log record."""
    outer, inner, leaf = keys
    for resource in _mappings(value.get(outer, ()), outer, problems):
        shared: dict[str, Any] = {}
        with reading("the attributes of a resource", problems):
            shared = _attributes(mapping_or_empty(resource.get("resource")).get("attributes"))
        for scope in _mappings(resource.get(inner), inner, problems):
            name = str(mapping_or_empty(scope.get("scope")).get("name", ""))
            for record in _mappings(scope.get(leaf), leaf, problems):
                yield name, shared, record


def _spans(value: Mapping[str, Any], problems: list[str]) -> Iterator[Span]:
    for scope, shared, record in _records(value, _SPANS, problems):
        where = record.get("spanId") or record.get("name") or "without an id"
        with reading(f"span {short(str(where), 40)}", problems):
            yield _span(record, scope, shared)


def _span(record: Mapping[str, Any], scope: str, shared: Mapping[str, Any]) -> Span:
    status = mapping_or_empty(record.get("status"))
    own = {key: value for key, value in shared.items() if key.startswith(("simkit.", "session."))}
    return Span(
        id=_identity(record["spanId"]),
        trace=_identity(record.get("traceId", "")),
        parent=_identity(record.get("parentSpanId", "")),
        name=str(record.get("name", "")),
        scope=scope,
        start=int(record.get("startTimeUnixNano", 0)),
        end=int(record.get("endTimeUnixNano", 0)),
        attributes={**own, **_attributes(record.get("attributes"))},
        events=[
            (str(event.get("name", "")), None, _attributes(event.get("attributes")))
            for event in record.get("events") or ()
        ],
        failed=status.get("code") in (2, "STATUS_CODE_ERROR"),
        status=str(status.get("message", "")),
        cut=int(record.get("droppedAttributesCount", 0)) + int(record.get("droppedEventsCount", 0)),
    )


def _add_logs(export: Export, logs: list[Mapping[str, Any]]) -> None:
    """Give log records, which newer conventions use as events, to their spans."""
    by_id = {(span.trace, span.id): span for span in export.spans}
    events: list[tuple[int, Span, tuple[str, Any, Mapping[str, Any]]]] = []
    lost = 0
    # An exporter that had no answer sends a batch again.
    for record in {json.dumps(record, sort_keys=True): record for record in logs}.values():
        with reading("a log record", export.problems):
            attributes = _attributes(record.get("attributes"))
            name = str(record.get("eventName") or attributes.get("event.name", ""))
            ids = tuple(_identity(record.get(key, "")) for key in ("traceId", "spanId"))
            at = int(record.get("timeUnixNano") or record.get("observedTimeUnixNano") or 0)
            if ids in by_id and name:
                span = by_id[ids]
                if abs(at - span.start) > DAY_NS:
                    export.problems.append(f"an event of {span.name!r} has not its time")
                events.append((at, span, (name, _value(record.get("body")), attributes)))
            lost += name.startswith("gen_ai.") and ids not in by_id
    for _, span, event in sorted(events, key=lambda row: row[0]):
        span.events = [*span.events, event]
    if lost:
        export.problems.append(f"left out {counted(lost, 'event')}: the file lacks their spans")


def _identity(value: Any) -> str:
    """Return an id in hexadecimal digits; protobuf's own JSON writes base64."""
    text = str(value)
    if not text or (_HEX.fullmatch(text) and len(text) in (16, 32)):
        return text.lower()
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        return text
    return raw.hex() if len(raw) in _ID_BYTES else text


def _attributes(pairs: Any) -> dict[str, Any]:
    return {text_of(pair["key"]): _value(pair["value"]) for pair in pairs or ()}


def text_of(value: Any) -> str:
    """Return a text as it is; raise ValueError for anything else."""
    if not isinstance(value, str):
        raise ValueError("a text of it is none")
    return value


def _value(value: Any) -> Any:
    """Return an `AnyValue` as plain data."""
    if value is not None and not isinstance(value, Mapping):
        raise ValueError("a value of it has no type")
    if not value:
        return None
    if "kvlistValue" in value:
        return _attributes(value["kvlistValue"].get("values"))
    if "arrayValue" in value:
        return [_value(item) for item in value["arrayValue"].get("values", ())]
    if "intValue" in value:
        return int(value["intValue"])
    text_of(value.get("stringValue", ""))
    return next(iter(value.values()), None)


def mapping_or_empty(value: Any) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def _mappings(values: Any, key: str, problems: list[str]) -> Iterator[Mapping[str, Any]]:
    if not isinstance(values, list | tuple):
        problems.append(f"`{key}` is no list, and was left out")
        return
    for value in values:
        if isinstance(value, Mapping):
            yield value
        else:
            problems.append(f"an entry of `{key}` is no object, and was left out")
