"""Declared pipelines whose models are recorded over real HTTP, by their own clients."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from simkit.capture.cassettes import load
from simkit.capture.cassettes.traffic import Mode
from simkit.core.errors import SourceError
from simkit.core.messages import Fails, Message, ToolCall
from simkit.providers.attachments import REASONING
from simkit.providers.failures import FAILURES
from simkit.providers.http import header
from simkit.session.execution.recorded import Recording
from simkit.session.simulate import Recorded, record, simulate
from tests.conftest import sample_by_day
from tests.recording import Provider, prepared
from tests.recording import server as server
from tests.scripted_providers import (
    DESK,
    HANDS_OVER,
    KEY,
    MODELS,
    PIPELINE,
    REFUNDS,
    SCENARIO,
    Desk,
    calls,
    point_clients,
    says,
    write_desk,
)

NOW = "2026-01-05T09:00:00Z"
CASSETTE = Path("cassettes/desk.yaml")


@pytest.fixture
def folder(cwd: Path, monkeypatch: pytest.MonkeyPatch, server: Provider) -> Path:
    point_clients(server, monkeypatch)
    server.requests.clear()
    server.answer = Desk(DESK)
    return cwd


def recorded(file: Path, mode: Mode = "all", *, keeps_failed: bool = False) -> Recorded:
    return record(prepared(file), Recording(mode, NOW, keeps_failed))


def says_of(done: Recorded) -> list[str]:
    """Returns what is wrong, a line for each finding."""
    return [finding.what.partition("\n")[0] for finding in done.outcome.judgement.findings]


def replayed(file: Path, seed: str) -> dict[str, object]:
    """Replays in a process that has no client library, no key and no network."""
    keyless = {k: v for k, v in os.environ.items() if not k.endswith(("_KEY", "_URL"))}
    code = (
        "import sys\n"
        "for name in ('openai', 'anthropic', 'google.genai', 'httpx', 'httpx2'):\n"
        "    sys.modules[name] = None\n"
        "import socket\n"
        "socket.socket.connect = None\n"
        "from simkit.cli import main\n"
        f"sys.argv = ['simkit', 'replay', {str(file)!r}, '--format', 'json']\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**keyless, "PYTHONHASHSEED": seed},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    data: dict[str, object] = json.loads(done.stdout)
    return data


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", sample_by_day(MODELS, 2))
def test_what_a_provider_answered_is_replayed_without_its_client(
    folder: Path, server: Provider, protocol: str, stream: bool
) -> None:
    file = write_desk(folder, protocol, stream=stream)

    done = recorded(file)

    assert says_of(done) == []
    assert done.note == "recorded: 3 interactions in cassettes/desk.yaml"
    assert {interaction.protocol for interaction in load(CASSETTE).interactions} == {protocol}
    server.requests.clear()
    item, other = (replayed(file, seed) for seed in ("0", "1"))
    for report in (item, other):
        for scenario in report["scenarios"]:  # type: ignore[attr-defined]
            scenario.pop("duration_ms", None)
    assert item["scenarios"] == other["scenarios"]
    assert server.requests == []


@pytest.mark.parametrize("protocol", MODELS)
def test_a_client_sends_what_replay_asks(folder: Path, server: Provider, protocol: str) -> None:
    recorded(write_desk(folder, protocol))

    for sent_messages, item in zip(server.requests, load(CASSETTE).interactions, strict=True):
        assert json.loads(item.request.body) == json.loads(sent_messages.body)
        assert item.request.url == sent_messages.url
        assert json.loads(item.request.body) == json.loads(sent_messages.body)
        assert header(item.request.headers, "x-stainless-lang" if protocol != "gemini" else
                      "x-goog-api-client")  # fmt: skip


@pytest.mark.parametrize("protocol", MODELS)
def test_recording_anew_writes_the_same_bytes(
    folder: Path, server: Provider, protocol: str
) -> None:
    file = write_desk(folder, protocol)
    recorded(file)
    before = CASSETTE.read_bytes()

    server.answer = Desk(DESK)
    recorded(file)

    assert CASSETTE.read_bytes() == before


def test_an_agent_is_offered_its_tools_and_a_tool_for_each_handoff(
    folder: Path, server: Provider
) -> None:
    desk = server.answer = Desk(DESK)

    recorded(write_desk(folder))

    triage, billing, _ = desk.requests
    (handoff,), (tool,) = triage.offers, billing.offers
    assert (handoff.name, handoff.description) == ("transfer_to_billing", "Hands over to billing.")
    assert handoff.schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What billing is asked."},
            "payload": {
                "type": "object", "required": ["order"], "properties": {"order": {"type": "string"}}
            },
        },
        "required": ["payload"],
    }  # fmt: skip
    assert (tool.name, tool.description) == ("find_order", "Looks an order up")
    assert tool.schema == {
        "type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}
    }  # fmt: skip


def test_another_instruction_is_a_miss_that_shows_the_message(folder: Path) -> None:
    recorded(write_desk(folder))
    file = write_desk(folder, pipeline=PIPELINE.replace("the billing.", "the billing. Be kind."))

    (result, *_) = simulate(prepared(file)).judgement.findings

    assert result.what == (
        "turn 1 ended with error CassetteMissed: cassettes/desk.yaml: no recording answers agent "
        "'billing' in turn 1: POST /v1/chat/completions\n"
        "  nothing was recorded that asks the same\n"
        "  nearest: interactions[1], agent 'billing', turn 1, call 1, has not answered yet\n"
        "    ~ messages[0] system\n"
        "        - You are the billing.\n"
        "        + You are the billing. Be kind.\n"
        "      = 2 messages\n"
        "  if the change is meant, record again: simkit record "
        f"'{file.name}::a broken order is refunded' --mode all"
    )


@pytest.mark.parametrize("protocol", MODELS)
def test_a_secret_of_the_prompt_is_not_in_the_file(
    folder: Path, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGER_TOKEN", "ledger-7f3a9c2e51")
    pipeline = PIPELINE.replace("the billing.", f"the billing. ledger-7f3a9c2e51 {KEY}")
    file = write_desk(folder, protocol, pipeline=pipeline)

    assert recorded(file).outcome.passed

    text = CASSETTE.read_text(encoding="utf-8")
    assert "ledger-7f3a9c2e51" not in text
    assert KEY not in text
    assert simulate(prepared(file)).passed


# Failures


@pytest.mark.slow
@pytest.mark.parametrize("protocol", MODELS)
@pytest.mark.parametrize("kind", ["rate_limit", "server_error", "refusal", "length"])
def test_a_providers_failure_is_the_error_that_a_line_would_say(
    folder: Path, server: Provider, protocol: str, kind: str
) -> None:
    usual = FAILURES[kind]
    fails = Fails(kind, usual.status, usual.message, 0.001)
    server.answer = Desk({"triage": (fails,)})
    plain = write_desk(folder, protocol)

    done = recorded(plain)

    assert says_of(done)[0].partition(":")[0] == f"turn 1 ended with error {kind}"
    assert not CASSETTE.exists()
    assert recorded(plain, keeps_failed=True).note.startswith("recorded: 1 interaction")
    claimed = SCENARIO[: SCENARIO.index("    tool_results")] + f"    expect: {{error: {kind}}}\n"
    assert simulate(prepared(write_desk(folder, protocol, scenario=claimed))).passed


@pytest.mark.parametrize(
    ("reply", "kind", "text"),
    [
        (calls("lookup", {}), "unknown_tool",
         "the model of agent 'triage' calls tool 'lookup', which it is not offered. "
         "Offered: transfer_to_billing."),
        (Message("assistant", calls=(HANDS_OVER.calls[0], HANDS_OVER.calls[0])), "parallel_handoff",
         "the model of agent 'triage' passes control and makes other calls in one reply "
         "(transfer_to_billing, transfer_to_billing): an agent here does one after the other. "
         "Providers have a setting for one call at a time."),
        (calls("transfer_to_billing", '{"payload":'), "malformed_json",
         'arguments of \'transfer_to_billing\': {"payload":'),
    ],
)  # fmt: skip
def test_a_reply_that_nothing_can_be_made_of_is_an_error(
    folder: Path, server: Provider, reply: Message, kind: str, text: str
) -> None:
    server.answer = Desk({"triage": (reply,)})

    assert says_of(recorded(write_desk(folder)))[0] == f"turn 1 ended with error {kind}: {text}"


def test_without_its_key_a_client_says_so_at_the_cassette(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    file = write_desk(folder)

    with pytest.raises(SourceError) as error:
        recorded(file)

    lines = str(error.value).splitlines()
    assert lines[0].startswith(f"{file}:4:11: the client of openai sends nothing: ")
    assert lines[1] == "Set its key and address in the environment: OPENAI_API_KEY."


@pytest.mark.parametrize(
    ("protocol", "module", "distribution"),
    [
        ("openai-chat", "openai", "openai"),
        ("anthropic", "anthropic", "anthropic"),
        ("gemini", "google.genai", "google-genai"),
    ],
)
def test_without_its_package_it_is_said_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, protocol: str, module: str, distribution: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    file = write_desk(folder, protocol)

    with pytest.raises(SourceError) as error:
        recorded(file)

    assert str(error.value) == (
        f"{file}:4:11: models of {distribution} are asked through its own client, which is not "
        f"installed: pip install {distribution}"
    )


def test_tools_of_a_declared_pipeline_are_not_recorded(folder: Path) -> None:
    options = "cassette: desk\nrecord: {tools: [find_order]}\n"
    file = write_desk(folder, scenario=SCENARIO.replace("cassette: desk\n", options))

    with pytest.raises(SourceError) as error:
        recorded(file)

    assert str(error.value) == (
        f"{file}:5:10: tools of a declared pipeline are not recorded: they are answered\n"
        "  at record.tools\n"
        "  `tool_results` say what they return; else their functions are called."
    )


# What answers


def test_what_answers_nothing_is_a_finding(folder: Path) -> None:
    file = write_desk(folder)
    recorded(file)
    lines = "    replies: {billing: You get a refund.}\n"
    shorter = (
        SCENARIO.replace("    tool_results", lines + "    x")
        .replace("    x: {find_order: {id: A-1, state: delivered}}\n", "")
        .replace("      tool_calls: [{tool: find_order, args: {id: A-1}}]\n", "")
    )

    findings = simulate(prepared(write_desk(folder, scenario=shorter))).judgement.findings

    assert [finding.id for finding in findings] == ["RUN-04"]
    assert "agent 'billing' in turn 1" in findings[0].what


def test_an_agent_with_lines_has_those_and_the_others_the_cassette(
    folder: Path, server: Provider
) -> None:
    mixed = SCENARIO.replace(
        "    tool_results",
        "    replies: {triage: {handoff: {to: billing, payload: {order: A-1}}}}\n    tool_results",
    )
    file = write_desk(folder, scenario=mixed)

    done = recorded(file)

    assert says_of(done) == []
    assert [interaction.agent for interaction in load(CASSETTE).interactions] == [
        "billing",
        "billing",
    ]
    assert simulate(prepared(file)).passed


def test_by_its_place_a_recording_answers_another_question_and_that_is_told(folder: Path) -> None:
    scenario = SCENARIO.replace("cassette: desk", "cassette: {file: desk, policy: per-agent}")
    recorded(write_desk(folder, scenario=scenario))
    pipeline = PIPELINE.replace("the triage.", "the triage. Be brief.")

    outcome = simulate(prepared(write_desk(folder, pipeline=pipeline, scenario=scenario)))

    assert [warning.id for warning in outcome.judgement.warnings] == ["RUN-05"]
    assert outcome.passed


def test_what_is_volatile_and_what_is_captured_may_differ(folder: Path) -> None:
    options = "record: {capture: {order: 'A-\\d+'}, volatile: ['/Be (kind|brief)/']}\n"
    scenario = SCENARIO.replace("cassette: desk\n", f"cassette: desk\n{options}")
    pipeline = PIPELINE.replace("the triage.", "the triage. Be kind")
    recorded(write_desk(folder, scenario=scenario, pipeline=pipeline))

    later = scenario.replace("A-1,", "A-7,").replace("A-1}", "A-7}").replace("A-1 came", "A-7 came")
    brief = pipeline.replace("Be kind", "Be brief")
    outcome = simulate(prepared(write_desk(folder, scenario=later, pipeline=brief)))

    assert outcome.judgement.findings == ()


# What runs are made of


@pytest.mark.parametrize("protocol", ["anthropic", "gemini", "openai-responses"])
def test_what_a_model_thought_goes_back_with_its_call(
    folder: Path, server: Provider, protocol: str
) -> None:
    thought = {
        "anthropic": {"type": "thinking", "thinking": "Look first.", "signature": "c2ln"},
        "gemini": {"thoughtSignature": "c2ln", "call": 0},
        "openai-responses": {"type": "reasoning", "id": "rs_1", "summary": []},
    }[protocol]
    thinks = Message(
        "assistant", calls=(ToolCall("", "find_order", {"id": "A-1"}),), data={REASONING: [thought]}
    )
    desk = server.answer = Desk({**DESK, "billing": (thinks, REFUNDS)})
    file = write_desk(folder, protocol)

    assert says_of(recorded(file)) == []

    last = next(
        message for message in reversed(desk.requests[-1].messages) if message.role == "assistant"
    )
    assert isinstance(last.data, dict)
    thoughts = cast("Any", last.data[REASONING])
    assert [{**item, "id": ""} for item in thoughts] == [{**cast("Any", thought), "id": ""}]
    assert simulate(prepared(file)).passed


def test_a_handoff_that_is_refused_is_asked_for_again(folder: Path, server: Provider) -> None:
    pipeline = PIPELINE.replace("payload: {$ref: Case}", "payload: {$ref: Case}, on_invalid: retry")
    bare = calls("transfer_to_billing", {"query": "Refund it"})
    desk = server.answer = Desk({**DESK, "triage": (bare, HANDS_OVER)})
    scenario = SCENARIO.replace("[{from: triage, to", "[{outcome: rejected}, {from: triage, to")
    file = write_desk(folder, pipeline=pipeline, scenario=scenario)

    assert says_of(recorded(file)) == []

    message = desk.requests[1].messages[-1]
    assert (message.role, message.content) == (
        "tool", "Handoff to billing rejected: payload: None is not of type 'object'"
    )  # fmt: skip
    assert simulate(prepared(file)).passed


SESSIONS = """\
version: 1
scenario: two talk at once
pipeline: desk.pipeline.yaml
cassette: desk
turns:
  - {user: Hello, session: a, expect: {reply: First.}}
  - {user: Hello, session: b, expect: {reply: Second.}}
  - {user: And now?, session: a, restart: true, expect: {reply: Third.}}
  - {user: And now?, session: b, expect: {reply: Fourth.}}
