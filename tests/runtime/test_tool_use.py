"""A declared tool whose name begins as a transfer's does is an ordinary tool."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Annotated, Any, Optional

import pytest

from simkit.core.messages import Message
from simkit.report.table import rows_of
from simkit.runtime.ports import ToolReply
from simkit.runtime.tool_use import as_returned, looked_up
from simkit.trace.events import ToolFailed, ToolReturned
from simkit.trace.reducers import Appended
from tests.building import message_lines, run_yaml
from tests.runtime.graphs import graph, order, problems, ran

BANK = """
version: 1
pipeline: p
agents:
  desk: {instructions: Help., tools: [transfer_to_savings], handoffs: [savings]}
  savings: {instructions: Save., handoffs: []}
tools: {transfer_to_savings: {}}
flow: {handoffs: {start: desk}}
"""
TURNS = """
turns:
  - user: Move 5
    replies: {desk: [{calls: [transfer_to_savings: {amount: 5}]}, Done.]}
    tool_results: {transfer_to_savings: moved}
"""


def test_a_tool_that_is_called_like_a_transfer_is_shown_as_a_tool() -> None:
    ran = run_yaml(BANK, TURNS)

    assert [message.calls[0].target for message in ran.view.messages.values() if message.calls] == [
        ""
    ]
    assert any("transfer_to_savings(amount: 5)" in row.answered for row in rows_of(ran.view))


VALUE = {
    "trip": {"to": "Rome", "days": [{"km": 3}, {"km": 5}]},
    "a.b": 1,
    "none": None,
    "said": [Message("user", "Hi", "m1")],
    "list": Appended([1, 2]),
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("trip.to", "Rome"),
        ("trip.days[0].km", 3),
        ("trip.days[-1]", {"km": 5}),
        ("trip.days", [{"km": 3}, {"km": 5}]),
        ('["a.b"]', 1),
        ("none", None),
        ("said[0]", {"role": "user", "content": "Hi"}),
        ("said[0].content", "Hi"),
        ("list", [1, 2]),
        ("list[1]", 2),
    ],
)
def test_path_is_answered_with_what_stands_there(path: str, expected: object) -> None:
    assert looked_up("facts", VALUE, {"path": path}) == ToolReply(expected)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (
            "trip.too",
            "nothing is at `trip.too` in `facts`. Did you mean `trip.to`? There is: trip, trip.to, "
            "trip.days, a.b, none, said, said[0], list, list[0]",
        ),
        (
            "trip.days[2]",
            "nothing is at `trip.days[2]` in `facts`. Did you mean `trip.days`? There is: trip, "
            "trip.to, trip.days, a.b, none, said, said[0], list, list[0]",
        ),
        (
            "zzzzzz",
            "nothing is at `zzzzzz` in `facts`. There is: trip, trip.to, trip.days, a.b, none, "
            "said, said[0], list, list[0]",
        ),
        (
            "trip[x",
            "nothing is at `trip[x` in `facts`. Did you mean `trip`? There is: trip, trip.to, "
            "trip.days, a.b, none, said, said[0], list, list[0]",
        ),
    ],
)
def test_path_that_leads_nowhere_is_an_error_that_says_what_is_there(path: str, says: str) -> None:
    assert looked_up("facts", VALUE, {"path": path}) == ToolReply(error=says)


def test_names_in_an_error_are_few() -> None:
    reply = looked_up("facts", {f"k{n}": n for n in range(20)}, {"path": "x"})

    assert reply.error == (
        f"nothing is at `x` in `facts`. There is: {', '.join(f'k{n}' for n in range(12))}, … 8 more"
    )


def test_number_of_names_that_fit_stands_alone() -> None:
    reply = looked_up("facts", {f"k{n}": n for n in range(12)}, {"path": "x"})

    assert reply.error == (
        f"nothing is at `x` in `facts`. There is: {', '.join(f'k{n}' for n in range(12))}"
    )


@pytest.mark.parametrize("value", [None, {}, [], "text"])
def test_channel_that_holds_nothing_says_so(value: object) -> None:
    assert looked_up("facts", value, {"path": "x"}) == ToolReply(
        error="nothing is at `x` in `facts`. There is: nothing"
    )


def test_whole_value_is_asked_for_without_a_path() -> None:
    assert looked_up("facts", {"a": [1]}, {"path": ""}) == ToolReply({"a": [1]})


# In a run

PIPELINE = """
channels: {facts: {reducer: merge}}
tools: {ask: {reads: facts}}
agents: {a: {instructions: A., tools: [ask]}}
flow: {handoffs: {start: a}}
"""
GIVEN = "given: {state: {facts: {trip: {to: Rome}}}}"


def test_agent_asks_for_the_part_that_it_needs() -> None:
    outcome = run_yaml(
        PIPELINE,
        f"{GIVEN}\nturns: [{{user: Hi, replies: {{a: [{{calls: [ask: {{path: trip}}]}}, x]}}}}]",
    )

    assert problems(outcome) == []
    assert message_lines(outcome.calls("a")[1].context.section("run")) == [
        'assistant/a: [ask{"path":"trip"}]', 'tool/a: {"to":"Rome"}'
    ]  # fmt: skip
    assert [event.result for event in outcome.events(ToolReturned)] == [{"to": "Rome"}]


def test_agent_is_told_that_nothing_is_there() -> None:
    outcome = run_yaml(
        PIPELINE,
        f"{GIVEN}\nturns:\n  - user: Hi\n"
        "    replies: {a: [{calls: [ask: {path: trip.too}]}, x]}",
    )

    says = "nothing is at `trip.too` in `facts`. Did you mean `trip.to`? There is: trip, trip.to"
    assert [event.error for event in outcome.events(ToolFailed)] == [says]
    assert message_lines(outcome.calls("a")[1].context.section("run"))[1] == f"tool/a: {says}"


def test_scripted_result_stands_in_for_the_channel() -> None:
    outcome = run_yaml(
        PIPELINE,
        f"""
        {GIVEN}
        turns:
          - user: Hi
            replies: {{a: [{{calls: [ask: {{path: trip}}]}}, x]}}
            tool_results: {{ask: scripted}}
        """,
    )

    assert problems(outcome) == []
    assert [event.result for event in outcome.events(ToolReturned)] == ["scripted"]


def test_tool_sees_the_state_of_its_branch() -> None:
    item = ran(
        graph("s>a s>b a>c b>m c>m", {"c": "tools: [ask]"}, "tools: {ask: {reads: outputs}}",
              s="role: split", m="role: merge, exit: true"),
        s="s", a="{text: a, latency_ms: 5}", b="b", c="[{calls: [ask: {path: ''}]}, c]", m="m",
    )  # fmt: skip

    assert problems(item) == []
    assert order(item)[3] == "c @5"
    assert [event.result for event in item.events(ToolReturned)] == [{"s": "s", "a": "a"}]


def test_tool_sees_only_what_a_contract_carries() -> None:
    item = ran(
        graph("a>b", {"b": "tools: [ask]"},
              "tools: {ask: {reads: outputs}}\ncontracts: [{from: a, to: b, carries: [seen]}]",
              b="exit: true"),
        a="a", b="[{calls: [ask: {path: a}]}, b]",
    )  # fmt: skip

    assert [event.error for event in item.events(ToolFailed)] == [
        "nothing is at `a` in `outputs`. There is: nothing"
    ]


DAY, TEXT = date(2026, 1, 5), "2026-01-05"


@pytest.mark.parametrize(
    ("returns", "result", "value"),
    [
        (date, TEXT, DAY),
        (Optional[date], TEXT, DAY),  # noqa: UP045
        (date | None, TEXT, DAY),
        (list[date], [TEXT], [DAY]),
        (dict[str, date], {"due": TEXT}, {"due": DAY}),
        (dict[str, list[date | None]], {"due": [None, TEXT]}, {"due": [None, DAY]}),
        (Annotated[date, "when"], TEXT, DAY),
        (date | None, None, None),
        (date, "soon", "soon"),
        (Iterator[date], [TEXT], [TEXT]),
        (str, TEXT, TEXT),
        (Any, TEXT, TEXT),
    ],
)
def test_a_result_is_made_as_the_annotation_says(returns: Any, result: Any, value: Any) -> None:
    assert as_returned("look", ToolReply(result), returns) == value
