"""``simkit cassettes``: what is recorded, what nobody uses, what is old, what holds a secret."""

from __future__ import annotations

import click


@click.command(
    name="cassettes",
    epilog="Exit codes: 0 listed, 1 a secret was found (or, with --strict, an orphan or one over "
    "age), 2 a file cannot be read.",
)
@click.argument("words", nargs=-1, metavar="[scan] [PATH]...")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("--strict", is_flag=True, help="Orphans and cassettes over age end with 1.")
def command(words: tuple[str, ...], form: str, strict: bool) -> int:
    """List cassettes: what is recorded in them, how large and how old they are.

    Looks at the files that scenarios below PATH (default: here) name, and at every folder
    `cassettes` there. A file that no scenario names is an orphan; one that is older than its
    scenario's `max_age_days` is over age. `simkit cassettes scan` looks for secrets in them,
    whoever recorded them; with a PATH, in all YAML and JSON files there.
    """
    # Imported here because `simkit cassettes --help` must not load what reads files.
    from simkit.cli.cassettes.listing import list_cassettes, scan_cassettes

    if words[:1] == ("scan",):
        return scan_cassettes(words[1:], form)
    return list_cassettes(words or (".",), form, strict)
