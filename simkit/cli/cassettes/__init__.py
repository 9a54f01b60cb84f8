"""``simkit cassettes``: recorded interactions, unused and old cassettes, secrets."""

from __future__ import annotations

import click

from simkit.cli.completion import complete_file


@click.command(
    name="cassettes",
    epilog="Exit codes: 0 listed, 1 a secret was found (or, with --strict, an orphan or one over "
    "age), 2 a file cannot be read.",
)
@click.argument("words", nargs=-1, metavar="[scan] [PATH]...", shell_complete=complete_file)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("--strict", is_flag=True, help="Orphans and cassettes over age end with 1.")
def command(words: tuple[str, ...], form: str, strict: bool) -> int:
    """List cassettes with their interactions, size and age.

    The list has the files that scenarios below PATH (default: here) name, and those in every folder
    `cassettes` there. A file that no scenario names is an orphan; one that is older than its
    scenario's `max_age_days` is over age. `simkit cassettes scan` searches them for secrets,
    whichever tool recorded them; with a PATH, it searches all YAML and JSON files there.
    """
    # Imported here because `simkit cassettes --help` must not load what reads files.
    from simkit.cli.cassettes.listing import list_cassettes, scan_cassettes

    if words[:1] == ("scan",):
        return scan_cassettes(words[1:], form)
    return list_cassettes(words or (".",), form, strict)
