"""``simkit bdd``: the lines that a feature file may have."""

from __future__ import annotations

import click


@click.group(name="bdd", invoke_without_command=False)
def command() -> None:
    """Feature files: what their lines may say."""


@command.command(name="steps")
@click.argument("word", required=False, default="")
def steps(word: str) -> int:
    """List the steps, each with an example; with a WORD, those that have it.

    Exit codes: 0 listed, 1 no step has the word.
    """
    # Imported here because `simkit bdd --help` must not load pytest-bdd.
    from simkit.bdd.vocabulary import listed_steps
    from simkit.core.output import echo

    lines = list(listed_steps(word))
    if not lines:
        echo(f"no step has the word `{word}`", err=True)
        return 1
    for line in lines:
        echo(line)
    return 0
