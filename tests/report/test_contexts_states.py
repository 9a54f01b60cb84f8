from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simkit.report.contexts import state_lines
from simkit.report.wording import Tone
from simkit.trace.views import View
from tests.golden import assert_file_is

GOLDEN = Path(__file__).with_name("golden")

RECORDS = """\
version: 1
pipeline: records
channels:
  messages: {reducer: append, scope: session}
  facts: {reducer: merge, scope: session}
  recent: {reducer: {append: {last: 1}}, scope: session}
agents:
  a: {instructions: A., writes: {facts: "${run.output}", recent: ["${run.output.n}"]}}
flow: {handoffs: {start: a}}
---
version: 1
scenario: records
pipeline: records
given: {state: {facts: {n: 0, old: true}, recent: [0]}}
turns:
  - {user: one, replies: {a: {json: {n: 1, new: x}}}}
  - {user: other, session: s2, replies: {a: {json: {n: 2}}}}
"""


@pytest.mark.golden
def test_each_turn_shows_what_it_changed_and_names_the_rest(
    view_of_run: Callable[..., View],
) -> None:
    assert_file_is(
        GOLDEN / "each-turn-shows-what-it-changed.txt", "\n".join(state_lines(view_of_run()))
    )


@pytest.mark.golden
def test_mappings_differ_key_by_key_and_a_list_that_lost_items_is_shown_whole(
    view_of_run: Callable[..., View],
) -> None:
    assert_file_is(
        GOLDEN / "mappings-differ-key-by-key-and.txt",
        "\n".join(state_lines(view_of_run("", RECORDS))),
    )


def test_one_turn_can_be_chosen(view_of_run: Callable[..., View]) -> None:
    lines = list(state_lines(view_of_run(), turn=2))

    assert lines[0] == "turn 2: 2 of 3 channels changed"
    assert lines.count("") == 1


def test_signs_carry_the_tone(view_of_run: Callable[..., View]) -> None:
    def paint(text: str, tone: Tone) -> str:
        return f"<{tone}>{text}</>"

    lines = list(state_lines(view_of_run(), turn=1, paint=paint))

    assert lines[0] == "<strong>turn 1</>: 2 of 3 channels changed"
    assert lines[5:7] == ["    <bad>- null</>", '    <good>+ {"agent": "coach"}</>']
