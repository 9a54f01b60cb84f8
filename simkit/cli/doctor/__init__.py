"""``simkit doctor``: the client libraries that simkit observes here, and problems."""

from __future__ import annotations

from pathlib import Path

import click

from simkit.cli.completion import complete_file


@click.command(
    name="doctor",
    epilog="Exit codes: 0 all is well, 2 the scenario's pipeline cannot be run, or nothing of it "
    "was seen.",
)
@click.argument("scenario", metavar="[PATH[::NAME]]", default="", shell_complete=complete_file)
def command(scenario: str) -> int:
    """Show the installed client libraries, how simkit observes them, and possible problems.

    With a scenario whose pipeline is code: run its first turn, and show how many model calls simkit
    saw, of which client, and how each was attributed to its agent; or why there was none. No value
    of a secret is printed.
    """
    # Imported here because `simkit doctor --help` must not load the code that reads scenarios.
    from simkit.adapters.libraries import installed
    from simkit.adapters.modules import server_file, server_text
    from simkit.cli.doctor.checks import environment_text
    from simkit.cli.doctor.probe import first_turn
    from simkit.core.output import echo

    echo(environment_text())
    if not scenario:
        if [*installed(("langgraph",))] or server_file(Path()):
            echo(f"\n{server_text(Path())}")
        return 0
    turn = first_turn(scenario)
    echo(f"\n{turn.text}")
    return 0 if turn.is_well else 2