"""


@pytest.mark.slow
def test_sessions_and_a_new_process_go_on_with_the_same_cassette(
    folder: Path, server: Provider
) -> None:
    reply = tuple(says(word) for word in ("First.", "Second.", "Third.", "Fourth."))
    server.answer = Desk({"triage": reply})
    file = write_desk(folder, scenario=SESSIONS)

    done = recorded(file)

    assert says_of(done) == []
    assert [(each.session, each.turn) for each in load(CASSETTE).interactions] == [
        ("a", 1), ("b", 2), ("a", 3), ("b", 4),
    ]  # fmt: skip
    server.requests.clear()
    # Sessions alone and the run without its restart are compared with it: STA-06, STA-08.
    assert simulate(prepared(file)).judgement.findings == ()
    assert server.requests == []


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["strict", "per-agent"])
def test_sessions_alone_are_asked_at_their_places(
    folder: Path, server: Provider, policy: str
) -> None:
    reply = tuple(says(word) for word in ("First.", "Second.", "Third.", "Fourth."))
    server.answer = Desk({"triage": reply})
    scenario = SESSIONS.replace("cassette: desk", f"cassette: {{file: desk, policy: {policy}}}")
    file = write_desk(folder, scenario=scenario)
    recorded(file)

    assert simulate(prepared(file)).judgement.findings == ()


@pytest.mark.slow
def test_a_miss_in_a_new_process_is_told_as_any(folder: Path, server: Provider) -> None:
    reply = tuple(says(word) for word in ("First.", "Second.", "Third.", "Fourth."))
    server.answer = Desk({"triage": reply})
    recorded(write_desk(folder, scenario=SESSIONS))
    other = SESSIONS.replace("user: And now?, session: a", "user: And then?, session: a")

    findings = simulate(prepared(write_desk(folder, scenario=other))).judgement.findings

    assert findings[0].what.startswith(
        "turn 3 ended with error CassetteMissed: cassettes/desk.yaml: no recording answers agent "
        "'triage' in turn 3: POST /v1/chat/completions"
    )


PARALLEL = """\
version: 1
pipeline: desk
models: {default: MODEL}
agents:
  triage: {instructions: You are the triage., output: {type: object, properties: {to: {}}}}
  left: {instructions: You are the left.}
  right: {instructions: You are the right.}
