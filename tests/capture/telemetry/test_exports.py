"""A run that is exported and imported again is the same conversation, for shipped runs."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from simkit.capture.telemetry import conventions as names
from simkit.capture.telemetry.conversations import conversations_of
from simkit.capture.telemetry.exports import read_export
from simkit.capture.telemetry.recorded import RecordedConversation
from simkit.capture.telemetry.records import steps_of
from simkit.capture.telemetry.writing import otlp_of
from simkit.cli.importing import import_trace
from simkit.core.errors import SimkitError
from simkit.core.messages import ABSENT, Message
from simkit.session.execution.imported import imported_scenario
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from simkit.trace.views import View
from tests.conftest import sample_by_day

ROOT: Final = Path(__file__).resolve().parents[3]
EVERY: Final = sorted((ROOT / "scenarios").rglob("*.scenario.yaml"))
FILES: Final = sample_by_day(EVERY, 3)


def shape(message: Message | None) -> Any:
    """Return the parts of a message that a provider sees."""
    if message is None:
        return None
    return [message.role, message.content, [[c.name, c.args] for c in message.calls]]


def facts_of_run(view: View) -> list[Any]:
    return [
        [
            turn.message.content if turn.message is not None else "",
            [
                [c.agent, [shape(m) for m in c.context.messages], shape(c.reply)]
                for c in turn.calls
            ],
            [
                [t.tool, t.args, t.error or (ABSENT if t.returned_at is None else t.result)]
                for t in turn.tools
            ],
        ]
        for turn in view.turns
        if turn.calls
    ]  # fmt: skip


def facts_of_import(conversation: RecordedConversation) -> list[Any]:
    return [
        [
            turn.user,
            [[c.agent, [shape(m) for m in c.messages or ()], shape(c.answer)] for c in turn.calls],
            [[t.name, t.args, t.status if t.failed else t.result] for t in turn.tools],
        ]
        for turn in conversation.turns
    ]  # fmt: skip


def official_reading(message: dict[str, Any]) -> Any:
    """Return what OpenTelemetry's own classes read, strictly, as they write it again."""
    pytest.importorskip("opentelemetry.proto")
    from google.protobuf.json_format import MessageToDict, ParseDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    return MessageToDict(ParseDict(message, ExportTraceServiceRequest()))


def views(file: Path) -> list[View]:
    library = Library()
    found_views = []
    for item in items_in(str(file), library.cache):
        try:
            prepared = library.prepared(item)
            if prepared.skip is None:
                found_views.append(simulate(prepared).view)
        except SimkitError:
            continue
    return [view for view in found_views if any(turn.calls for turn in view.turns)]


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_exported_run_is_the_same_conversation_again(file: Path) -> None:
    for view in views(file):
        content = json.dumps(otlp_of(view)).encode()
        conversations = conversations_of(steps_of(read_export(content, "run.json")))

        assert len(conversations) == 1
        (conversation,) = conversations
        assert view.started is not None
        assert conversation.name == view.started.scenario
        assert facts_of_import(conversation)[0][0] is not ABSENT
        got, expected = facts_of_import(conversation), facts_of_run(view)
        assert [row[:2] for row in got] == [row[:2] for row in expected]
        assert json.dumps(got, default=str) == json.dumps(expected, default=str)
        assert otlp_of(view) == otlp_of(view)
        content = json.dumps(official_reading(otlp_of(view))).encode()
        assert conversations_of(steps_of(read_export(content, "run.json"))) == conversations


@pytest.mark.slow(10)
@pytest.mark.parametrize("file", sample_by_day(EVERY, 9), ids=lambda file: file.stem)
def test_an_imported_run_holds_again_or_its_gaps_are_told(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / file.relative_to(ROOT)
    shutil.copytree(file.parent, copy.parent)
    monkeypatch.chdir(copy.parent)
    runs = {view.started.scenario: view for view in views(copy) if view.started is not None}
    lines = [json.dumps(otlp_of(v, f"{copy.name}::{name}")) for name, v in runs.items()]
    Path("runs.jsonl").write_text("\n".join(lines))
    capsys.readouterr()

    with suppress(SimkitError):
        import_trace("runs.jsonl", "", (), (), "")

    output, library = capsys.readouterr().out, Library()
    path = Path("runs.scenario.yaml")
    for item in items_in(str(path), library.cache) if path.is_file() else ():
        outcome, run = simulate(library.prepared(item)), runs.pop(item.name)
        if facts_of_run(outcome.view) == facts_of_run(run):
            assert run.started is not None
            assert (run.started.seed, run.started.start) == _beginning(outcome.view)
        else:
            assert not outcome.passed
            assert output.count("missing: turn ") or output.count(f"missing: {item.name!r}: turn ")
    assert [name for name in runs if path.is_file() and f"{name!r} is left out" not in output] == []


def test_viewers_are_shown_kind_input_output_and_tokens() -> None:
    """Phoenix shows these of each span; it knows no kind for GenAI's workflows and handoffs."""
    run = otlp_of(views(ROOT / "scenarios/customers/desk.scenario.yaml")[0])
    displays: dict[str, Any] = {}
    for span in run["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        attributes = {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}
        keys = (names.KIND, names.SHOWN_INPUT, names.SHOWN_OUTPUT, names.OUTPUT_TOKENS)
        displays.setdefault(span["name"], [attributes.get(key) for key in keys])

    payload = '{"order": "A-2124", "email": "karolin.lindau@example.net"}'
    beginning = displays["chat"][1]
    assert beginning.endswith("My rug is broken.")
    assert displays == {
        "invoke_workflow desk": [
            "CHAIN", beginning, "You get 75 euros back for A-2124.", None,
        ],
        "execute_tool find_orders": [None, '{"email": "karolin.lindau@example.net"}', None, None],
        "invoke_agent clerk": [None, beginning, None, None],
        "invoke_agent refunds": [None, payload, "You get 75 euros back for A-2124.", None],
        "chat": [None, beginning, '{"find_orders": {"email": "karolin.lindau@example.net"}}', "13"],
        "agent_handoff refunds": ["CHAIN", payload, None, None],
    }  # fmt: skip


def _beginning(view: View) -> tuple[int, str]:
    assert view.started is not None
    return view.started.seed, view.started.start


@pytest.mark.parametrize("place", range(6))
def test_a_run_without_one_of_its_spans_is_read_and_says_so(place: int) -> None:
    run = otlp_of(views(ROOT / "scenarios/customers/desk.scenario.yaml")[0])
    spans = run["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans[:] = [span for index, span in enumerate(spans) if index != place % len(spans)]

    export = read_export(json.dumps(run).encode(), "run.json")
    (conversation,) = conversations_of(steps_of(export))

    # The first is a turn's own span.
    assert place or "parent" in conversation.missing[0]
    assert place == 0 or any(
        " spans" in line and " of its " in line for line in conversation.missing
    )
    assert imported_scenario(conversation, "n", "p.pipeline.yaml", {}, {})["turns"]
