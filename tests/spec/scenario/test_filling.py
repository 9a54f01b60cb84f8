"""`user: {simulate: …}`: the seed chooses what a user says in a scenario."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from simkit.core.errors import SourceError
from simkit.session.simulate import simulate
from simkit.spec.scenario import filling
from simkit.spec.scenario.filling import Speech, speech_of
from simkit.spec.scenario.simulated_users import SimulatedUser
from tests.building import prepared

PIPELINE = "agents: {desk: {instructions: Hi.}}\nflow: {handoffs: {start: desk}}\n"
USER = """
turns:
  - user: Hello.
    replies: {desk: Hi.}
  - user:
      simulate:
        persona: {name: "${fake.first_name}", order: {$sample: [A-1, B-2]}}
        states:
          asks: {says: ["Where is ${persona.order}?", "${persona.order}!"], then: [more, end]}
          more: {pause: 2 h, says: "It is ${persona.name}.", then: {more: 2, end: 1}}
    repeat: 4
    replies: {desk: "${turn.repetition}: ${persona.order}"}
    expect: {reply: {$ends: "${persona.order}"}}
"""


def messages_of(seed: int) -> list[tuple[Any, ...]]:
    outcome = simulate(prepared(PIPELINE, USER), seed=seed)
    assert outcome.passed
    turns = prepared(PIPELINE, USER).with_seed(seed).scenario.turns
    return [(turn.user and turn.user.text, turn.pause) for turn in turns]


@pytest.mark.slow
def test_each_seed_draws_a_user_and_the_same_one_again() -> None:
    drawn = [messages_of(seed) for seed in range(12)]

    assert drawn == [messages_of(seed) for seed in range(12)]
    assert {len(turns) for turns in drawn} >= {2, 3}
    assert len({turns[1][0] for turns in drawn}) >= 3
    for turns in drawn:
        names = {text for text, _ in turns[2:]}
        assert len(names) <= 1
        assert "$" not in "".join(names)
        assert all(pause == "2 h" for _, pause in turns[2:])


def test_one_of_several_texts_is_said_as_often_as_the_turn_repeats() -> None:
    turns = "turns: [{user: {simulate: {says: [A, B]}}, repeat: 30, replies: {desk: Hi.}}]\n"

    texts = [turn.user and turn.user.text for turn in prepared(PIPELINE, turns).scenario.turns]

    assert len(texts) == 30
    assert {*texts} == {"A", "B"}


def test_a_user_is_drawn_once_for_all_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def draw(user: SimulatedUser, random: Random, most: int) -> Speech:
        drawn.append(most)
        return speech_of(user, random, most)

    monkeypatch.setattr(filling, "speech_of", draw)
    prepared(PIPELINE, USER.replace("repeat: 4", "repeat: 30"))

    assert drawn == [30]


@pytest.mark.parametrize(
    ("user", "problem", "at"),
    [
        ("{}", "a user has either `says`, `states`, `says_of` or", "turns[0].user.simulate"),
        (
            "{model: openai/m, goal: A, cassette: c}",
            "`model` says nothing in a scenario",
            "turns[0].user.simulate.model",
        ),
        ("{says: '${persona.x}'}", "persona.x", "turns[0].user"),
        ("{states: {a: {pause: 1 h}}}", "may end without a word", "turns[0].user.simulate"),
        ("{says: Hi, sessions: 2}", "`sessions` says nothing", "turns[0].user.simulate.sessions"),
        ("{says: Hi, answers: [B]}", "`answers` says nothing", "turns[0].user.simulate.answers"),
        ("{states: {a: {says: Hi, then: b}}}", "no state `b`", "turns[0].user.simulate.states"),
    ],
)
def test_a_mistake_is_told_at_its_place(user: str, problem: str, at: str) -> None:
    text = f"turns: [{{user: {{simulate: {user}}}, replies: {{desk: Hi.}}}}]\n"

    with pytest.raises(SourceError, match=problem) as raised:
        prepared(PIPELINE, text)

    assert raised.value.at.startswith(at)


def test_a_persona_belongs_to_its_turn() -> None:
    with pytest.raises(SourceError, match=r"unknown reference `\$\{persona\.order\}`"):
        prepared(PIPELINE, USER + "  - {user: 'And ${persona.order}?', replies: {desk: Hi.}}\n")
