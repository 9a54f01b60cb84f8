"""``simkit init``: write a first project."""

from __future__ import annotations

import click


@click.command(name="init", epilog="Exit codes: 0 written, 2 something could not be.")
@click.argument("folder", metavar="[DIR]", required=False)
def command(folder: str | None) -> int:
    """Write a first project into DIR (default: here).

    The project has a pipeline, a scenario, a feature, a workflow for GitHub, and editor settings;
    all of it passes at once. Nothing is overwritten.
    """
    # Imported here because `simkit init --help` must not load the code that reads and writes files.
    from simkit.cli.init.files import started
    from simkit.core.output import echo

    for line in started(folder or "."):
        echo(line)
    echo(f"Next, in {folder}:" if folder else "Next:")
    echo("  simkit replay scenarios\n  python -m pytest scenarios features")
    return 0
