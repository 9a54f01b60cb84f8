"""The lints together: the catalogue, one pass, and a plain conversation that passes them all."""

from __future__ import annotations

import pytest

from simkit.checks.lints.facts import REGISTERED, lint
from simkit.spec.lint_catalogue import LINTS
from simkit.trace import events as e
from tests.checks.traces import Story, context_message, history, run_lints

AFTER_THE_RUN = {"RUN-03", "RUN-09", "STA-06", "STA-08"}
"""Lints that speak of claims or compare runs; they are not part of the pass over one trace."""


@pytest.mark.parametrize("identity", sorted(set(LINTS) - AFTER_THE_RUN))
def test_every_lint_of_the_catalogue_has_a_function_that_names_its_rule(identity: str) -> None:
    rules = [
        each.function.__doc__
        for each in REGISTERED
        if each.id == identity and (each.function.__doc__ or "").startswith(f"{identity}: ")
    ]

    assert len(rules) == 1, (
        f"add a function with @lint({identity!r}, …) to a file of simkit/checks/lints, and begin "
        f"its docstring with {identity!r} and a colon"
    )


DECLARED = {
    "CTX-03", "CTX-05", "CTX-06", "HND-01", "HND-11", "STA-10", "FLW-02", "FLW-08"
}  # fmt: skip
"""Lints of what only a file declares: contracts, edges, `requires`; code gives them no cause."""
WORDS_OF_FILES = ("recipe", "section", "window", "filter `", "contract", "`task`", "`writes`",
                  "${", "{$", "_ai`", "tool_messages")  # fmt: skip


def test_no_hint_for_code_speaks_of_what_only_files_have() -> None:
    hints = {name: lint.advice(is_code=True) for name, lint in LINTS.items()}

    results = {
        name for name, hint in hints.items() if any(word in hint for word in WORDS_OF_FILES)
    }  # fmt: skip

    assert results <= DECLARED


def test_a_hint_for_code_is_another_than_that_for_files_where_there_is_one() -> None:
    own = {name: lint for name, lint in LINTS.items() if lint.fix_in_code}

    assert all(lint.advice(is_code=True) != lint.advice(is_code=False) for lint in own.values())
    assert all(lint.advice(is_code=False) == lint.fix for lint in LINTS.values())
    assert DECLARED.isdisjoint(own)


def test_a_lint_that_the_catalogue_does_not_have_is_refused() -> None:
    with pytest.raises(LookupError, match=r"XYZ-01 is not in simkit/spec/lints.yaml"):
        lint("XYZ-01", e.TurnStarted)


def test_a_condition_that_facts_do_not_have_is_refused() -> None:
    with pytest.raises(LookupError, match="RUN-01 waits for 'is_blue', which is no attribute of"):
        lint("RUN-01", e.TurnStarted, when="is_blue")


def test_hits_at_one_event_are_in_the_order_of_the_catalogue() -> None:
    """Lints that share a condition are asked together, and CTX-12 waits for another one."""
    story = Story(["a"])
    message = story.turn("Hello", agent="a")
    twice = context_message("input", "Hello", role="user", of=message, turn=1)
    story.call(story.instructions(), twice, twice, context_message("notes", "", role="user"))

    _, hits = run_lints(story.trace)

    assert [hit.id for hit in hits] == ["CTX-12", "CTX-16"]


def conversation(turns: int) -> Story:
    """Every turn the user asks, a router chooses, and an agent answers."""
    story = Story(["router", "a"], decider="router", starts=("router",))
    numbers: list[int] = []
    for number in range(1, turns + 1):
        turn = story.turn(f"question {number}")
        current = context_message(
            "current_message", f"question {number}", role="user", of=turn, turn=number
        )
        story.start("router")
        story.call(story.instructions(), history("s1/router/history", numbers), current)
        story.says("a")
        story.route("a")
        story.finish()
        story.start("a")
        story.call(story.instructions(), history("s1/a/history", numbers), current)
        reply = story.says(f"answer {number}")
        story.finish(messages=[{"$message": reply}])
        story.end()
        numbers = [turn, reply]
    return story


def test_a_plain_conversation_passes_all_lints() -> None:
    _, hits = run_lints(conversation(20).trace)

    assert hits == []
