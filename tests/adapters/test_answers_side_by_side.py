"""Models that are asked side by side take virtual time side by side."""

from __future__ import annotations

import pytest

from simkit.trace.events import ModelCalled, ModelFailed, ModelReplied
from tests.adapters.running import run_app
from tests.apps.waiting_desk import WAYS
from tests.building import Ran


def ran(way: str, bob: str = "{text: B., latency_ms: 100}") -> Ran:
    return run_app(
        f"waiting_desk:{way}",
        f"""
        app: {{path: [.]}}
        lints: {{RUN-02: threads are the point here}}
        agents:
          ann: {{system: You are ann.}}
          bob: {{system: You are bob.}}
          cid: {{system: You are cid.}}
        turns:
          - user: Hello
            replies:
              ann: {{text: A., latency_ms: 200}}
              bob: {bob}
              cid: {{text: C., latency_ms: 200}}
        """,
    )


@pytest.mark.parametrize("way", [way.__name__ for way in WAYS])
def test_each_answers_at_its_own_time(way: str) -> None:
    outcome = ran(way)

    assert [event.at for event in outcome.events(ModelCalled)] == [0, 0, 0]
    replied = [(event.agent, event.at) for event in outcome.events(ModelReplied)]
    assert replied == [("bob", 100), ("ann", 200), ("cid", 200)]
    assert outcome.view.turns[0].reply == "bob 0.1; ann 0.2; cid 0.2; all 0.2"


@pytest.mark.parametrize("way", [way.__name__ for way in WAYS])
def test_it_is_the_same_every_time(way: str) -> None:
    assert len({ran(way).trace.digest() for _ in range(5)}) == 1


def test_a_failure_takes_its_time_beside_the_others() -> None:
    outcome = ran("gathered", "{error: {type: invalid_request}, latency_ms: 150}")

    assert [event.at for event in outcome.events(ModelFailed)] == [150]
