"""`simkit import` and `simkit export`, called from outside."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli.projects import Call
from tests.planted import SHAPED

EXPORTS: Final = Path(__file__).parents[1] / "capture/telemetry/exports"
DESK: Final = """\
from openai import OpenAI


def run(text: str) -> str:
    system = "You are the desk."
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    return OpenAI().chat.completions.create(model="m", messages=messages).choices[0].message.content
"""


def span(system: str = "You are the desk.", user: str = "Hello", **more: Any) -> dict[str, Any]:
    """Return one model call as OTLP JSON."""
    parts = [("system", system), ("user", user)]
    messages = [{"role": r, "parts": [{"type": "text", "content": t}]} for r, t in parts]
    reply = [{"role": "assistant", "parts": [{"type": "text", "content": "Hi."}]}]
    values = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(messages),
        "gen_ai.output.messages": json.dumps(reply),
        **more,
    }
    attributes = [
        {"key": key, "value": {"stringValue": value}} for key, value in values.items() if value
    ]
    call = {
        "traceId": "a" * 32,
        "spanId": "b" * 16,
        "endTimeUnixNano": "2",
        "attributes": attributes,
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [call]}]}]}


def write_trace(value: Any, name: str = "trace.json") -> None:
    Path(name).write_text(json.dumps(value), encoding="utf-8")


def test_a_trace_becomes_a_file_beside_it_once(simkit: Call) -> None:
    write_trace(span(user="Where is ${order}?"))

    first, second = simkit("import", "trace.json"), simkit("import", "trace.json")

    assert first.code == 0
    assert "missing: which code the trace is of" in first.out
    assert first.out.endswith("Next: `simkit replay trace.scenario.yaml`\n")
    assert "- user: Where is $${order}?" in Path("trace.scenario.yaml").read_text()
    assert second.code == 2
    assert "there is such a file, and nothing is written over it" in second.err
    assert simkit("validate", "trace.scenario.yaml").code == 0


def test_a_program_gets_what_is_missing(simkit: Call) -> None:
    write_trace(span(user=""))

    answer = json.loads(simkit("import", "trace.json", "--format", "json").out)

    assert answer["format"] == "OTLP"
    assert answer["error"]["type"] == "TraceError"
    assert "the user's message is not in the trace" in answer["error"]["message"]


def test_content_that_was_not_captured_is_exit_2_and_writes_nothing(simkit: Call) -> None:
    content = (EXPORTS / "otel-openai-bare--streamed.jsonl.gz").read_bytes()
    Path("bare.jsonl.gz").write_bytes(content)

    done = simkit("import", "bare.jsonl.gz")

    assert done.code == 2
    assert "the exporter did not capture content" in done.err
    assert not Path("bare.scenario.yaml").exists()


def test_secrets_of_a_trace_stay_out_of_the_scenario(simkit: Call) -> None:
    write_trace(span(user=f"my key is {SHAPED['openai']}"))

    simkit("import", "trace.json")

    assert SHAPED["openai"] not in Path("trace.scenario.yaml").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("system", "code"), [("You are the desk.", 0), ("You were.", 1)])
def test_the_scenario_runs_against_todays_code(simkit: Call, system: str, code: int) -> None:
    Path("desk.py").write_text(DESK, encoding="utf-8")
    write_trace(span(system))

    done = simkit("import", "trace.json", "--pipeline", "desk:run")

    assert done.code == code
    assert ('wanted "You were."' in done.out) == bool(code)


def test_a_run_goes_out_and_comes_back(simkit: Call) -> None:
    simkit("replay", "-q")

    assert simkit("export", "-o", "runs.jsonl").out == "runs.jsonl: written: 3 runs\n"
    assert simkit("export", "-o", "runs.jsonl").code == 2
    assert len(simkit("export").out.splitlines()) == 3
    done = simkit("import", "runs.jsonl", "-o", "scenarios/again.scenario.yaml")
    assert "written: 3 scenarios, 3 turns" in done.out
    # Their pipeline stands in the scenario file.
    assert "missing" not in done.out
    assert simkit("replay", "scenarios/again.scenario.yaml").code == 0
    Path("runs.jsonl.gz").write_bytes(gzip.compress(Path("runs.jsonl").read_bytes()))
    assert simkit("import", "runs.jsonl.gz", "-o", "b.scenario.yaml").code == 0


def test_there_is_no_run_to_export(simkit: Call) -> None:
    assert simkit("export").code == 2
