# ruff: noqa: E501 -- whole texts are as wide as they are printed
from __future__ import annotations

from collections.abc import Callable

import pytest

from simkit.report.table import table
from simkit.report.timeline import Row, rows_of
from simkit.trace.views import View
from tests.report.flows import GRAPH, SUPERVISED

Ran = Callable[..., View]


def test_the_table_shows_the_whole_run(view_of_run: Ran) -> None:
    lines = table(rows_of(view_of_run()))

    assert (
        lines
        == """\
turn     time  agent    sent  tokens  dropped  answered                              handoff             state written
----  -------  -------  ----  ------  -------  ------------------------------------  ------------------  -------------
         0 ms  given                                                                                     notes
   1     0 ms  user                            I ran 8 km                                                messages
         0 ms  router      2       5        0  {"agent": "coach"}                                        decision
         0 ms  coach       3      10        0  log_run(km: 8) → {"ok": true}
      1500 ms  coach       5      17        0  Well done.                                                messages
   2  1500 ms  user                            How was it?                                               messages
      1500 ms  router      2       5        0  {"agent": "coach"}                                        decision
      1500 ms  coach       6      21        3  payload: 'km' is a required property  rejected → analyst
      1500 ms  coach       8      51        3                                        transfer → analyst
      1500 ms  analyst     7      23        9  Faster than last week.                                    messages
""".splitlines()
    )


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


def test_the_table_of_a_graph_shows_node_input_and_output_in_order(view_of_run: Ran) -> None:
    lines = table(rows_of(view_of_run("", GRAPH)), actor="node")

    assert (
        lines
        == """\
turn  time  node    sent  tokens  dropped  input                output                       state written
----  ----  ------  ----  ------  -------  -------------------  ---------------------------  -------------
   1  0 ms  user                                                {"request":"find"}           messages
      0 ms  start                          {"request": "find"}  {"request": "find"}
      0 ms  search     2       7        0  {"request": "find"}  search(for: "a") → ["a.py"]
      0 ms  search     4      14        0                       {"files": ["a.py"]}          messages
      0 ms  exit       2       7        0  {"files": ["a.py"]}  It is empty.                 messages
""".splitlines()
    )


def test_the_table_of_a_supervisor_shows_agent_input_and_output(view_of_run: Ran) -> None:
    lines = table(rows_of(view_of_run("", SUPERVISED)))

    assert (
        lines
        == """\
turn  time  agent   sent  tokens  dropped  input           output  state written
----  ----  ------  ----  ------  -------  --------------  ------  -------------
   1  0 ms  user                                           go      messages
      0 ms  reader     3       7        0  Read the table  3 rows  messages
      0 ms  writer     4       9        0  Sum up 3 rows   Three.  messages
""".splitlines()
    )


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


def test_stacked_rows_say_turn_by_turn_who_did_what(view_of_run: Ran) -> None:
    lines = table(rows_of(view_of_run()), 76)

    assert (
        lines
        == """\
  given
           wrote notes
turn 1
  user     I ran 8 km
           wrote messages
  router   {"agent": "coach"}
           sent 2, tokens 5, dropped 0, wrote decision
  coach    log_run(km: 8) → {"ok": true}
           sent 3, tokens 10, dropped 0
  coach    Well done.
           sent 5, tokens 17, dropped 0, wrote messages, at 1500 ms
turn 2
  user     How was it?
           wrote messages, at 1500 ms
  router   {"agent": "coach"}
           sent 2, tokens 5, dropped 0, wrote decision, at 1500 ms
  coach    payload: 'km' is a required property
           rejected → analyst
           sent 6, tokens 21, dropped 3, at 1500 ms
  coach    transfer → analyst
           sent 8, tokens 51, dropped 3, at 1500 ms
  analyst  Faster than last week.
           sent 7, tokens 23, dropped 9, wrote messages, at 1500 ms
""".splitlines()
    )


def test_a_table_that_fits_is_one_on_narrow_lines_too(view_of_run: Ran) -> None:
    lines = table(rows_of(view_of_run("", SUPERVISED)), 96)

    assert lines == table(rows_of(view_of_run("", SUPERVISED)))


def test_words_are_not_broken_on_narrow_lines() -> None:
    row = Row(1, 0, "search", 3, 40, 0, f"find({'x' * 40})")

    assert any(line.startswith("----") for line in table([row], 110))
    assert not any(line.startswith("----") for line in table([row], 90))
