"""A turn of a live run, as a scenario writes it: what was drawn and did not take place is gone."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.explore.live_simulations import settle
from simkit.trace.events import ErrorFacts, Event, FaultInjected

RULES = [{"call": 1, "error": "timeout"}, {"call": 3, "error": "rate_limit"}]
CRASH: dict[str, Any] = {"user": "Hi", "crash": {"agent": "desk"}}


def injected(fault: str, turn: int = 2) -> Event:
    return FaultInjected(at=0, session="s1", turn=turn, fault=fault)


def test_faults_that_took_place_in_the_turn_are_kept_and_named() -> None:
    turn: dict[str, Any] = {"user": "Hi", "faults": list(RULES)}
    events = [injected("timeout on call 1"), injected("rate_limit on call 3", turn=1)]

    assert settle(turn, 2, events, None) == ("timeout",)
    assert turn == {"user": "Hi", "faults": RULES[:1]}


def test_a_turn_without_faults_that_took_place_has_none() -> None:
    turn: dict[str, Any] = {"user": "Hi", "faults": list(RULES)}

    assert settle(turn, 2, [], None) == ()
    assert turn == {"user": "Hi"}


@pytest.mark.parametrize(
    ("error", "kinds"),
    [
        (ErrorFacts("ProcessCrashed", "It ended."), ("crash",)),
        (ErrorFacts("ModelError", "It failed."), ()),
        (None, ()),
    ],
)
def test_a_cut_is_kept_if_it_ended_the_turn(
    error: ErrorFacts | None, kinds: tuple[str, ...]
) -> None:
    turn = dict(CRASH)

    assert settle(turn, 2, [], error) == kinds
    assert ("crash" in turn) == bool(kinds)
