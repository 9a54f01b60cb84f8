"""A pipeline that takes no text: what it takes is read from its types and its code."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Literal, NewType, NotRequired, TypedDict, TypeVar

import pytest
from pydantic import BaseModel

from simkit import SourceError, load, simulate
from simkit.adapters.input_shapes import (
    fields_taken,
    input_advice,
    input_advised,
    input_example,
    input_fields,
    type_advice,
)
from simkit.core.errors import SimkitError
from tests.cli.conftest import project as project
from tests.cli.conftest import simkit as simkit
from tests.cli.projects import Call, write

pytestmark = pytest.mark.usefixtures("project")


class Customer(TypedDict):
    name: str


class Request(TypedDict):
    customer: Customer
    question: str
    limit: NotRequired[int]


class Model(BaseModel):
    words: list[str]
    prompt: str
    top: int = 3


@dataclass
class Order:
    number: int
    note: str
    lines: list[str] = field(default_factory=list)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Request, '{customer: {name: name}, question: "${user}"}'),
        (Model, '{words: [], prompt: "${user}"}'),
        (Order, '{number: 1, note: "${user}"}'),
        (dict, "{}"),
        (Mapping[str, Any], "{}"),
    ],
)
def test_a_type_says_what_is_required(kind: Any, expected: str) -> None:
    assert input_example(input_fields(kind) or {}) == expected


@pytest.mark.parametrize("kind", [str, int, None, list[str], object])
def test_other_types_are_no_mapping(kind: Any) -> None:
    assert input_fields(kind) is None


def test_messages_are_what_the_user_says() -> None:
    example = input_example({"messages": {"type": "array"}, "user_info": {"type": "object"}})

    assert example == '{messages: [{role: user, content: "${user}"}], user_info: {}}'


def reads_keys(data):
    return data["question"] + data.get("customer", {})["name"] + other["key"]


other: dict[str, str] = {}


class Desk:
    def __call__(self, request: Request) -> str:
        return request["question"]

    def ask(self, text):
        return text.strip()


def takes_optional(request: Request | None = None) -> str:
    return str(request)


def takes_text_too(request: Request | str) -> str:
    return str(request)


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (reads_keys, ["question", "customer"]),
        (partial(reads_keys), ["question", "customer"]),
        (Desk(), ["customer", "question"]),
        (takes_optional, ["customer", "question"]),
        (takes_text_too, None),
        (Desk().ask, None),
        (len, None),
        (lambda text: text, None),
    ],
)
def test_a_function_says_what_it_takes(function: Any, names: list[str] | None) -> None:
    fields = fields_taken(function)

    assert (None if fields is None else [*fields]) == names


def test_what_an_error_advises_is_read_again() -> None:
    fields = {"question": {"type": "string"}, "tags": {"type": "object"}}

    advice = input_advice("desk:run", fields)

    assert advice == (
        "`desk:run` takes a mapping with `question`, `tags`, and was called with the user's "
        'message alone. Say what is in it: `app: {input: {question: "${user}", tags: {}}}`.'
    )
    assert input_advised(advice) == input_example(fields)
    assert input_advised("`app: {input: module:function}`") == ""


class Ticket(BaseModel):
    text: str
    number: int


class Client:
    """A value that no file can hold."""


@pytest.mark.parametrize(
    ("kind", "template"),
    [
        (list, '["${user}"]'),
        (list[str], '["${user}"]'),
        (Sequence[str], '["${user}"]'),
        (tuple[str, ...], '["${user}"]'),
        (set[str], '["${user}"]'),
        (list[dict[str, str]], '[{role: user, content: "${user}"}]'),
        (list[Ticket], '[{text: "${user}", number: 1}]'),
        (int, ""),
        (bytes, ""),
        (bool | None, ""),
        (Literal[1, 2], ""),
        (Client, ""),
        (int | list[str], ""),
        (Callable[[str], str], ""),
    ],
)
def test_a_type_that_is_no_text_has_advice(kind: Any, template: str) -> None:
    advice = type_advice("desk:run", kind)

    assert advice.startswith("`desk:run` takes `")
    assert advice.endswith(f"`app: {{input: {template or 'module:function'}}}`.")
    assert input_advised(advice) == template


@pytest.mark.parametrize(
    "kind",
    [
        *(None, Any, object, str, str | None, str | list[str], Literal["a"], TypeVar("T")),
        *(Annotated[str, "the message"], Hashable, NewType("Words", str), StrEnum("Way", "a b")),
    ],
)
def test_a_type_that_may_be_a_text_has_none(kind: Any) -> None:
    assert type_advice("desk:run", kind) == ""


CODE = """
from dataclasses import dataclass

import simkit
from openai import OpenAI
from pydantic import BaseModel


def keys(data):
    return data["question"].upper()


class Query(BaseModel):
    text: str
    limit: int = 3


def model(query: Query) -> str:
    return f"{query.text} {query.limit}"


@dataclass
class Order:
    number: int


def order(order: Order) -> str:
    return f"order {order.number}"


def asked(query: Query) -> str:
    messages = [{"role": "user", "content": query.text}]
    with simkit.agent("desk"):
        reply = OpenAI().chat.completions.create(model="m", messages=messages)
    return reply.choices[0].message.content


def sent(messages: list[dict[str, str]]) -> str:
    system = {"role": "system", "content": "You help."}
    reply = OpenAI().chat.completions.create(model="m", messages=[system, *messages])
    return reply.choices[0].message.content


def doubled(text):
    return {"question": text * 2}


