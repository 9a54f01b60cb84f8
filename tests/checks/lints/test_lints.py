"""The lints together: the catalogue, one pass, and a plain conversation that passes them all."""

from __future__ import annotations

from simkit.checks.lints import all_lints
from simkit.checks.lints.runner import readings_of
from simkit.spec.lint_catalogue import LINTS
from tests.checks.traces import Story, context_message, history, run_lints

AFTER_THE_RUN = {"RUN-03", "STA-06", "STA-08"}
"""Lints that speak of claims or compare runs; they are not part of the pass over one trace."""


def test_every_lint_of_the_catalogue_runs_once() -> None:
    ids = [lint.id for lint in all_lints()]

    assert len(ids) == len(set(ids))
    assert set(ids) == set(LINTS) - AFTER_THE_RUN


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


def test_every_lint_names_its_rule_and_where_it_comes_from() -> None:
    for lint in all_lints():
        text = type(lint).__doc__ or ""

        assert text.startswith(f"{lint.id}: ")
        assert readings_of(type(lint))


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
    _, hits = run_lints(conversation(20).trace, all_lints())

    assert hits == []


def test_a_lint_starts_anew_with_every_trace() -> None:
    first, second = list(all_lints()), list(all_lints())

    assert [type(lint) for lint in first] == [type(lint) for lint in second]
    assert all(item is not two for item, two in zip(first, second, strict=True))
