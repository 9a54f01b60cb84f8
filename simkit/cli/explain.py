"""The text of an explanation, as ``simkit explain`` prints it."""

from __future__ import annotations

from collections.abc import Iterator

from simkit.cli.console import fit_terminal, paint_for, wants_color
from simkit.report.wording import wrapped
from simkit.spec.explanations import Explanation


def lines_of(explanation: Explanation) -> Iterator[str]:
    """Yield an explanation as the terminal shows it."""
    fit_terminal()
    paint = paint_for(wants_color())
    about = (
        explanation.severity
        or {"claim": "a claim does not hold", "error": "an error"}[explanation.kind]
    )
    yield f"{paint(explanation.title, 'warning' if about == 'warning' else 'bad')} ({about})"
    for head, text in (
        ("message", explanation.message),
        ("rule", explanation.rule),
        ("cause", explanation.cause),
        ("fix", explanation.fix),
        ("in code", explanation.fix_in_code),
    ):
        if text:
            first, *rest = wrapped(text, f"  {head:<9}")
            yield first.replace(head, paint(head, "quiet"), 1)
            yield from rest
    if explanation.can_be_turned_off:
        yield from wrapped(
            f"to keep it as it is, give a reason: `lints: {{{explanation.id}: the reason}}`",
            " " * 11,
        )
