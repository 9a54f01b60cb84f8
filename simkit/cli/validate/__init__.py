"""``simkit validate``: check files without running anything."""

from __future__ import annotations

import click

from simkit.cli.completion import complete_file


@click.command(
    name="validate",
    epilog="Exit codes: 0 nothing that keeps a file from running or contradicts it, 1 warnings "
    "and --strict, 2 errors.",
)
@click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=complete_file)
@click.option("--strict", is_flag=True, help="Warnings end with 1.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    show_default=True,
    help="text for people, json for programs, github for a pull request.",
)
def command(paths: tuple[str, ...], strict: bool, form: str) -> int:
    """Check scenario and pipeline files without running them.

    PATH is a file or a folder (default: scenarios). All files are checked; of what keeps a document
    from running, the first is printed. docs/reference/validate.md explains the codes; a document
    turns one off with a reason: `lints: {VAL-14: kept for the next release}`.
    """
    # Imported here because `simkit validate --help` must not load the code that reads files.
    from simkit import __version__
    from simkit.cli.selection import paths_or_default
    from simkit.cli.validate.output import checked
    from simkit.core.output import echo, echo_commands, echo_json
    from simkit.report.validation import github_lines, json_text, verdict

    report = checked(paths_or_default(paths))
    code = 2 if report.count("E") else int(strict and report.count("W") > 0)
    if form == "json":
        echo_json(json_text(report, __version__, code))
        return code
    if form == "github":
        echo_commands(github_lines(report))
    else:
        for problem in report.problems:
            echo(problem.text, err=True)
    echo(verdict(report))
    return code
