"""``simkit replay``: runs scenarios, shows what happened, and what does not hold."""

from __future__ import annotations

import click


@click.command(
    name="replay",
    epilog="Exit codes: 0 all held, 1 findings, 2 a file or script was broken (2 beats 1).",
)
@click.argument("paths", nargs=-1, metavar="[PATH[::NAME]]...")
@click.option(
    "--show", type=click.Choice(["context", "state", "events"]), default=None,
    help="Show every model call's messages, the state after each turn, or all events.",
)  # fmt: skip
@click.option("--turn", type=click.IntRange(min=1), help="Show only this turn.")
@click.option("--agent", default="", help="Show only this agent.")
@click.option("--seed", type=int, help="Run with this seed instead of the scenario's own.")
@click.option(
    "--verify", is_flag=True, help="Run everything twice, and show where two runs differ."
)
@click.option("--failed", is_flag=True, help="Run only what failed when it last ran.")
@click.option("-k", "expression", default="", help="Run only what fits: words, and, or, not, ().")
@click.option("-j", "processes", type=click.IntRange(min=1), default=1, help="Run in N processes.")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table")
@click.option("-q", "quiet", is_flag=True, help="Print only what fails, and the last line.")
def command(
    paths: tuple[str, ...],
    show: str | None,
    turn: int | None,
    agent: str,
    seed: int | None,
    verify: bool,
    failed: bool,
    expression: str,
    processes: int,
    form: str,
    quiet: bool,
) -> int:
    """Run scenarios and hold them against their claims and all lints.

    PATH is a `*.scenario.yaml` file or a folder (default: scenarios), and `PATH::NAME` one
    scenario of a file. A single scenario, or one that fails, is shown turn by turn: what each agent
    was sent (messages, tokens, and what filters dropped), what it answered, handed off and wrote.
    """
    if form == "json" and show:
        raise click.UsageError(
            "--show is for people; with --format json, read the file named under `trace`."
        )
    # Imported here because `simkit replay --help` must not load what runs scenarios.
    from simkit.cli.replaying import Call, replay

    return replay(
        Call(
            paths=paths, show=show or "", turn=turn, agent=agent, seed=seed, verify=verify,
            failed=failed, expression=expression, processes=processes, form=form, quiet=quiet,
        )
    )  # fmt: skip
