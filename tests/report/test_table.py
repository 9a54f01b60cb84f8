# ruff: noqa: E501 -- whole texts are as wide as they are printed
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simkit.report.table import Row, rows_of, table
from simkit.trace.views import View
from tests.golden import assert_file_is
from tests.report.flows import GRAPH, SUPERVISED

Ran = Callable[..., View]
GOLDEN = Path(__file__).with_name("golden")


@pytest.mark.golden
def test_the_table_shows_the_whole_run(view_of_run: Ran) -> None:
    lines = table(rows_of(view_of_run()))

    assert_file_is(GOLDEN / "the-table-shows-the-whole-run.txt", "\n".join(lines) + "\n")


def test_no_rows_make_no_table() -> None:
    assert table([]) == []


def test_long_cells_are_wrapped_and_cut_so_that_the_table_keeps_its_width() -> None:
    row = Row(
        1, 3_725_000, "an_agent_with_a_really_long_name", 12, 3456, 7, "many words " * 40,
        "transfer → another_agent_with_a_long_name", ("one_channel", "another_channel", "a_third"),
    )  # fmt: skip

    lines = table([row])

    assert max(map(len, lines)) <= 120
    assert (
        "\n".join(lines)
        == """\
turn        time  agent                     sent  tokens  dropped  answered          handoff            state written
----  ----------  ------------------------  ----  ------  -------  ----------------  -----------------  ----------------
   1  1 h 02 min  an_agent_with_a_really_…    12    3456        7  many words many   transfer → anothe  one_channel,
                                                                   words many words  r_agent_with_a_lo  another_channel,
                                                                   many words many…  ng_name            a_third"""
    )


@pytest.mark.golden
def test_the_table_of_a_graph_shows_node_input_and_output_in_order(view_of_run: Ran) -> None:
    lines = table(rows_of(view_of_run("", GRAPH)), actor="node")

    assert_file_is(GOLDEN / "the-table-of-a-graph-shows.txt", "\n".join(lines) + "\n")


@pytest.mark.golden
def test_the_table_of_a_supervisor_shows_agent_input_and_output(view_of_run: Ran) -> None:
    lines = table(rows_of(view_of_run("", SUPERVISED)))

    assert_file_is(GOLDEN / "the-table-of-a-supervisor-shows.txt", "\n".join(lines) + "\n")


def test_long_inputs_and_outputs_share_the_width() -> None:
    row = Row(1, 0, "search", 3, 40, 0, "many words " * 40, input="a long input " * 40)

    lines = table([row])

    assert max(map(len, lines)) <= 120
    assert (
        "\n".join(lines)
        == """\
turn  time  agent   sent  tokens  dropped  input                 output                                  state written
----  ----  ------  ----  ------  -------  --------------------  --------------------------------------  -------------
   1  0 ms  search     3      40        0  a long input a long   many words many words many words many
                                           input a long input a  words many words many words many words
                                           long input a long…    many words many words many words many…"""
    )


@pytest.mark.parametrize("width", [36, 56, 76, 95])
def test_on_narrow_lines_the_cells_of_a_row_stand_below_each_other(
    view_of_run: Ran, width: int
) -> None:
    rows = rows_of(view_of_run())

    lines = table(rows, width)

    assert max(map(len, lines)) <= width
    assert not any(line.startswith("----") for line in lines)
    words = {word for row in rows for word in row.agent.split()}
    assert words <= set(" ".join(lines).replace(",", " ").split())


@pytest.mark.golden
def test_stacked_rows_say_turn_by_turn_who_did_what(view_of_run: Ran) -> None:
    lines = table(rows_of(view_of_run()), 76)

    assert_file_is(GOLDEN / "stacked-rows.txt", "\n".join(lines) + "\n")


def test_a_table_that_fits_is_one_on_narrow_lines_too(view_of_run: Ran) -> None:
    lines = table(rows_of(view_of_run("", SUPERVISED)), 96)

    assert lines == table(rows_of(view_of_run("", SUPERVISED)))


def test_words_are_not_broken_on_narrow_lines() -> None:
    row = Row(1, 0, "search", 3, 40, 0, f"find({'x' * 40})")

    assert any(line.startswith("----") for line in table([row], 110))
    assert not any(line.startswith("----") for line in table([row], 90))
