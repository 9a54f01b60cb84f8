"""The commands that explain: `doctor`, `explain` and `bdd steps`."""

from __future__ import annotations

from pathlib import Path

import click

from simkit.cli.commands.group import cli
from simkit.cli.commands.options import complete_file, complete_id


@cli.command(
    name="doctor",
    short_help="Say which client libraries are here, and what of them is seen.",
    epilog="Exit codes: 0 all is well, 2 the scenario's pipeline cannot be run, or nothing of it "
    "was seen.",
)
@click.argument("scenario", metavar="[PATH[::NAME]]", default="", shell_complete=complete_file)
def doctor_command(scenario: str) -> int:
    """Show the installed client libraries, how simkit observes them, and possible problems.

    With a scenario whose pipeline is code: run its first turn, and show how many model calls simkit
    saw, of which client, and how each was attributed to its agent; or why there was none. No value
    of a secret is printed.
    """
    from simkit.adapters.libraries import installed
    from simkit.adapters.modules import server_file, server_text
    from simkit.cli.doctor import environment_text, first_turn
    from simkit.core.output import echo

    echo(environment_text())
    if not scenario:
        if [*installed(("langgraph",))] or server_file(Path()):
            echo(f"\n{server_text(Path())}")
        return 0
    turn = first_turn(scenario)
    echo(f"\n{turn.text}")
    return 0 if turn.is_well else 2


@cli.command(
    name="explain",
    short_help="Explain a finding or an error by its id: cause and fix.",
)
@click.argument("words", nargs=-1, metavar="[ID|MESSAGE]", shell_complete=complete_id)
def explain_command(words: tuple[str, ...]) -> None:
    """Explain a finding or an error: what should hold, the usual cause, the fix.

    Takes an id (`HND-12`), a name (`context-ignored`), the type of an error (`ReplyMissing`), or a
    message as it was printed, in quotes. Without one it lists every id.
    """
    from simkit.cli.console import explanation_lines
    from simkit.core.output import echo
    from simkit.spec.explanations import explanation_of, explanations

    if not words:
        for explanation in explanations().values():
            echo(f"{explanation.title:<34} {explanation.severity or explanation.kind}")
        return
    echo("\n".join(explanation_lines(explanation_of(" ".join(words)))))


@cli.group(
    name="bdd",
    short_help="List what the lines of a feature file may say.",
    invoke_without_command=False,
)
def bdd_command() -> None:
    """Feature files: what their lines may say."""


@bdd_command.command(name="steps")
@click.argument("word", required=False, default="")
def steps(word: str) -> int:
    """List the steps, each with an example; with a WORD, those that have it.

    Exit codes: 0 listed, 1 no step has the word.
    """
    from simkit.bdd.vocabulary import listed_steps
    from simkit.core.output import echo

    lines = list(listed_steps(word))
    if not lines:
        echo(f"no step has the word `{word}`", err=True)
        return 1
    for line in lines:
        echo(line)
    return 0