flow: {router: {decide: triage, to: "${run.output.to}"}}
"""


@pytest.mark.parametrize("protocol", MODELS)
def test_agents_in_parallel_are_answered_each_by_its_own(
    folder: Path, server: Provider, protocol: str
) -> None:
    chosen = says('{"to": {"parallel": ["left", "right"]}}')
    desk = Desk({"triage": (chosen,), "left": (says("L"),), "right": (says("R"),)})
    server.answer = desk
    scenario = (
        "version: 1\nscenario: both\npipeline: desk.pipeline.yaml\ncassette: desk\n"
        "turns: [{user: Go, expect: {agents: [triage, [left, right]]}}]\n"
    )
    file = write_desk(folder, protocol, pipeline=PARALLEL, scenario=scenario)

    assert says_of(recorded(file)) == []

    assert desk.requests[0].output == {"type": "object", "properties": {"to": {}}}
    assert simulate(prepared(file)).passed


def test_a_reply_that_is_not_its_agents_output_fails_as_a_line_would(
    folder: Path, server: Provider
) -> None:
    server.answer = Desk({"triage": (says("left, please"),)})
    scenario = (
        "version: 1\nscenario: both\npipeline: desk.pipeline.yaml\ncassette: desk\n"
        "turns: [{user: Go, expect: {error: OutputInvalid}}]\n"
    )

    assert says_of(recorded(write_desk(folder, pipeline=PARALLEL, scenario=scenario))) == []


def test_an_agent_without_a_model_or_a_line_says_what_it_needs(folder: Path) -> None:
    pipeline = PIPELINE.replace("{default: MODEL}", "{billing: MODEL}")

    texts = says_of(recorded(write_desk(folder, pipeline=pipeline)))

    assert texts[0] == (
        "agent 'triage' made a model call in turn 1, but the "
        "scenario has no reply for it, and the pipeline names no model that could be recorded."
    )
