"""Ends of a run that no claim mentions: errors, and turns that did not run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from simkit.checks.claims import FindingBuilder
from simkit.checks.findings import Finding, Hit
from simkit.checks.lint_claims import ERRORS, Sorted
from simkit.checks.lints.facts import Facts
from simkit.core.text import counted
from simkit.spec.scenario.model import CUTS, Scenario
from simkit.trace import events as e

UNFINISHED: Final = frozenset(("ProgramEnded", "ToolMissing", "ReplyMissing", "ScriptMisfit"))
"""Errors about the scenario or a served program itself; nobody means to claim them."""


class Endings:
    """The ends of a trace's turns, and of the whole run, as the lints' pass found them."""

    def __init__(self, facts: Facts, events: Sequence[e.AnyEvent]) -> None:
        self.turns = facts.turns
        """The number of turns that began."""
        self.errors = facts.errors
        """Index of a turn to its number, and the error that ended it."""
        last = events[-1] if events else None
        self.error = last.error if isinstance(last, e.RunFinished) else None
        """The error that ended the run."""
        self.is_open = facts.turns > 0 and facts.turns not in facts.ended_turns
        """Whether the last turn did not finish."""

    @property
    def last_error(self) -> e.ErrorFacts | None:
        """Return the error that ended the last turn."""
        return self.errors.get(self.turns - 1, (0, None))[1]


def check_endings(
    scenario: Scenario, endings: Endings, hits: Sorted, builder: FindingBuilder
) -> Iterator[Finding]:
    """Yield errors that nobody claims, and turns that did not run if nothing else explains them."""
    missing = turns_left(scenario, endings)
    last = endings.turns
    tells = any(ended_by(hit, endings) for hit in hits.failing)
    for index, (number, error) in endings.errors.items():
        if _is_claimed(scenario, endings, index):
            continue
        if (ERRORS.get(error.type, ""), number) in hits.expected_hits:
            continue
        is_last = index == last - 1
        tells = tells or is_last
        yield _unclaimed(
            ("turns", index),
            f"turn {number}",
            error,
            number,
            missing if is_last else "",
            builder,
        )
    if endings.error is not None and endings.last_error is None:
        lint = ERRORS.get(endings.error.type, "")
        # An error that kept a turn from beginning belongs to that turn, which is not in the trace.
        is_expected = not hits.expected_hits.isdisjoint(((lint, last), (lint, last + 1)))
        is_claimed = scenario.expect.has("error")
        tells = tells or is_claimed or not is_expected
        if not is_expected and not is_claimed:
            yield _unclaimed(("turns",), "the run", endings.error, 0, missing, builder)
    if missing and not tells:
        yield _not_run(missing, endings, builder)
    yield from _other_turns(scenario, endings, builder)


def turns_left(scenario: Scenario, endings: Endings) -> str:
    """Return which turns did not run; empty if all did."""
    first, last = endings.turns + 1, len(scenario.turns)
    if first > last:
        return ""
    return f"turn {last} did not run" if first == last else f"turns {first} to {last} did not run"


def ended_by(hit: Hit, endings: Endings) -> bool:
    """Return whether a lint reports the error that ended the last turn, or the run."""
    error = endings.error
    return (
        error is not None
        and ERRORS.get(error.type) == hit.id
        and hit.turn - endings.turns in (0, 1)  # Or it kept the next turn from beginning.
        and "lines" not in hit.data
    )


def _is_claimed(scenario: Scenario, endings: Endings, index: int) -> bool:
    if index < len(scenario.turns):
        turn = scenario.turns[index]
        if turn.expect.has("error") or (turn.is_cut and endings.errors[index][1].type in CUTS):
            return True
    return scenario.expect.has("error") and index == endings.turns - 1


def _unclaimed(
    path: tuple[str | int, ...],
    what: str,
    error: e.ErrorFacts,
    turn: int,
    missing: str,
    builder: FindingBuilder,
) -> Finding:
    return builder.finding(
        path,
        f"{what} ended with error {error.type}: {error.message}",
        turn=turn,
        context=[missing] if missing else [],
        fix="" if error.type in UNFINISHED else f"If it is meant, claim it: `error: {error.type}`.",
    )


def _not_run(missing: str, endings: Endings, builder: FindingBuilder) -> Finding:
    number = endings.turns
    error = endings.error or endings.last_error
    why = f"turn {number} ended with error {error.type}" if error else "the trace ends before"
    fix = "Remove the turns, or judge a trace that has them."
    if error is not None:
        fix = (
            f"Claim the error in turn {number}, `error: {error.type}`: then the conversation "
            "continues. Or remove the turns."
        )
    return builder.finding(("turns", number), f"{missing}: {why}", turn=number + 1, fix=fix)


def _other_turns(
    scenario: Scenario, endings: Endings, builder: FindingBuilder
) -> Iterator[Finding]:
    """Yield findings of a stored trace only: it is cut short, or belongs to another scenario."""
    if endings.is_open:
        number = endings.turns
        yield builder.finding(
            ("turns", number - 1),
            f"turn {number} did not finish: the trace ends in it",
            turn=number,
            fix="Run the scenario again.",
        )
    if endings.turns > len(scenario.turns):
        has, expected_turns = counted(endings.turns, "turn"), len(scenario.turns)
        yield builder.finding(
            ("turns",),
            f"the trace has {has}, the scenario {expected_turns}",
            fix="Judge the trace of this scenario, or add the turns.",
        )
