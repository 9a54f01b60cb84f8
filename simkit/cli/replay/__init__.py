"""``simkit replay``: run scenarios, and show what happened and which claims fail."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from simkit.cli.completion import complete_file


@click.command(
    name="replay",
    epilog="Exit codes: 0 all held, 1 findings, 2 a file or script was broken (2 beats 1).",
)
@click.argument("paths", nargs=-1, metavar="[PATH[::NAME]]...", shell_complete=complete_file)
@click.option(
    "--show",
    type=click.Choice(["context", "state", "events"]),
    default=None,
    help="Show every model call's messages, the state after each turn, or all events.",
)
@click.option("--turn", type=click.IntRange(min=1), help="Show only this turn.")
@click.option("--agent", default="", help="Show only this agent.")
@click.option("--seed", type=int, help="Run with this seed instead of the scenario's own.")
@click.option(
    "--verify", is_flag=True, help="Run everything twice, and show where two runs differ."
)
@click.option("--failed", is_flag=True, help="Run only what failed when it last ran.")
@click.option("-k", "expression", default="", help="Run only what fits: words, and, or, not, ().")
@click.option("-j", "processes", type=click.IntRange(min=1), default=1, help="Run in N processes.")
@click.option("--format", "form", type=click.Choice(["table", "json", "github"]), default="table")
@click.option("-q", "quiet", is_flag=True, help="Print only what fails, and the last line.")
@click.option(
    "--base",
    default="",
    metavar="DIR",
    help="Compare with the traces of this folder, such as those of the base branch.",
)
@click.option(
    "--needs-met",
    is_flag=True,
    help="A scenario is broken, not skipped, if what it needs is not installed.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Claims that were not looked at, or that nothing could break (RUN-03), end with 1.",
)
@click.option(
    "--pipeline",
    default="",
    metavar="NAME",
    help="Run on this pipeline instead: a name, a file, or module:function.",
)
@click.option("--watch", is_flag=True, help="Run again what a changed file belongs to.")
@click.option("--update", is_flag=True, help="Change failing claims into what was found.")
@click.option("--yes", "accepts_all", is_flag=True, help="With --update: write without asking.")
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
    base: str,
    needs_met: bool,
    strict: bool,
    pipeline: str,
    watch: bool,
    update: bool,
    accepts_all: bool,
) -> int:
    """Run scenarios, and check their claims and all lints.

    PATH is a `*.scenario.yaml` file or a folder (default: pytest's `testpaths`, else scenarios),
    and `PATH::NAME` one scenario of a file. A single scenario, or one that fails, is shown turn by
    turn: what each agent was sent (messages, tokens, and what filters dropped), what it answered,
    handed off and wrote.
    """
    if form == "json" and show:
        raise click.UsageError(
            "--show is for people; with --format json, read the file named under `trace`."
        )
    if form == "json" and base:
        raise click.UsageError("--base is not for --format json; see `simkit diff --base DIR`.")
    others = {
        "--verify": verify,
        "--failed": failed,
        "--update": update,
        "--base": bool(base),
        "--pipeline": bool(pipeline),
    }
    if pipeline and (verify or update):
        raise click.UsageError("--pipeline goes with neither --verify nor --update.")
    _check_watch(watch, form, [option for option, is_given in others.items() if is_given])
    _check_update(update, accepts_all, form, seed)
    # Imported here because `simkit replay --help` must not load the code that runs scenarios.
    from simkit.cli.replay.output import ReplayOptions, replay

    call = ReplayOptions(
        paths=paths,
        show=show or "",
        turn=turn,
        agent=agent,
        seed=seed,
        verify=verify,
        failed=failed,
        expression=expression,
        processes=processes,
        form=form,
        quiet=quiet,
        update=update,
        accepts_all=accepts_all,
        base=base,
        needs_met=needs_met,
        strict=strict,
        pipeline=pipeline,
    )
    if not watch:
        return replay(call)
    from simkit.cli.replay.watching import watch as run_again

    return run_again(call)


def _check_watch(watch: bool, form: str, others: Sequence[str]) -> None:
    """Raise UsageError for options that do not work with ``--watch``."""
    if watch and (others or form != "table"):
        wrong = [*others, *([f"--format {form}"] if form != "table" else [])]
        raise click.UsageError(f"--watch is for people, at work on files; leave out {wrong[0]}.")


def _check_update(update: bool, accepts_all: bool, form: str, seed: int | None) -> None:
    """Raise UsageError, and SimkitError in CI, where no file may be changed."""
    if accepts_all and not update:
        raise click.UsageError("--yes says that --update may write, and there is no --update.")
    if not update:
        return
    if form != "table":
        why = "--update shows a difference, for people"
        raise click.UsageError(f"{why}; leave out --format {form}.")
    if seed is not None:
        raise click.UsageError("--update writes what the scenarios' own seeds give, not --seed.")
    # Imported here because `simkit replay --help` must not load the code that changes scenarios.
    from simkit.update.files import refuse_in_ci

    refuse_in_ci("simkit replay --update", os.environ)
