"""Texts of failures: the rule, the application, the observations, the advice."""

from __future__ import annotations

from collections.abc import Iterator

from simkit.checks.judge import Outcome
from simkit.report.events import event_lines
from simkit.report.text import findings_text
from simkit.report.wording import wrapped
from simkit.testing.rules import APPLICATIONS, ConformanceRule
from simkit.trace import events as e

_HEAD = (e.RunStarted, e.SessionStarted, e.RunFinished)
"""Events that every trace has, whatever an adapter reports."""


def broken_text(adapter: str, entry: str, rule: ConformanceRule, outcome: Outcome | str) -> str:
    """Return the text of a broken rule; ``outcome`` is its run, or why it could not continue."""
    return "\n".join(
        (
            f"the adapter {adapter!r} breaks the rule `{rule.rule}` (docs/how-to/adapters.md):",
            *wrapped(rule.says, "  "),
            *wrapped(f"`{entry}` is to be this: {APPLICATIONS[rule.app]}", "  "),
            "",
            *_outcome_lines(outcome),
            "",
            *wrapped(rule.fix, "  → ", "    "),
        )
    )


def proves_nothing_text(adapter: str, entry: str, rule: ConformanceRule) -> str:
    """Return the text of a rule that holds although nothing was reported."""
    return "\n".join(
        (
            f"the rule `{rule.rule}` holds for `{entry}` with the adapter {adapter!r} silenced:",
            *wrapped(
                "the application shows all of it by itself, so that the rule proves nothing. "
                f"It is to be this: {APPLICATIONS[rule.app]}",
                "  ",
            ),
        )
    )


def missing_text(applications: str, name: str) -> str:
    """Return the text of a missing application."""
    return "\n".join(
        (
            f"{applications!r} has no application `{name}`, which is to be this:",
            *wrapped(f"{APPLICATIONS[name]} An agent's instructions are `You are <name>.`", "  "),
            *wrapped(
                "Where the framework cannot do that, say why: "
                f'`not_supported = {{"{name}": "…"}}`.',
                "  → ",
                "    ",
            ),
        )
    )


def _outcome_lines(outcome: Outcome | str) -> Iterator[str]:
    if isinstance(outcome, str):
        yield "the run could not go on:"
        yield from (f"  {line}" for line in outcome.splitlines())
        return
    yield findings_text(outcome.judgement.findings)
    yield ""
    yield "the trace holds:"
    events = [event for event in outcome.trace.events if not isinstance(event, _HEAD)]
    yield from event_lines(events)
