"""Running a turn of a declared pipeline calls few functions; calls do not flicker as time does.

The bounds are a little above what a turn costs today. Whoever makes a turn cheaper lowers them.
"""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from simkit.runtime import compiled, flows
from simkit.runtime.state import Channel
from simkit.session.simulate import run
from simkit.spec.scenario import model
from tests.building import prepared
from tests.conversations import (
    CONTRACT,
    DELEGATE,
    DELEGATED,
    DESK,
    HANDED_OVER,
    PAID,
    ROUTED,
    ROUTER,
    conversation,
)
from tests.test_linear import counted

TURNS = 200


@pytest.mark.parametrize(
    ("pipeline", "turn", "bound"),
    [
        (ROUTER, ROUTED, 193),
        (DESK, HANDED_OVER, 192),
        (CONTRACT, PAID, 255),
        (DELEGATE, DELEGATED, 191),
    ],
    ids=["a router and two agents", "a tool and a handoff", "both with schemas", "a subagent"],
)
def test_running_a_turn_calls_few_functions(pipeline: str, turn: str, bound: int) -> None:
    # What a process makes once; a turn that is read again is kept from its second time on.
    for _ in range(2):
        run(conversation(pipeline, turn, TURNS))
    scenario = conversation(pipeline, turn, TURNS)

    _, calls = counted(lambda: run(scenario))

    assert calls / TURNS <= bound


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
