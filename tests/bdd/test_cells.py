"""Tables and words of a feature as values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.bdd.cells import (
    TableInvalid,
    items_of,
    messages_of,
    pairs_of,
    records_of,
    texts_in_quotes,
    typed,
)
from simkit.bdd.vocabulary import VOCABULARIES


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("800", 800), ("-0.5", -0.5), ("true", True), ("null", None), ("pizza", "pizza"),
        ('"007"', "007"), (r'"a \"b\" \\"', 'a "b" \\'), ('["a", 1]', ["a", 1]),
        ('{"a": 1}', {"a": 1}), ("[up, 2]", ["up", 2]),
        ("{a: [b]}", {"a": ["b"]}), ("[up", "[up"), ('"[up]"', "[up]"),
        ("", ""), ("1.2.3", "1.2.3"),
    ],
)  # fmt: skip
def test_a_cell_is_typed(cell: str, value: object) -> None:
    assert typed(cell) == value


def test_what_looks_like_a_list_and_is_none_is_refused() -> None:
    with pytest.raises(TableInvalid, match="begins like a list and is none"):
        typed("[a: b: c]")


def test_dotted_names_lead_deeper_and_quoted_ones_do_not() -> None:
    table = [["order.total", "5"], ["order.items", "[a, b]"], ['"x.y"', "1"], ["z[0].a", "2"]]

    assert pairs_of(table) == {
        "order": {"total": 5, "items": ["a", "b"]}, "x.y": 1, "z[0].a": 2,
    }  # fmt: skip
    assert records_of([["agent", "order.total"], ["clerk", "5"], ["head", ""]]) == [
        {"agent": "clerk", "order": {"total": 5}},
        {"agent": "head"},
    ]
    with pytest.raises(TableInvalid, match="the row `a` twice"):
        pairs_of([["a.b", "1"], ["a", "2"]])


def test_pairs_may_lead_deeper() -> None:
    table = [["document", "name", "journal"], ["document", "pages", "8"], ["source", "Ada", ""]]

    assert pairs_of(table) == {"document": {"name": "journal", "pages": 8}, "source": "Ada"}
    assert pairs_of([["name", ""]]) == {"name": ""}


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ([["a", "1"], ["a", "2"]], "the row `a` twice"),
        ([["a", "1", ""], ["a", "b", "2"]], "the row `a b` twice"),
        ([["a"]], "a name and a value"),
        ([["", "1"]], "a name and a value"),
        ([["a", "", "1"]], "a name and a value"),
    ],
)
def test_pairs_of_another_form_are_refused(table: list[list[str]], why: str) -> None:
    with pytest.raises(TableInvalid, match=why):
        pairs_of(table)


def test_records_have_a_headline_and_empty_cells_say_nothing() -> None:
    table = [["agent", "text"], ["clerk", "Hello"], ["", "Bye"]]

    assert records_of(table) == [{"agent": "clerk", "text": "Hello"}, {"text": "Bye"}]


def test_a_table_whose_first_column_holds_only_roles_is_messages() -> None:
    items = [["user", "Hello"], ["assistant", "Good day."]]

    assert items_of(items) == [{"user": "Hello"}, {"assistant": "Good day."}]
    assert messages_of(items) == items_of(items)
    assert messages_of([["role", "agent"], ["user", "Ada"]]) == [{"role": "user", "agent": "Ada"}]
    with pytest.raises(TableInvalid, match=r"a role \(user, assistant, system, developer, tool\)"):
        messages_of([["user", "Hello"], ["bot", "Good day."]])


# Not beside tests with a `pytester`: it takes away what Hypothesis imports of numpy.
@pytest.mark.slow
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20))
def test_any_cell_between_quotes_is_one_text(cell: str) -> None:
    when = VOCABULARIES[1]

    line = when.line(texts_in_quotes('the user says "<what>" in session "s"', {"what": cell}))

    assert line is not None
    # A quote or backslash that the cell escapes itself counts once, as elsewhere in features.
    assert line.holes["text"] == typed(f'"{cell}"')
    assert line.holes["session"] == "s"


def test_a_misspelt_role_is_named_with_the_nearest() -> None:
    with pytest.raises(TableInvalid, match=r"^unknown role `sytem`: did you mean `system`[?]$"):
        messages_of([["sytem", "Refund."], ["user", "Hi"]])
