"""What sleeps side by side takes virtual time side by side."""

from __future__ import annotations

import pytest

from tests.adapters.running import run_app
from tests.apps.sleepers import WAYS

SCENARIO = """
    app: {path: [.]}
    lints: {RUN-02: threads are the point here}
    turns: [{user: Hello}]
"""


def reply_of(way: str) -> str:
    return str(run_app(f"sleepers:{way}", SCENARIO).view.turns[0].reply)


@pytest.mark.parametrize("way", [way.__name__ for way in WAYS])
def test_each_ends_at_its_own_time_in_the_order_of_time(way: str) -> None:
    notes = reply_of(way)

    assert notes == ("a begins 0.0; b begins 0.0; c begins 0.0; b ends 1.0; a ends 2.0; c ends 2.0")


def test_tasks_and_threads_go_by_one_time() -> None:
    assert reply_of("loop_and_threads").split("; ")[3:] == [
        "b ends 1.0",
        "a ends 2.0",
        "c ends 2.0",
    ]


def test_a_task_that_sleeps_for_ever_holds_up_nobody() -> None:
    assert reply_of("for_ever") == "a begins 0.0; a ends 1.0"
