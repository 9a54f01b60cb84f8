"""Explored conversations are compared: each session with itself alone, and with no restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.explore.campaigns import Bounds, run_campaign
from simkit.explore.choices import Plan, TurnPlan
from simkit.explore.conversations import converse
from simkit.explore.scenarios import scenario_text, shows
from tests.explore.test_simulations import labels, subject_of

SHARING = """
from openai import OpenAI

client = OpenAI(api_key="sk-test")


class Desk:
    notes = []

    def answer(self, text):
        self.notes.append(text)
        system = f"You are the desk. Notes: {'; '.join(self.notes)}"
        messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
        reply = client.chat.completions.create(model="gpt-5-mini", messages=messages)
        return reply.choices[0].message.content
"""
SIMULATION = """
version: 1
simulation: the desk
pipeline: sharing_desk:Desk
app: {path: [.], fresh: true}
agents: {desk: {system: {$starts: You are the desk.}}}
users: {u: {says: [Hi., Yo.], sessions: 2}}
"""


@pytest.mark.slow
def test_words_of_another_session_are_found_and_the_scenario_shows_them(tmp_path: Path) -> None:
    (tmp_path / "sharing_desk.py").write_text(SHARING, encoding="utf-8")
    subject = subject_of(tmp_path, SIMULATION, pipeline="")

    campaign = run_campaign("desk", subject, Bounds(runs=15))

    discoveries = labels(campaign)
    assert [*discoveries] == ["STA-08"]
    # A new process shows it, too: it is no state of earlier conversations.
    assert discoveries["STA-08"].is_alone
    file = tmp_path / "a.scenario.yaml"
    file.write_text(scenario_text(discoveries["STA-08"], subject, tmp_path, "c"), encoding="utf-8")
    assert shows(file, discoveries["STA-08"].cause)


def test_sessions_of_a_declared_pipeline_that_share_nothing_are_no_finding(tmp_path: Path) -> None:
    users = "users: {u: {says: [Hi., Yo.], sessions: 2}}\nmodels: {desk: Hello.}\n"
    subject = subject_of(tmp_path, users)

    record = converse(subject, Plan((TurnPlan(user=0), TurnPlan(user=1), TurnPlan(user=2))))

    assert len({turn["session"] for turn in record.turns}) == 2
    assert record.causes == {}
