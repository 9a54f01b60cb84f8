"""``simkit explain``: what a finding or an error means, why it comes, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from simkit.cli.completion import complete_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simkit.spec.explanations import Explanation


@click.command(name="explain")
@click.argument("words", nargs=-1, metavar="[ID|MESSAGE]", shell_complete=complete_id)
def command(words: tuple[str, ...]) -> None:
    """Explain a finding or an error: what should hold, the usual cause, the fix.

    Takes an id (`HND-12`), a name (`context-ignored`), the type of an error (`ReplyMissing`), or a
    message as it was printed, in quotes. Without one it lists every id.
    """
    # Imported here because `simkit explain --help` must not load the catalogues.
    from simkit.core.output import echo
    from simkit.spec.explanations import explanation_of, explanations

    if not words:
        for explanation in explanations().values():
            echo(f"{explanation.title:<34} {explanation.severity or explanation.kind}")
        return
    echo("\n".join(lines_of(explanation_of(" ".join(words)))))


def lines_of(explanation: Explanation) -> Iterator[str]:
    """Yield an explanation as the terminal shows it."""
    from simkit.cli.console import fit_terminal, paint_for, wants_color
    from simkit.report.wording import wrapped

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
