from __future__ import annotations

import pytest

from simkit.cli.selection import keyword
from simkit.core.errors import SimkitError


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("late", True),
        ("LATE", True),
        ("early", False),
        ("not early", True),
        ("late and refund", True),
        ("late and early", False),
        ("early or refund", True),
        ("early or refund and night", False),
        ("(early or refund) and not night", True),
        ("not not late", True),
        ("'a late refund'", True),
        ('"late  refund"', False),
        ("x.scenario.yaml::a", True),
    ],
)
def test_words_are_looked_for_in_the_id(expression: str, holds: bool) -> None:
    assert keyword(expression)("scenarios/x.scenario.yaml::A late refund") is holds


@pytest.mark.parametrize(
    "expression", ["a and", "or a", "a b", "(a", "a)", "'a", " ", "a(b)", "()"]
)
def test_an_expression_that_cannot_be_read_says_how_one_is_written(expression: str) -> None:
    with pytest.raises(SimkitError) as refused:
        keyword(expression)

    assert str(refused.value) == (
        f"-k {expression!r}: this is no expression\n"
        "  Write words joined with `and`, `or`, `not` and brackets; quote a word with spaces."
    )
