from __future__ import annotations

from collections import UserDict
from typing import Any

import pytest

from simkit.core.errors import ReferenceInvalid
from simkit.core.messages import ABSENT, Message
from simkit.language.paths import as_text, compile, lookup, references_in
from simkit.language.yaml.parsing import NESTING_MAX

MESSAGE = Message("assistant", "Logged.", "m2", "nutrition")
ROOT: dict[str, Any] = {
    "agent": "nutrition",
    "run": {"output": {"kcal": 800, "ok": True}, "final_message": MESSAGE, "took_ms": 12},
    "state": {"items": [1, 2], "a.b": "dotted", "empty": None},
}


def resolved(value: Any) -> Any:
    return compile(value).resolve(ROOT)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${run.output}", {"kcal": 800, "ok": True}),
        ("${run.took_ms}", 12),
        ("${ run.took_ms }", 12),
        ("${state.items[-1]}", 2),
        ("${state.a.b}", "dotted"),
        ('${state["a.b"]}', "dotted"),
        ("${run.final_message}", MESSAGE),
        ("${state.empty}", None),
        ("${state.missing.deeper}", None),
        ("${unknown}", None),
    ],
)
def test_reference_alone_keeps_its_type(text: str, value: Any) -> None:
    assert resolved(text) == value


@pytest.mark.parametrize("path", ["a", "a.b", "a.b.c"])
@pytest.mark.parametrize("inner", [{"b": 1}, {"b": None}, {"b": {"c": 2}}, {}, UserDict(b=1),
                                   MESSAGE, [1], "text", None])  # fmt: skip
@pytest.mark.parametrize("outer", [dict, UserDict])
@pytest.mark.parametrize("dotted", [{}, {"a.b": 2}, {"a.b": None}, {"a.b.c": 3}])
def test_a_reference_reads_what_its_path_names(
    path: str, inner: Any, outer: Any, dotted: dict[str, Any]
) -> None:
    for root in (outer({"a": inner, **dotted}), outer(dotted)):
        value = lookup(root, path)

        assert compile(f"${{{path}}}").resolve(root) == (None if value is ABSENT else value)
        assert compile(f"It is ${{{path}}}").resolve(root) == f"It is {as_text(value)}"
        assert compile({f"${{{path}}}": 1}).resolve(root) == {as_text(value): 1}


def test_reference_alone_is_the_very_value() -> None:
    assert resolved("${run.output}") is ROOT["run"]["output"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${agent}_output", "nutrition_output"),
        ("took ${run.took_ms} ms", "took 12 ms"),
        ("${agent}${agent}", "nutritionnutrition"),
        ("got ${run.output}", 'got {"kcal": 800, "ok": true}'),
        ("items: ${state.items}", "items: [1, 2]"),
        ("said ${run.final_message}", "said Logged."),
        ("none: ${state.empty}, ${unknown}", "none: null, null"),
        ("literal $${agent}", "literal ${agent}"),
        ("$${agent} is ${agent}", "${agent} is nutrition"),
        ("costs $5 and {x}", "costs $5 and {x}"),
        ('${state["a}b"]}!', "null!"),
    ],
)
def test_reference_within_text_becomes_text(text: str, value: str) -> None:
    assert resolved(text) == value


def test_references_are_resolved_in_keys_and_at_any_depth_and_order_is_kept() -> None:
    template = compile(
        {
            "first": "${agent}",
            "${agent}_output": ["x", "${run.took_ms}", {"deep": "${run.output.kcal}"}],
            "last": {"constant": [1]},
        }
    )

    result = template.resolve(ROOT)

    assert list(result.items()) == [
        ("first", "nutrition"),
        ("nutrition_output", ["x", 12, {"deep": 800}]),
        ("last", {"constant": [1]}),
    ]


def test_mapping_with_plain_keys_keeps_its_order_too() -> None:
    result = resolved({"a": "${agent}", "b": 1, "$${c}": "${run.took_ms}"})

    assert list(result.items()) == [("a", "nutrition"), ("b", 1), ("${c}", 12)]


def test_each_resolving_makes_a_new_value_and_shares_only_what_is_constant() -> None:
    constant = {"x": [1]}
    template = compile([constant, "${agent}"])

    value, other = template.resolve(ROOT), template.resolve({"agent": "router"})

    assert value == [{"x": [1]}, "nutrition"]
    assert other == [{"x": [1]}, "router"]
    assert value[0] is constant


def test_value_without_references_is_constant_and_returned_as_it_is() -> None:
    value = {"a": [1, "text", None, True, 1.5]}
    template = compile(value)

    assert template.is_constant
    assert template.roots == frozenset()
    assert template.resolve(ROOT) is value


def test_constant_with_an_escape_is_read_once() -> None:
    template = compile({"a": ["$${x}"]})

    assert template.is_constant
    assert template.resolve({}) == {"a": ["${x}"]}


def test_roots_are_the_first_words() -> None:
    template = compile({"${agent}": ["${state.x} and ${run.output.y}", "${state}"]})

    assert template.roots == {"agent", "state", "run"}
    assert not template.is_constant


def test_references_are_listed_with_the_place_of_their_text() -> None:
    value = {"${agent}": 1, "list": ["no", "${a.b} and ${c}"], "lit": "$${d}"}

    assert references_in(value) == [
        (("${agent}",), "agent"),
        (("list", 1), "a.b"),
        (("list", 1), "c"),
    ]


def test_reference_without_an_end_is_refused_with_its_place() -> None:
    with pytest.raises(ReferenceInvalid) as error:
        compile({"a": ["x", "hello ${agent"]})

    assert error.value.args == (
        "a reference in `hello ${agent` has no end: write `${path}`, "
        "or `$${` for the two characters themselves",
        ("a", 1),
    )


def test_reference_that_is_no_path_is_refused_with_its_place() -> None:
    with pytest.raises(ReferenceInvalid) as error:
        compile({"a": "${}"})

    assert error.value.args == (
        "the path `` has no key where one should stand; "
        "keys are joined by single dots: `state.count`",
        ("a",),
    )


def test_references_resolve_at_the_greatest_depth_of_a_file() -> None:
    value: Any = "${agent}"
    for _ in range(NESTING_MAX // 2):
        value = [{"${agent}": value}]

    inner = resolved(value)
    for _ in range(NESTING_MAX // 2):
        inner = inner[0]["nutrition"]

    assert inner == "nutrition"
