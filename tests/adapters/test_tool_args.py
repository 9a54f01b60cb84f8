"""A tool call shows with what the function was called; an argument that got lost is found."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from simkit.adapters.tool_use import received
from simkit.core.errors import SourceError
from simkit.language.json_schema.coercion import is_same, lost_in
from simkit.trace.store import canonical
from tests.adapters.running import run_app
from tests.building import Ran
from tests.checks.traces import hits_of

DESK = """
from __future__ import annotations

import json
import openai

client = openai.OpenAI()
TOOL = {"type": "function", "function": {"name": "pay", "parameters": {"type": "object",
    "properties": {"order": {"type": "string"}, "amount": {"type": "string"}}}}}


def pay(order, amount=0, state=None) -> list[str]:
    return [order, str(amount)]


def carry_out(args):
    HOW


def chat(text):
    messages = [{"role": "user", "content": text}]
    said = client.chat.completions.create(model="m", messages=messages, tools=[TOOL])
    message = said.choices[0].message
    if not message.tool_calls:
        return message.content
    for call in message.tool_calls:
        result = str(carry_out(json.loads(call.function.arguments)))
        messages += [message.model_dump(exclude_none=True),
                     {"role": "tool", "tool_call_id": call.id, "content": result}]
    return client.chat.completions.create(model="m", messages=messages).choices[0].message.content
"""
TEXT = "{pay: {order: A-7, amount: '12'}}"


def run(
    folder: Path, how: str, results: str = "{}", expect: str = "{}", name: str = "pay_desk"
) -> Ran:
    (folder / f"{name}.py").write_text(dedent(DESK).replace("HOW", how), encoding="utf-8")
    scenario = f"""
app: {{path: [.], fresh: true, tools: {{pay: "{name}:pay"}}}}
agents: {{desk: {{messages: {{$len: {{$gt: 0}}}}}}}}
turns:
  - user: Hello
    replies: {{desk: [{{calls: {TEXT}}}, Done]}}
    tool_results: {results}
    expect: {expect}
