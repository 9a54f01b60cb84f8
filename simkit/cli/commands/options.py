"""Arguments and options that several commands have, and what the shell completes."""

from __future__ import annotations

import math
from typing import Any, Final

import click
from click.shell_completion import CompletionItem


class FiniteNumber(click.FloatRange):
    """A finite number: click lets ``nan`` pass, which is neither below nor above any limit."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no number.", param, ctx)
        return number


def complete_file(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Let the shell complete the names of files and folders."""
    return [CompletionItem(incomplete, type="file")]


def complete_id(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the ids that `simkit explain` knows, in any case."""
    from simkit.spec.explanations import explanations

    return [
        CompletionItem(entry.id, help=entry.name or None)
        for entry in explanations().values()
        if entry.id.lower().startswith(incomplete.lower())
    ]


SHOW: Final = click.option(
    "--show",
    type=click.Choice(["context", "state", "events"]),
    default=None,
    help="Show every model call's messages, the state after each turn, or all events.",
)


QUIET: Final = click.option(
    "-q", "quiet", is_flag=True, help="Print only what fails, and the last line."
)


FITTING: Final = click.option(
    "-k", "expression", default="", help="Run only what fits: words, and, or, not, ()."
)


BASE: Final = click.option(
    "--base",
    default="",
    metavar="DIR",
    help="Compare with the traces of this folder, such as those of the base branch.",
)


STRICT: Final = click.option(
    "--strict",
    is_flag=True,
    help="Claims that were not looked at, or that nothing could break (RUN-03), end with 1.",
)


FAIL_UNDER: Final = click.option(
    "--fail-under",
    type=FiniteNumber(0, 100),
    default=0.0,
    metavar="PERCENT",
    help="End with 1 if the share is smaller.",
)


PATHS: Final = click.argument(
    "paths", nargs=-1, metavar="[PATH[::NAME]]...", shell_complete=complete_file
)
