"""``simkit validate``: checks files, and runs nothing."""

from __future__ import annotations

import click

from simkit.words import counted


@click.command(name="validate", epilog="Exit codes: 0 all fine, 2 at least one is not.")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
def command(paths: tuple[str, ...]) -> int:
    """Check scenario and pipeline files without running them.

    PATH is a file or a folder (default: scenarios). All files are checked; of each document the
    first problem is printed.
    """
    # Imported here because `simkit validate --help` must not load what reads files.
    from simkit.cli.selection import paths_or_default
    from simkit.cli.validating import checked

    report = checked(paths_or_default(paths))
    for problem in report.problems:
        click.echo(problem, err=True)
    numbers = f"{counted(report.files, 'file')}, {counted(report.scenarios, 'scenario')}"
    verdict = counted(len(report.problems), "problem") if report.problems else "fine"
    click.echo(f"{numbers}: {verdict}")
    return 2 if report.problems else 0
