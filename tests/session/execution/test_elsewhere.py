"""What starting new processes took is said where it took long."""

from __future__ import annotations

import pytest

from simkit.session.execution.own_process import STARTS, noting_starts


@pytest.mark.parametrize(
    ("are_restarts", "seconds", "text"),
    [
        ([], 0.0, ""),
        ([True], 0.4, ""),
        ([True], 1.5, "1 restart, a new process: 1.5 s"),
        ([True, True, True], 0.7, "3 restarts, each a new process: 2.1 s"),
        (
            [True, False, False],
            1.0,
            "1 restart and 2 sessions run alone, each a new process: 3.0 s",
        ),
    ],
)
def test_what_restarts_took_is_said_from_a_second_on(
    are_restarts: list[bool], seconds: float, text: str
) -> None:
    with noting_starts() as note:
        for is_restart in are_restarts:
            STARTS.note(is_restart, seconds)

        assert note() == text
