"""Pauses: virtual time that passes before a turn, in scenarios, features and simulated users."""

from __future__ import annotations

from pathlib import Path

import pytest

import simkit
from simkit import Simulation
from simkit.core.errors import SourceError
from simkit.explore.choices import Plan, TurnPlan
from simkit.explore.conversations import converse
from simkit.spec.scenario.moments import duration_ms
from simkit.trace.events import LimitReached, TurnStarted
from tests.building import events_of, prepared, run_yaml
from tests.explore.test_simulations import subject_of

PIPELINE = """
channels:
  messages: {reducer: append, scope: session}
  notes: {reducer: append, scope: project}
agents:
  desk: {instructions: Hi., context: [instructions, notes: {since_days: 1}, current_message]}
flow: {handoffs: {start: desk}}
"""
HOUR = 3_600_000


def conversation(*pauses: str) -> str:
    turns = "".join(
        f"  - {{user: Hi, replies: {{desk: {{text: Hello., latency_ms: 500}}}}, {pause}}}\n"
        for pause in ("restart: false", *pauses)
    )
    return f"turns:\n{turns}"


@pytest.mark.parametrize(
    ("text", "ms"),
    [("500 ms", 500), ("90s", 90_000), ("1.5 h", 5_400_000), ("1 h 30 min", 5_400_000),
     ("2 days", 172_800_000), ("1 day", 86_400_000), ("1d", 86_400_000)],
)  # fmt: skip
def test_a_duration_is_a_number_and_a_unit(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["2", "two hours", "0 s", "2 hours", "-1 h", "[]"])
def test_another_text_is_refused_at_its_place(text: str) -> None:
    with pytest.raises(SourceError, match="must be a duration, not") as problem:
        prepared(PIPELINE, conversation(f"pause: {text}"))

    assert problem.value.at == "turns[1].pause"


@pytest.mark.slow
def test_virtual_time_passes_before_a_turn_and_no_limit_counts_it() -> None:
    ran = run_yaml(PIPELINE, conversation("pause: 2 h", "{pause: 3 h, restart: true}"[1:-1]))

    starts = [event.at for event in events_of(ran.trace, TurnStarted)]
    assert starts == [0, 2 * HOUR + 500, 5 * HOUR + 1_000]
    assert events_of(ran.trace, LimitReached) == []


def test_time_that_passes_in_turns_counts_up_to_the_limit() -> None:
    limits = "limits: {virtual_ms: 1200}\n"
    ran = run_yaml(PIPELINE, limits + conversation("pause: 2 h", "pause: 2 h"), fits=False)

    (event,) = events_of(ran.trace, LimitReached)
    assert (event.turn, event.limit) == (3, "virtual_ms")


def test_items_grow_old_in_a_pause() -> None:
    notes = "given: {state: {notes: [{text: Tea., at: 2026-01-05T08:00:00Z, agent: desk}]}}\n"
    ran = run_yaml(PIPELINE, notes + conversation("pause: 2 days"))

    first, second = (turn.calls[0].context for turn in ran.view.turns)
    assert first.sections == ["instructions", "notes", "current_message"]
    assert second.sections == ["instructions", "current_message"]


def test_code_sees_the_time_that_passed(tmp_path: Path) -> None:
    code = "import datetime\ndef answer(text):\n    return datetime.datetime.now().isoformat()\n"
    (tmp_path / "clock_of_pauses.py").write_text(code, encoding="utf-8")
    file = tmp_path / "a.scenario.yaml"
    file.write_text(
        "scenario: a\npipeline: clock_of_pauses:answer\napp: {path: [.]}\n"
        "turns:\n  - user: Hi\n  - {user: Hi, pause: 26 h}\n",
        encoding="utf-8",
    )

    view = simkit.simulate(simkit.load(file)[0]).view

    assert [turn.reply[:16] for turn in view.turns] == ["2026-01-05T09:00", "2026-01-06T11:00"]


def test_python_lets_time_pass_too(tmp_path: Path) -> None:
    file = tmp_path / "desk.pipeline.yaml"
    file.write_text(f"pipeline: desk\n{PIPELINE}", encoding="utf-8")
    desk = Simulation(file)
    desk.say("Hi", replies={"desk": "Hello."})

    desk.say("Hi", replies={"desk": "Hello."}, pause="2 h")

    assert [event.at for event in events_of(desk.trace, TurnStarted)] == [0, 2 * HOUR]
    with pytest.raises(SourceError, match="must be a duration"):
        desk.say("Hi", pause="later")


WAITING = """
users:
  buyer:
    states:
      asks: {says: Hello., then: waits}
      waits: {pause: [2 h, 3 days], then: rests}
      rests: {pause: 1 min, then: [insists, end]}
      insists: {pause: 5 s, says: Still there?, then: asks}
"""


def test_a_simulated_user_waits_and_the_scenario_says_it(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, WAITING)

    short = converse(subject, Plan((TurnPlan(), TurnPlan(), TurnPlan())))
    long = converse(subject, Plan((TurnPlan(user=1), TurnPlan())))
    over = converse(subject, Plan((TurnPlan(user=2), TurnPlan())))

    assert [turn.get("pause") for turn in short.turns] == [None, "2 h 1 min 5 s", None]
    assert [turn.get("pause") for turn in long.turns] == [None, "3 days 1 min 5 s"]
    assert len(over.turns) == 1
    assert not short.causes


@pytest.mark.parametrize(
    ("states", "problem"),
    [
        ("{a: {then: end}}", "a state has `says`, `pause`, or both"),
        ("{a: {pause: 1 h, then: a}}", "a user in state `a` only waits"),
        ("{a: {says: Hi, then: b}, b: {pause: 1 h, then: [a, c]}, c: {pause: 1 h, then: b}}",
         "a user in state `b` only waits"),
        ("{a: {pause: soon}}", "must be a duration, not the text `soon`"),
        ("{a: {pause: 999999999999 days}}", "is too long: the text `999999999999 days`"),
    ],
)  # fmt: skip
def test_a_user_who_only_waits_is_refused(states: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=problem):
        subject_of(tmp_path, f"users: {{u: {{states: {states}}}}}\n")
