# ruff: noqa: E501 -- whole texts are as wide as they are printed
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simkit.report.wording import event_line, event_lines
from simkit.trace import events as e
from simkit.trace.views import View
from tests.golden import assert_file_is

GOLDEN = Path(__file__).with_name("golden")


@pytest.mark.golden
def test_the_events_of_a_turn_are_one_a_line(view_of_run: Callable[..., View]) -> None:
    lines = list(event_lines(view_of_run().events, turn=1))

    assert_file_is(GOLDEN / "the-events-of-a-turn-are.txt", "\n".join(lines) + "\n")


def test_handoffs_say_who_passes_control_to_whom_and_why_not(
    view_of_run: Callable[..., View],
) -> None:
    lines = list(event_lines(view_of_run().events, turn=2, agent="coach"))

    assert [line for line in lines if "Handoff" in line.split("coach")[0]] == [
        "   47   1500 ms  turn 2   HandoffRequested    coach r4: h1 coach → analyst, "
        "transfer of type analysis: {}",
        "   48   1500 ms  turn 2   HandoffRejected     coach r4: h1 coach → analyst, "
        "transfer of type analysis: payload: 'km' is a required property",
        "   54   1500 ms  turn 2   HandoffRequested    coach r4: h2 coach → analyst, "
        'transfer of type analysis: {"km": 8}',
        "   55   1500 ms  turn 2   HandoffMade         coach r4: h2 coach → analyst, "
        'transfer of type analysis: {"km": 8}',
    ]


def test_events_are_counted_from_one(view_of_run: Callable[..., View]) -> None:
    first, *_, last = event_lines(view_of_run().events)

    assert first == (
        "    1      0 ms           RunStarted          'two turns', pipeline coach, seed 0"
    )
    assert last == "   66   1500 ms           RunFinished"


def test_a_long_event_is_cut_and_structured_fields_are_read() -> None:
    error = e.ErrorFacts("NoRoute", "no label fits " * 20)
    event = e.TurnFinished(0, "s1", 1, error=error, unused=(e.UnusedLines("a", (1,), 2),))

    line = event_line(9, event)

    assert len(line) <= 160
    assert line.startswith(
        '    9      0 ms  turn 1   TurnFinished        error {"type": "NoRoute", "message": "no label'
    )
