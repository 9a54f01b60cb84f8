"""How an agent's work ended: done, stopped, or with a problem of its own."""

from __future__ import annotations

from asyncio import CancelledError

import pytest

from simkit.adapters.recorder.trace import status_after


class Stopped(Exception):
    """A framework's own way to stop an agent."""


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (None, "done"),
        (CancelledError(), "cancelled"),
        (GeneratorExit(), "cancelled"),
        (Stopped(), "failed"),
        (KeyboardInterrupt(), "failed"),
    ],
)
def test_what_ended_the_work_says_how_it_ended(problem: BaseException | None, status: str) -> None:
    assert status_after(problem) == status


def test_a_frameworks_own_way_to_stop_an_agent_cancels_it() -> None:
    assert status_after(Stopped(), Stopped) == "cancelled"
