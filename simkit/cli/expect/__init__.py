"""``simkit expect``: write a first complete set of claims for turns without any."""

from __future__ import annotations

import os

import click

from simkit.cli.completion import complete_file


@click.command(
    name="expect",
    epilog="Exit codes: 0 written, or nothing to write; 1 not written; 2 a file was broken.",
)
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH[::NAME]...", shell_complete=complete_file
)
@click.option("--yes", "accepts_all", is_flag=True, help="Write without asking.")
def command(paths: tuple[str, ...], accepts_all: bool) -> int:
    """Write claims for every turn that has no `expect:`, from a run of it.

    The claims cover agents, reply, contexts (sections and messages, without instructions),
    handoffs, tool calls and state. The command shows the difference first; on a terminal it asks
    for each file. Turns with claims stay unchanged. Read the new claims: they say what is, not what
    should be.
    """
    # Imported here because `simkit expect --help` must not load the code that runs scenarios.
    from simkit.cli.expect.edits import expect
    from simkit.update import refuse_in_ci

    refuse_in_ci("simkit expect", os.environ)
    return expect(paths, accepts_all)
