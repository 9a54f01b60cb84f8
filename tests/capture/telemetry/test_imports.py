"""Exports of official instrumentations become scenarios that ask the same of the same code.

`export_traces.py` made the files under `exports/`; `nox -s exports` makes them anew.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from simkit.capture.telemetry.conversations import conversations_of
from simkit.capture.telemetry.exports import Export, read_export
from simkit.capture.telemetry.recorded import RecordedConversation
from simkit.capture.telemetry.records import steps_of
from simkit.cli.importing import scenario_tree, scenarios_text
from simkit.cli.init.first_scenario import AppRequest
from simkit.core.errors import TraceError
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from simkit.trace.views import View

FOLDER: Final = Path(__file__).parent
EXPORTS: Final = Path(os.environ.get("EXPORTS", FOLDER / "exports"))
FILES: Final = {name: f"{name}.yaml" for name in ("chat", "agents", "graphs", "pydantic")}
APPS: Final = {
    "agents": "agents", "agents-responses": "agents", "otel-agents": "agents",
    "openinference-agents": "agents", "openinference-langchain": "graphs",
    "langfuse-langchain": "graphs", "langsmith": "graphs", "traceloop-langchain": "graphs",
    "genai-agents": "agents", "genai-langchain": "graphs", "pydantic-ai": "pydantic",
    "openinference-pydantic-ai": "pydantic", "logfire": "pydantic",
}  # fmt: skip
"""The file of an exporter's applications; else `chat`."""
WITHOUT_CONTENT: Final = ("otel-openai-bare", "agents-responses")
"""Exporters that were lines_and_turns to capture no content, or cannot."""


_NAMELESS: Final = (
    "turn 1, tool 'read_file': no span names its MCP server: declare it under `servers:`"
)
_SPLIT: Final = (
    "another conversation began meanwhile with the same message: if both are one turn, no span "
    "is around it"
)
_NO_MESSAGE: Final = "turn 1: the user's message is not in the trace"
GAPS: Final = {
    ("otel-agents", "an-MCP-server"): _NAMELESS,
    ("openinference-agents", "an-MCP-server"): _NAMELESS,
    ("genai-agents", "an-MCP-server"): _NAMELESS,
    ("pydantic-ai", "parallel"): _SPLIT,
    ("openinference-pydantic-ai", "parallel"): _SPLIT,
    ("logfire", "parallel"): _SPLIT,
    ("pydantic-ai", "an-error"): _NO_MESSAGE,
    ("logfire", "an-error"): _NO_MESSAGE,
    ("traceloop-langchain", "parallel"): (
        "turn 1, editor[0]: the model's reply is not in the trace: the model's reply cannot be "
        "read: the role of a message (unknown)"
    ),
}
"""Exports that lack something without which their scenario is not the run: what says so."""


def names() -> list[tuple[str, str]]:
    stems = [path.name.partition(".jsonl")[0] for path in sorted(EXPORTS.glob("*.jsonl.gz"))]
    return [(stem.partition("--")[0], stem.partition("--")[2]) for stem in stems]


def content_of(exporter: str, name: str) -> bytes:
    return gzip.decompress((EXPORTS / f"{exporter}--{name}.jsonl.gz").read_bytes())


def read(content: bytes) -> tuple[Export, list[RecordedConversation]]:
    export = read_export(content, "trace.jsonl")
    return export, conversations_of(steps_of(export))


@cache
def original(file: str, name: str) -> tuple[dict[str, Any], View]:
    """Return the document from which an export was made, and what happened in it."""
    library = Library()
    (item,) = [i for i in items_in(str(FOLDER / file), library.cache) if slug(i.name) == name]
    prepared = library.prepared(item)
    return dict(prepared.document.data), simulate(prepared).view


def slug(name: str) -> str:
    return name.replace(" ", "-")


def contexts_of(view: View) -> list[Any]:
    """Return what each call of a run was sent, without ids; parallel calls in any order."""
    return sorted(
        [call.turn, call.agent, [
            [m.role, m.content, [[c.name, c.args] for c in m.calls]] for m in call.context.messages
        ]]
        for call in view.calls.values()
    )  # fmt: skip


@pytest.fixture
def apps(monkeypatch: pytest.MonkeyPatch, cwd: Path) -> Path:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.syspath_prepend(str(FOLDER.parents[1] / "apps"))
    return cwd


def imported(folder: Path, exporter: str, name: str) -> tuple[Any, list[RecordedConversation]]:
    """Run the scenarios of an export, in this process; return the outcome."""
    document, _ = original(FILES[APPS.get(exporter, "chat")], name)
    export, conversations = read(content_of(exporter, name))
    options = {k: v for k, v in document["app"].items() if k != "path"}
    folders = (str(FOLDER), str(FOLDER.parents[1] / "apps"))
    request = AppRequest(name=document["pipeline"], messages=(), folders=folders, options=options)
    file = folder / "imported.scenario.yaml"
    trees = [scenario_tree(row, "imported", request, file) for row in conversations]
    file.write_text(scenarios_text("trace.jsonl", export, trees), encoding="utf-8")
    library = Library()
    (item,) = items_in(str(file), library.cache)
    return simulate(library.prepared(item)), conversations


