"""``simkit expect``: writes a first full set of claims for turns that have none."""

from __future__ import annotations

import os

import click


@click.command(
    name="expect",
    epilog="Exit codes: 0 written, or nothing to write; 1 not written; 2 a file was broken.",
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH[::NAME]...")
@click.option("--yes", "accepts_all", is_flag=True, help="Write without asking.")
def command(paths: tuple[str, ...], accepts_all: bool) -> int:
    """Write claims for every turn that has no `expect:`, from what a run of it shows.

    Agents, reply, what each agent was sent (sections and messages, but for instructions), handoffs,
    tool calls, state. The difference comes first; on a terminal each file is asked for. Turns that
    have claims are left alone. Read what is written: it says what is, not what should be.
    """
    # Imported here because `simkit expect --help` must not load what runs scenarios.
    from simkit.cli.expect.edits import expect
    from simkit.update import refuse_in_ci

    refuse_in_ci("simkit expect", os.environ)
    return expect(paths, accepts_all)
