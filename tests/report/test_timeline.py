# ruff: noqa: E501 -- whole texts are as wide as they are printed
"""The timeline: one row for each thing said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from simkit.report import table
from simkit.report.table import Row, rows_of, selected
from simkit.trace.events import AnyEvent
from simkit.trace.views import View
from tests.report.flows import GRAPH, SUPERVISED

Ran = Callable[..., View]

PARALLEL = """\
version: 1
pipeline: pair
agents:
  router: {instructions: Choose., context: [instructions, current_message]}
  a: {instructions: A.}
  b: {instructions: B.}
flow: {router: {decide: router, to: {parallel: [a, b]}}}
---
version: 1
scenario: two at once
pipeline: pair
turns:
  - {user: go, replies: {router: both, a: {text: slow, latency_ms: 20}, b: {text: fast, latency_ms: 10}}}
"""
FAILING = """\
version: 1
pipeline: one
agents:
  a: {instructions: A., before: [{when: {user: thanks}, writes: {messages: [You are welcome.]}}]}
flow: {handoffs: {start: a}}
---
version: 1
scenario: fails
pipeline: one
turns:
  - {user: thanks}
  - {user: hi, session: s2, replies: {a: {error: rate_limit}}}
"""


def test_rows_say_what_each_call_was_sent_and_what_came_of_it(view_of_run: Ran) -> None:
    rows = rows_of(view_of_run())

    assert rows == [
        Row(0, 0, "given", wrote=("notes",), is_agent=False),
        Row(1, 0, "user", answered="I ran 8 km", wrote=("messages",), is_agent=False),
        Row(1, 0, "router", 2, 5, 0, '{"agent": "coach"}', wrote=("decision",)),
        Row(1, 0, "coach", 3, 10, 0, 'log_run(km: 8) → {"ok": true}'),
        Row(1, 1500, "coach", 5, 17, 0, "Well done.", wrote=("messages",)),
        Row(2, 1500, "user", answered="How was it?", wrote=("messages",), is_agent=False),
        Row(2, 1500, "router", 2, 5, 0, '{"agent": "coach"}', wrote=("decision",)),
        Row(
            2, 1500, "coach", 6, 21, 3, "payload: 'km' is a required property",
            handoff="rejected → analyst",
        ),
        Row(2, 1500, "coach", 8, 51, 3, handoff="transfer → analyst"),
        Row(2, 1500, "analyst", 7, 23, 9, "Faster than last week.", wrote=("messages",)),
    ]  # fmt: skip


def test_agents_that_run_at_once_are_marked(view_of_run: Ran) -> None:
    rows = rows_of(view_of_run("", PARALLEL))

    assert [(row.at, row.agent, row.answered) for row in rows] == [
        (0, "user", "go"),
        (0, "router", "both"),
        (0, "∥ a", "slow"),
        (0, "∥ b", "fast"),
    ]


def test_rules_that_stand_in_errors_and_sessions_have_their_rows(view_of_run: Ran) -> None:
    rows = rows_of(view_of_run("", FAILING))

    assert [(row.turn, row.agent, row.messages, row.answered, row.wrote) for row in rows] == [
        (1, "user (s1)", None, "thanks", ("messages",)),
        (1, "a", None, "null (stood in)", ("messages",)),
        (2, "user (s2)", None, "hi", ("messages",)),
        (2, "a", 2, "rate_limit (failed)", ()),
        (2, "error", None, "rate_limit: Rate limit reached. Try again later.", ()),
    ]


def test_rows_of_one_turn_and_one_agent_can_be_chosen(view_of_run: Ran) -> None:
    rows = rows_of(view_of_run())

    assert selected(rows, turn=1) == rows[1:5]
    assert selected(rows, agent="analyst") == [rows[5], rows[9]]
    assert selected(rows, turn=1, agent="analyst") == []


def test_a_parallel_agent_is_chosen_by_its_plain_name() -> None:
    rows = [Row(1, 0, "∥ a"), Row(1, 0, "∥ b")]

    assert selected(rows, agent="b") == [rows[1]]


def test_a_nodes_first_row_says_what_it_was_given(view_of_run: Ran) -> None:
    rows = rows_of(view_of_run("", GRAPH))

    assert [(row.agent, row.input, row.answered) for row in rows] == [
        ("user", "", '{"request":"find"}'),
        ("start", '{"request": "find"}', '{"request": "find"}'),
        ("search", '{"request": "find"}', 'search(for: "a") → ["a.py"]'),
        ("search", "", '{"files": ["a.py"]}'),
        ("exit", '{"files": ["a.py"]}', "It is empty."),
    ]


def test_a_supervised_agent_is_given_its_task(view_of_run: Ran) -> None:
    rows = rows_of(view_of_run("", SUPERVISED))

    assert [(row.agent, row.input, row.answered) for row in rows] == [
        ("user", "", "go"),
        ("reader", "Read the table", "3 rows"),
        ("writer", "Sum up 3 rows", "Three."),
    ]


NO_ROWS: Final = {
    *("AgentStarted", "CheckpointRestored", "CheckpointSaved", "HandoffRequested", "RouteChosen"),
    *("HistorySummarised", "LogRecorded", "MessageAdded", "ModelCalled", "ModelRetried"),
    *("ReplyParsed", "RequestSent", "RequestUnread", "ResponseReceived", "RunFinished"),
    *("RunStarted", "SessionStarted"),
    *("StateOpened", "StoreRead", "StoreWritten", "TextCarriedOver", "ToolDefined"),
}
"""Events that add no words to a row. Decide it for each new one: an error must be seen."""


def test_each_event_has_words_in_the_timeline_or_is_named_as_one_without() -> None:
    names = {kind.__name__ for kind in table._ROWS}
    names |= {name.removeprefix("on_") for name in dir(table._Timeline)}

    assert {kind.__name__ for kind in AnyEvent.__args__} - names == NO_ROWS
