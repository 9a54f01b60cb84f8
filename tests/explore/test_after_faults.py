"""After a fault the user says it again, and then it must work."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.explore.causes import label_of
from simkit.explore.choices import ODDS, Plan, TurnPlan
from simkit.explore.conversations import converse
from simkit.explore.search import Discovery
from tests.explore.test_simulations import DESK, campaign_of, replayed, subject_of

STUCK = """
from openai import OpenAI, RateLimitError

class Desk:
    def __init__(self):
        self.is_busy = False

    def run(self, text: str) -> str:
        if self.is_busy:
            raise RuntimeError("the turn before is not over")
        self.is_busy = True
        try:
            reply = OpenAI(max_retries=0).chat.completions.create(
                model="gpt-5", messages=[{"role": "user", "content": text}]
            )
        except RateLimitError:
            return "Try again."
        self.is_busy = False
        return reply.choices[0].message.content
"""
SIMULATION = """
simulation: it goes on
pipeline: stuck_after_fault:Desk
app: {path: [.]}
agents: {desk: {model: gpt-5}}
turns: 1
faults: {rate_limit: 0.5}
"""
LIMITED = Plan((TurnPlan(rare=(0, ODDS - 1)),), enabled=(True,))


def test_the_last_message_is_said_again_after_a_fault_and_only_then(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, "turns: 1\nfaults: {rate_limit: 0.5}\n")

    hit = converse(subject, LIMITED)
    spared = converse(subject, Plan((TurnPlan(),), enabled=(True,)))

    assert [turn["replies"]["desk"] for turn in hit.turns] == [{"error": "rate_limit"}, "Done."]
    assert hit.turns[0]["user"] == hit.turns[1]["user"]
    assert (hit.causes, len(spared.turns)) == ({}, 1)


def test_nothing_is_said_again_where_a_question_waits(tmp_path: Path) -> None:
    models = "models: {desk: [{interrupt: Which order?}]}\n"
    subject = subject_of(tmp_path, models + "turns: 1\nfaults: {rate_limit: 0.5}\n", pipeline=DESK)

    record = converse(subject, Plan((TurnPlan(),), enabled=(True,)))

    assert len(record.turns) == 1


def test_code_that_does_not_recover_is_found_and_the_scenario_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    (tmp_path / "stuck_after_fault.py").write_text(STUCK, encoding="utf-8")
    subject = subject_of(tmp_path, SIMULATION, pipeline="")

    discoveries: list[Discovery] = [
        each for each in campaign_of(subject, 20).discoveries if label_of(each.cause) == "error"
    ]

    (discovery,) = discoveries
    assert discovery.cause.detail == "RuntimeError"
    assert len(discovery.record.turns) == 2
    assert replayed(discovery, subject, tmp_path) == {discovery.cause}