def test_there_are_enough_exports() -> None:
    whole = [row for row in names() if row[0] not in WITHOUT_CONTENT]

    assert len(whole) >= 20
    assert len({exporter for exporter, _ in whole}) >= 8


def is_slow(exporter: str) -> bool:
    return APPS.get(exporter, "chat") != "chat"


ROWS: Final = [
    pytest.param(*row, marks=[pytest.mark.slow] if is_slow(row[0]) else [], id="--".join(row))
    for row in names()
    if row[0] not in WITHOUT_CONTENT and row not in GAPS
]


@pytest.mark.parametrize(("exporter", "name"), GAPS)
def test_an_export_says_what_it_lacks(exporter: str, name: str) -> None:
    _, conversations = read(content_of(exporter, name))

    lines = [(*row.missing, *row.refused) for row in conversations]
    assert {GAPS[exporter, name] in row for row in lines} == {True}


@pytest.mark.parametrize(("exporter", "name"), ROWS)
def test_an_export_asks_the_same_of_the_same_code(apps: Path, exporter: str, name: str) -> None:
    outcome, conversations = imported(apps, exporter, name)

    texts = [f"{f.what} {f.differences}" for f in outcome.judgement.findings]
    assert texts == []
    expected = contexts_of(original(FILES[APPS.get(exporter, "chat")], name)[1])
    got = contexts_of(outcome.view)
    assert got == expected
    assert [line for row in conversations for line in row.refused] == []


@pytest.mark.parametrize(
    ("exporter", "name"), [row for row in names() if row[0] in WITHOUT_CONTENT]
)
def test_an_export_without_content_makes_no_scenario(exporter: str, name: str) -> None:
    _, conversations = read(content_of(exporter, name))

    refused = [line for row in conversations for line in row.refused]
    assert any("the model's reply is not in the trace" in line for line in refused) or (
        "user's message is not in the trace" in refused[0]
    )
    assert all(row.refused for row in conversations)


# Damaged and partial exports


def lines_and_turns(content: bytes) -> tuple[list[str], list[Any]]:
    """Return all that is said to be missing, and the turns of the scenarios that are written."""
    export, conversations = read(content)
    lines = [*export.problems]
    for row in conversations:
        lines += [*row.missing, *row.refused]
    whole = [row for row in conversations if not row.refused]
    return lines, [[t.user, [c.answer for c in t.calls]] for row in whole for t in row.turns]


def test_texts_that_an_exporter_cut_make_no_scenario() -> None:
    lines = []
    for line in content_of("otel-openai", "tools-over-turns").decode().splitlines():
        value = json.loads(line)
        for span in value["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            for attribute in span["attributes"]:
                text = attribute["value"].get("stringValue")
                if text is not None:
                    attribute["value"]["stringValue"] = text[:128]
        lines.append(json.dumps(value))

    missing, turns = lines_and_turns("\n".join(lines).encode())

    assert turns == []
    assert any("cut off" in line for line in missing)


def test_dropped_attributes_are_read_from_the_whole_input_or_said() -> None:
    lines = []
    for line in content_of("openinference-openai", "tools-over-turns").decode().splitlines():
        value = json.loads(line)
        for span in value["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            names = [a for a in span["attributes"] if "input_messages.1" not in a["key"]]
            span["droppedAttributesCount"] = len(span["attributes"]) - len(names)
            span["attributes"] = names
        lines.append(json.dumps(value))

    missing, turns = lines_and_turns("\n".join(lines).encode())
    whole = lines_and_turns(content_of("openinference-openai", "tools-over-turns"))[1]

    assert [turn[0] for turn in turns] == [turn[0] for turn in whole]
    assert any("dropped" in line for line in missing)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "the file is empty"),
        (b"{}", "no exported trace was recognised"),
        (b'[{"a": 1}]', "no exported trace was recognised"),
        (b"version: 1", "it is text, and no JSON"),
        (b'{"resourceSpans": 3}', ""),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": 3}]}]}]}', ""),
        (b'{"data": [{"object": "trace.span"}]}', "no exported trace was recognised"),
        (b'{"data": [{"object": "trace.span", "id": "a"}]}', ""),
    ],
)
def test_what_is_no_trace_is_refused(content: bytes, problem: str) -> None:
    if problem:
        with pytest.raises(TraceError, match=f"{problem}|neither JSON nor"):
            read(content)
    else:
        assert read(content)[1] == []


def test_one_file_holds_one_format() -> None:
    lines = content_of("langsmith", "parallel") + content_of("otel-openai", "streamed")

    with pytest.raises(TraceError, match="it holds both LangSmith and OTLP"):
        read(lines)


def test_protobuf_says_the_same_as_json() -> None:
    pytest.importorskip("opentelemetry.proto")
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    content = content_of("otel-openai", "parallel")
    request = ExportTraceServiceRequest()
    for line in content.decode().splitlines():
        value = json.loads(line)
        for span in value["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            for key in ("traceId", "spanId"):
                span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
        request.MergeFrom(ParseDict(value, ExportTraceServiceRequest(), ignore_unknown_fields=True))

    assert lines_and_turns(request.SerializeToString()) == lines_and_turns(content)
