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
    ("expression", "why"),
    [
        ("a and", "the end stands where a word should"),
        ("or a", "'or' stands where a word should"),
        ("a b", "'b' stands where the expression should end"),
        ("(a", "a `)` is missing"),
        ("a)", "')' stands where the expression should end"),
        ("'a", 'the quote at "\'a" is not closed'),
        (" ", "the end stands where a word should"),
    ],
)
def test_an_expression_that_cannot_be_read_says_why(expression: str, why: str) -> None:
    with pytest.raises(SimkitError) as refused:
        keyword(expression)

    assert str(refused.value) == (
        f"-k {expression!r}: {why}\n"
        "  Write words joined with `and`, `or`, `not` and brackets; quote a word with spaces."
    )
