"""What is compiled once for all runs and seeds of a pipeline, and how a turn is pickled."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from simkit.runtime import compiled, flows
from simkit.runtime.state import Channel
from simkit.session.simulate import run
from simkit.spec.scenario import model
from tests.building import prepared
from tests.conversations import DESK, ROUTED, ROUTER, conversation

TURNS = 3


def test_another_seed_compiles_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = conversation(ROUTER, ROUTED, TURNS)
    first = run(scenario)

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("it is compiled again")

    for module, name in (
        (compiled, "CompiledPipeline"),
        (compiled, "_facts_of"),
        (flows, "RouterFlow"),
        (model, "compiled_script"),
    ):
        monkeypatch.setattr(module, name, refuse)
    monkeypatch.setattr(Channel, "__init__", refuse)
    other = run(scenario, seed=7)

    assert other.events[1:] == first.events[1:]


def test_a_turn_that_has_run_goes_to_another_process() -> None:
    scenario = prepared(
        DESK, "turns: [{user: Hi, replies: {desk: {text: Hello, when: {agent: desk}}}}]"
    )
    run(scenario)
    (turn,) = scenario.scenario.turns

    copy = pickle.loads(pickle.dumps(turn))

    assert copy == turn
    assert copy.script["desk"][0].answer == turn.script["desk"][0].answer
