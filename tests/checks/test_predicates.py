"""The user's own predicates: true, a message, anything else, an exception, not found."""

# ruff: noqa: E501  what is found stands here as it is said

from __future__ import annotations

from simkit.core.messages import Message
from simkit.trace.views import View
from tests.checks.judging import MEALS, describe_findings, text


def two_turns(view: View) -> bool:
    """A predicate that holds."""
    return len(view.turns) == 2


def says_what_is_wrong(view: View) -> str:
    """A predicate that says what does not hold."""
    return f"there are {len(view.turns)} turns, which is not odd"


def says_nothing(_view: View) -> None:
    """A predicate that forgets to answer."""


def shows_a_message(_view: View) -> Message:
    """A predicate that answers with something else."""
    return Message("user", "Hi")


def raises(view: View) -> bool:
    """A predicate with a fault."""
    return bool(view.turns[7])


def test_a_predicate_that_returns_true_holds() -> None:
    value = describe_findings(MEALS, "satisfies: tests.checks.test_predicates:two_turns")
    both = describe_findings(MEALS, "satisfies: [tests.checks.test_predicates:two_turns]")

    assert value == ""
    assert both == ""


def test_a_predicate_may_say_what_is_wrong() -> None:
    result = describe_findings(
        MEALS,
        """
        satisfies:
          - tests.checks.test_predicates:two_turns
          - tests.checks.test_predicates:says_what_is_wrong
    """,
    )

    assert result == text("""
        claim E [turn 2]
        `tests.checks.test_predicates:says_what_is_wrong` does not hold: there are 2 turns, which is not odd
        at `tests.checks.test_predicates:says_what_is_wrong`
    """)


def test_any_other_answer_does_not_hold() -> None:
    result = describe_findings(
        MEALS,
        """
        satisfies:
          - tests.checks.test_predicates:says_nothing
          - tests.checks.test_predicates:shows_a_message
    """,
    )

    assert result == text("""
        claim E [turn 2]
        `tests.checks.test_predicates:says_nothing` does not hold: it returned nothing; a predicate returns true, or a text that says what is wrong
        at `tests.checks.test_predicates:says_nothing`

        claim E [turn 2]
        `tests.checks.test_predicates:shows_a_message` does not hold: it returned {user: "Hi"}; a predicate returns true, or a text that says what is wrong
        at `tests.checks.test_predicates:shows_a_message`
    """)


def test_a_predicate_that_raises_says_where() -> None:
    line = raises.__code__.co_firstlineno + 2

    result = describe_findings(MEALS, "satisfies: tests.checks.test_predicates:raises")

    assert result == text(f"""
        claim E [turn 2]
        `tests.checks.test_predicates:raises` does not hold: it raised IndexError: list index out of range
        at `tests.checks.test_predicates:raises`
        | raised at test_predicates.py:{line} in raises
    """)


def test_a_predicate_that_is_nowhere_breaks_the_scenario() -> None:
    result = describe_findings(
        MEALS,
        """
        satisfies: [tests.checks.test_predicates:nobody, nowhere.at_all:check]
    """,
    )

    assert result == text("""
        claim E [turn 2] (breaks)
        function `tests.checks.test_predicates:nobody`: module 'tests.checks.test_predicates' has no function 'nobody'
        at `tests.checks.test_predicates:nobody, nowhere.at_all:check]`

        claim E [turn 2] (breaks)
        function `nowhere.at_all:check`: there is no module 'nowhere'. It is looked for in the working directory and on sys.path.
        at `nowhere.at_all:check]`
    """)
