"""Ends of a run that no claim mentions: errors, and turns that did not run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from simkit.checks.claims import Writer
from simkit.checks.findings import Finding, Hit
from simkit.checks.lint_claims import ERRORS, Sorted
from simkit.core.text import counted
from simkit.spec.scenario.model import Scenario
from simkit.trace import events as e
from simkit.trace.views import View

UNFINISHED: Final = frozenset(("ProgramEnded", "ToolMissing", "ReplyMissing", "ScriptMisfit"))
"""Errors about the scenario or a served program itself; nobody means to claim them."""


def check_endings(
    scenario: Scenario, view: View, hits: Sorted, writer: Writer
) -> Iterator[Finding]:
    """Yield errors that nobody claims, and turns that did not run if nothing else explains them."""
    left = turns_left(scenario, view)
    last = len(view.turns)
    tells = any(ended_by(hit, view) for hit in hits.failing)
    for place, turn in enumerate(view.turns):
        if turn.error is None or _is_claimed(scenario, view, place):
            continue
        if (ERRORS.get(turn.error.type, ""), turn.number) in hits.expected_hits:
            continue
        is_last = place == last - 1
        tells = tells or is_last
        yield _unclaimed(
            ("turns", place),
            f"turn {turn.number}",
            turn.error,
            turn.number,
            left if is_last else "",
            writer,
        )
    if view.error is not None and (not last or view.turns[-1].error is None):
        lint = ERRORS.get(view.error.type, "")
        # An error that kept a turn from beginning belongs to that turn, which is not in the trace.
        is_expected = (lint, last) in hits.expected_hits or (lint, last + 1) in hits.expected_hits
        is_claimed = scenario.expect.has("error")
        tells = tells or is_claimed or not is_expected
        if not is_expected and not is_claimed:
            yield _unclaimed(("turns",), "the run", view.error, 0, left, writer)
    if left and not tells:
        yield _not_run(left, view, writer)
    yield from _other_turns(scenario, view, writer)


def turns_left(scenario: Scenario, view: View) -> str:
    """Return which turns did not run; empty if all did."""
    first, last = len(view.turns) + 1, len(scenario.turns)
    if first > last:
        return ""
    return f"turn {last} did not run" if first == last else f"turns {first} to {last} did not run"


def ended_by(hit: Hit, view: View) -> bool:
    """Return whether a lint reports the error that ended the last turn, or the run."""
    error = view.error
    return (
        error is not None
        and ERRORS.get(error.type) == hit.id
        and hit.turn - len(view.turns) in (0, 1)  # Or it kept the next turn from beginning.
        and "lines" not in hit.data
    )


def _is_claimed(scenario: Scenario, view: View, place: int) -> bool:
    if place < len(scenario.turns) and scenario.turns[place].expect.has("error"):
        return True
    return scenario.expect.has("error") and place == len(view.turns) - 1


def _unclaimed(
    path: tuple[str | int, ...],
    what: str,
    error: e.ErrorFacts,
    turn: int,
    left: str,
    writer: Writer,
) -> Finding:
    return writer.finding(
        path,
        f"{what} ended with error {error.type}: {error.message}",
        turn=turn,
        context=[left] if left else [],
        fix="" if error.type in UNFINISHED else f"If it is meant, claim it: `error: {error.type}`.",
    )


def _not_run(left: str, view: View, writer: Writer) -> Finding:
    number = len(view.turns)
    error = view.error or (view.turns[-1].error if view.turns else None)
    why = f"turn {number} ended with error {error.type}" if error else "the trace ends before"
    fix = "Remove the turns, or judge a trace that has them."
    if error is not None:
        fix = (
            f"Claim the error in turn {number}, `error: {error.type}`: then the conversation "
            "continues. Or remove the turns."
        )
    return writer.finding(("turns", number), f"{left}: {why}", turn=number + 1, fix=fix)


def _other_turns(scenario: Scenario, view: View, writer: Writer) -> Iterator[Finding]:
    """Yield findings of a stored trace only: it is cut short, or belongs to another scenario."""
    if view.turns and not view.turns[-1].finished:
        number = len(view.turns)
        yield writer.finding(
            ("turns", number - 1),
            f"turn {number} did not finish: the trace ends in it",
            turn=number,
            fix="Run the scenario again.",
        )
    if len(view.turns) > len(scenario.turns):
        has, expected_turns = counted(len(view.turns), "turn"), len(scenario.turns)
        yield writer.finding(
            ("turns",),
            f"the trace has {has}, the scenario {expected_turns}",
            fix="Judge the trace of this scenario, or add the turns.",
        )