"""
    return run_app(f"{name}:chat", scenario, folder)


def warned(ran: Ran) -> list[tuple[str, Any]]:
    hits = hits_of("FLW-09", ran.trace)
    assert [warning.id for warning in ran.judgement.warnings] == [hit.id for hit in hits]
    return [(hit.id, hit.data["arguments"]) for hit in hits]


@pytest.mark.parametrize("results", ["{}", "{pay: {returns: [paid]}}"], ids=["real", "stood in"])
@pytest.mark.parametrize(
    ("how", "args", "lost"),
    [
        ("return pay(**args)", {"order": "A-7", "amount": "12"}, []),
        ("return pay(args['order'], int(args['amount']), state=object())",
         {"order": "A-7", "amount": 12}, []),
        ("return pay(args['order'])", {"order": "A-7"}, ["amount"]),
        ("return pay('A-8', args['amount'])", {"order": "A-8", "amount": "12"}, ["order"]),
        ("return pay(args['amount'], args['order'])", {"order": "12", "amount": "A-7"},
         ["order", "amount"]),
    ],
    ids=["same", "coerced", "lost", "changed", "swapped"],
)  # fmt: skip
def test_a_tool_call_shows_what_came_and_what_was_asked(
    tmp_path: Path, how: str, args: dict[str, Any], lost: list[str], results: str
) -> None:
    ran = run(tmp_path, how, results)
    (observed,) = ran.turn().tools

    assert observed.args == args
    assert observed.request == {"order": "A-7", "amount": "12"}
    assert warned(ran) == ([("FLW-09", lost)] if lost else [])


def test_both_are_claimed(tmp_path: Path) -> None:
    claim = "{tool_calls: [{tool: pay, args: {$exact: {order: A-7}}, asked: {amount: '12'}}]}"

    ran = run(tmp_path, "return pay(args['order'])", expect=claim)

    assert [finding.what for finding in ran.judgement.findings] == []


# What arrives


class Kind(enum.Enum):
    FAST = "fast"


class Order(BaseModel):
    number: str
    count: int = 1


@dataclass
class Place:
    city: str
    zip: str | None = None


@pytest.mark.parametrize(
    ("arguments", "arrived"),
    [
        ({"n": "7"}, {"n": 7}),
        ({"n": 7}, {"n": 7.0}),
        ({"price": "1.50"}, {"price": Decimal("1.50")}),
        ({"yes": "true"}, {"yes": True}),
        ({"day": "2026-01-05"}, {"day": date(2026, 1, 5)}),
        ({"kind": "fast"}, {"kind": Kind.FAST}),
        ({"order": {"number": "A"}}, {"order": Order(number="A")}),
        ({"number": "A"}, {"order": Order(number="A")}),
        ({"place": {"city": "Rome"}}, {"place": Place("Rome"), "zip": None}),
        ({"ids": ["b", "a"]}, {"ids": {"a", "b"}}),
        ({"id": "a"}, {"ids": ["a"]}),
        ({"filter": '{"a": 1}'}, {"filter": {"a": 1}}),
        ({"note": None, "tags": []}, {}),
        ({"orderId": 7}, {"order_id": 7}),
        ({"order": 7}, {"request": object()}),
    ],
)
def test_what_a_schema_makes_of_an_argument_is_no_loss(
    arguments: dict[str, Any], arrived: dict[str, Any]
) -> None:
    assert [*lost_in(arguments, canonical(arrived))] == []


@pytest.mark.parametrize(
    ("arguments", "arrived", "lost"),
    [
        ({"n": 7}, {"n": 8}, ["n"]),
        ({"n": 7}, {}, ["n"]),
        ({"n": True}, {"n": 1.5}, ["n"]),
        ({"order": {"number": "A", "count": 2}}, {"order": Order(number="A")}, ["order"]),
        ({"ids": ["a", "b"]}, {"ids": ["a"]}, ["ids"]),
        ({"city": "Rome"}, {"place": Place("Roma")}, ["city"]),
        ({"day": "2026-01-05"}, {"day": date(2026, 1, 6)}, ["day"]),
        ({"text": "[" * 100_000}, {"text": [1]}, ["text"]),
        ({"text": "\ud800"}, {"text": [1]}, ["text"]),
    ],
)
def test_another_value_is(
    arguments: dict[str, Any], arrived: dict[str, Any], lost: list[str]
) -> None:
    assert [*lost_in(arguments, canonical(arrived))] == lost


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.dictionaries(st.text(), VALUES), st.dictionaries(st.text(), VALUES))
def test_arguments_that_arrive_among_others_are_never_lost(
    request: dict[str, Any], others: dict[str, Any]
) -> None:
    assert is_same(request, canonical({**others, **request})) or canonical(request) != request


def test_what_is_injected_is_no_argument_of_the_tool() -> None:
    schema: dict[str, Any] = {"properties": {"order": {}, "amount": {}}}
    data = {"order": 1, "amount": 2, "state": object()}

    assert received(data, {"order": 1}, schema) == {"order": 1, "amount": 2}
    assert received(data, {"order": 1}, None) == data
    assert received({"request": 1}, {"order": 1}, schema) == {"request": 1}


# A list that answers one call each


def test_a_list_for_a_tool_that_returns_lists_must_say_which_it_is(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as error:
        run(tmp_path, "return pay(**args)", "{pay: [paid]}")

    assert error.value.what == (
        "tool 'pay' returns a list, and its results answer one call each: this call would get "
        '"paid" alone.\nWrite `pay: {returns: ["paid"]}` for a list that answers every call, or a '
        "list of lists for one call after the other."
    )
    assert error.value.where.startswith(str(tmp_path))


def test_results_that_no_call_had_are_found_with_their_place(tmp_path: Path) -> None:
    ran = run(tmp_path, "return pay(**args)", "{pay: [[paid], {error: No}]}")
    other = run(tmp_path, "return args", "{pay: {error: No}}")

    assert [(finding.id, finding.what) for finding in ran.judgement.findings] == [(
        "RUN-01",
        "tool 'pay' has 1 unused result in turn 1: number 2. It was called 1 time, and each result "
        "answers one call; one result that is a list is `{returns: [...]}`.",
    )]  # fmt: skip
    assert [(finding.id, finding.what) for finding in other.judgement.findings] == [(
        "RUN-01",
        "tool 'pay' was called in turn 1 and did not ask for the result that the scenario has: "
        "what it returned is its own.",
    )]  # fmt: skip
