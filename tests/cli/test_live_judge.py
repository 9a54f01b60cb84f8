"""``simkit live`` asks the judge of a scenario, counts its calls, and keeps its answers."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simkit.cli import main
from simkit.core.messages import Message, Usage
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.providers.protocols import protocol_of
from simkit.providers.values import OutgoingReply
from tests.recording import Provider
from tests.recording import server as server
from tests.scripted_providers import point_clients

POLITE = "How polite is the reply, 1 to 5?"
PIPELINE = """\
version: 1
pipeline: desk
models: {default: openai/gpt-5-mini}
agents: {front: {instructions: You are the front.}}
flow: {handoffs: {start: front}}
"""
SCENARIO = f"""\
version: 1
scenario: a complaint is answered politely
pipeline: desk.pipeline.yaml
judge: anthropic/claude-haiku-4-5
turns:
  - user: My order came broken
    replies: {{front: I am sorry.}}
    judge_replies: {{'{POLITE}': 5, Is it short?: true}}
    expect:
      judge:
        '{POLITE}': {{$gte: 4}}
        Is it short?: true
"""


class Rude:
    """Answers politely and rudely in turn, and judges so."""

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self.models: list[str] = []

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answers one request."""
        protocol = protocol_of(request)
        assert protocol is not None
        parsed = protocol.parse_request(request)
        self.models.append(parsed.model)
        words = parsed.messages[-1].content
        text = "Go away." if self.models.count("gpt-5-mini") % 2 else "I am sorry."
        if parsed.output is not None:
            answer: Any = True if "short" in words else 1 if "Go away." in words else 5
            text = json.dumps({"reason": "It is so.", "answer": answer})
        reply = OutgoingReply(f"s{next(self.numbers)}", Message("assistant", text), Usage(100, 10))
        return protocol.served(reply, parsed)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Provider) -> Path:
    monkeypatch.chdir(tmp_path)
    point_clients(server, monkeypatch)
    (tmp_path / "desk.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    (tmp_path / "desk.scenario.yaml").write_text(SCENARIO, encoding="utf-8")
    (tmp_path / "prices.yaml").write_text(
        "prices:\n  gpt-5-mini: {input: 1000, output: 1000}\n"
        "  claude-haiku-4-5: {input: 10000, output: 10000}\n",
        encoding="utf-8",
    )
    return tmp_path


def live(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["live", "desk.scenario.yaml", *arguments])
    return int(stop.value.code or 0)


@pytest.mark.slow
def test_each_question_has_a_rate_and_a_failed_run_replays_with_its_answer(
    desk: Path, server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = rude = Rude()

    code = live("--runs", "4", "--format", "json")

    assert code == 1
    report = json.loads(capsys.readouterr().out)
    (scenario,) = report["scenarios"]
    assert {claim["claim"]: claim["held"] for claim in scenario["claims"]} == {
        f"turn 1: judge '{POLITE}'": 2,
        "turn 1: judge 'Is it short?'": 4,
    }
    assert rude.models.count("claude-haiku-4-5") == 8
    assert report["model_calls"] == 12
    assert report["cost_usd"] == pytest.approx(4 * (110 * 1000 + 2 * 110 * 10000) / 1e6)
    failed = [run for run in scenario["runs"] if not run["held"]]
    assert [run["replays"] for run in failed] == [True, True]
    done = subprocess.run(
        [sys.executable, "-m", "simkit", "replay", failed[0]["scenario"], "--format", "json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    (again,) = json.loads(done.stdout)["scenarios"]
    (finding,) = again["findings"]
    assert finding["path"][:5] == ["turns", 0, "expect", "judge", POLITE]
    assert finding["differences"][0]["found"] == "1"
    assert finding["context"] == ["the judge's reason: It is so."]


@pytest.mark.slow
def test_a_budget_needs_the_price_of_the_judge_and_ends_its_calls(
    desk: Path, server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = rude = Rude()
    Path("prices.yaml").write_text(
        "prices: {gpt-5-mini: {input: 1000, output: 1000}}", encoding="utf-8"
    )

    assert live("--runs", "2", "--budget-usd", "1") == 2
    assert "the price of `claude-haiku-4-5` is not known" in capsys.readouterr().err
    assert rude.models == []

    Path("prices.yaml").write_text(
        "prices: {gpt-5-mini: {input: 1000, output: 1000}, "
        "claude-haiku-4-5: {input: 10000, output: 10000}}",
        encoding="utf-8",
    )
    assert live("--runs", "2", "--budget-usd", "0.5", "--format", "json") == 1
    # The first answer of the judge spends what is left; its second question is not asked.
    assert rude.models == ["gpt-5-mini", "claude-haiku-4-5"]


@pytest.mark.slow
def test_without_a_judge_its_questions_are_left_out_and_listed(
    desk: Path, server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = rude = Rude()
    text = SCENARIO.replace("judge: anthropic/claude-haiku-4-5\n", "")
    Path("desk.scenario.yaml").write_text(text, encoding="utf-8")

    assert live("--runs", "1") == 0

    assert rude.models == ["gpt-5-mini"]
    printed = capsys.readouterr().out
    assert "left out: 2 claims" in printed
    assert "the scenario names no model that answers" in printed


@pytest.mark.slow
@pytest.mark.parametrize("names_model", [True, False])
def test_a_question_that_repeats_a_reply_has_its_rate_or_is_left_out(
    desk: Path, server: Provider, capsys: pytest.CaptureFixture[str], names_model: bool
) -> None:
    server.answer = rude = Rude()
    question = "Is '${turns[0].reply}' short?"
    text = (
        SCENARIO.partition("turns:")[0]
        + "turns:\n  - {user: Hello, replies: {front: Hi.}}\n  - user: Thanks\n"
        + f'    judge_replies: {{"{question}": true}}\n    replies: {{front: Bye.}}\n'
        + f'    expect: {{judge: {{"{question}": false}}}}\n'
    )
    if names_model:
        text += f'expect: {{judge: {{"{question}": true}}}}\n'
    else:
        text = text.replace("judge: anthropic/claude-haiku-4-5\n", "")
    Path("desk.scenario.yaml").write_text(text, encoding="utf-8")

    code = live("--runs", "2", "--format", "json")

    (scenario,) = json.loads(capsys.readouterr().out)["scenarios"]
    claims = {claim["claim"]: claim["held"] for claim in scenario["claims"]}
    rates = {f"turn 2: judge {question!r}": 0, f"whole run: judge {question!r}": 2}
    assert (code, claims) == ((1, rates) if names_model else (0, {}))
    assert rude.models.count("claude-haiku-4-5") == (4 if names_model else 0)