def lines(texts: list[str]) -> str:
    texts.sort()
    return " ".join(texts)


def orders(orders: tuple[Order, ...]) -> str:
    return f"orders {[each.number for each in orders]}"


def client(client: Query | int) -> str:
    return client.text
"""


def run(app: str, turn: str) -> list[str]:
    """Return the findings of a scenario on the code above."""
    write("own_inputs.py", CODE)
    write("a.scenario.yaml", f"scenario: a\npipeline: own_inputs:{app}\nturns: [{turn}]\n")
    (scenario,) = load("a.scenario.yaml")
    return [finding.what for finding in simulate(scenario).judgement.findings]


@pytest.mark.parametrize(
    ("app", "turn"),
    [
        ('keys\napp: {input: {question: "${user}"}}', "{user: Why, expect: {reply: WHY}}"),
        ("keys\napp: {input: own_inputs:doubled}", "{user: Why, expect: {reply: WHYWHY}}"),
        ("keys", "{user: {json: {question: Why}}, expect: {reply: WHY}}"),
        ('model\napp: {input: {text: "${user}"}}', "{user: Why, expect: {reply: Why 3}}"),
        ("order", "{user: {json: {number: 7}}, expect: {reply: order 7}}"),
        ('lines\napp: {input: [b, "${user}"]}', "{user: a, expect: {reply: a b}}"),
        ("lines", "{user: {json: [b, a]}, expect: {reply: a b}}"),
        ("orders\napp: {input: [{number: 7}]}", "{user: a, expect: {reply: 'orders [7]'}}"),
    ],
)
def test_a_function_is_given_what_it_takes(app: str, turn: str) -> None:
    assert run(app, turn) == []


def test_a_function_that_fails_on_a_text_is_told_what_it_takes() -> None:
    (finding,) = run("keys", "{user: Why}")

    assert finding.endswith(
        "`own_inputs:keys` takes a mapping with `question`, and was called with the user's message "
        'alone. Say what is in it: `app: {input: {question: "${user}"}}`.'
    )


def test_a_request_with_parts_of_a_text_says_what_the_function_takes() -> None:
    with pytest.raises(SimkitError) as raised:
        run("sent", "{user: Why}")

    assert "no request that openai-chat knows: messages[1]" in str(raised.value)
    assert str(raised.value).endswith(
        "`own_inputs:sent` takes `list[dict[str, str]]`, and was called with the user's message, a "
        'text. Say what is in it: `app: {input: [{role: user, content: "${user}"}]}`.'
    )


def test_a_function_of_another_type_that_fails_on_a_text_is_told_how_to_give_it() -> None:
    (of_list,) = run("lines", "{user: Why}")
    (of_object,) = run("client", "{user: Why}")

    assert of_list.endswith(
        "`own_inputs:lines` takes `list[str]`, and was called with the user's message, a text. "
        'Say what is in it: `app: {input: ["${user}"]}`.'
    )
    assert of_object.endswith(
        "Name a function of the message that returns what it takes: "
        "`app: {input: module:function}`."
    )


@pytest.mark.parametrize(
    ("app", "turn", "place"),
    [
        ('model\napp: {input: {txt: "${user}"}}', "{user: Why}", "a.scenario.yaml:3:14: "),
        ("order", "{user: {json: {number: Why}}}", "a.scenario.yaml:3:16: "),
        ("lines\napp: {input: [{a: 1}]}", "{user: Why}", "a.scenario.yaml:3:14: "),
    ],
)
def test_an_input_that_does_not_fit_is_an_error_at_its_place(
    app: str, turn: str, place: str
) -> None:
    with pytest.raises(SourceError) as caught:
        run(app, turn)

    assert str(caught.value).startswith(place)
    assert "and the input is none: " in str(caught.value)


@pytest.mark.slow
def test_init_says_the_option_which_then_works(simkit: Call) -> None:
    write("own_inputs.py", CODE)

    done = simkit("init", "--app", "own_inputs:asked")

    option = """--option 'input={text: "${user}"}'"""
    assert (done.code, done.err.splitlines()[-1]) == (2, f"  Here: `{option}`.")
    again = simkit("init", "--app", "own_inputs:asked", "--option", 'input={text: "${user}"}')
    assert again.code == 0, again.err
    assert simkit("explore", "scenarios", "--runs", "5").code == 0


@pytest.mark.slow
def test_explore_stops_at_once_and_says_how_it_is_called(simkit: Call) -> None:
    write("own_inputs.py", CODE)

    done = simkit("explore", "own_inputs:keys")
    all_of_it = simkit("explore", "own_inputs:keys", "--exhaustive", "-j", "2")

    assert (done.code, all_of_it.code) == (1, 1)
    assert done.out.startswith("5 conversations, 5 turns, 0 model calls ")
    head, _, rest = done.out.partition("\n\n")
    assert head.endswith("ends in its first turn, before a model is asked: no more were run")
    assert rest.splitlines()[2:6] == [
        "         The pipeline cannot be called like this: it takes a mapping, not a text.",
        "         Say what is in it, and explore the scenario that this writes:",
        """           simkit init --app own_inputs:keys --option 'input={question: "${user}"}'""",
        "         simkit replay found/error.scenario.yaml",
    ]
    assert simkit("replay", "found/error.scenario.yaml").code == 1
    write("a.simulation.yaml", "simulation: a\npipeline: own_inputs:keys\n")
    of_file = simkit("explore", "a.simulation.yaml")
    assert '           app: {input: {question: "${user}"}}' in of_file.out.splitlines()
