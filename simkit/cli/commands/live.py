"""The command that runs scenarios with real models: `live`."""

from __future__ import annotations

from typing import Any

import click

from simkit.cli.commands import options as arg


@arg.cli.command(
    name="live",
    short_help="Run scenarios with real models, many times; say how often each claim holds.",
    epilog="Exit codes: 0 every scenario passed as often as --fail-under says, 1 one did not, "
    "2 nothing could be run: a file, a key or a price is missing or wrong.",
)
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH[::NAME]...", shell_complete=arg.complete_file
)
@click.option("--runs", type=arg.WholeNumber(min=1), default=10, help="Run each so many times.")
@arg.processes_option("Make N runs at the same time.")
@click.option(
    "--budget-usd",
    type=arg.FiniteNumber(min=0, min_open=True),
    metavar="USD",
    help="Start no run that could exceed this. It needs prices of all models.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=arg.FiniteNumber(min=0, min_open=True),
    default=600.0,
    metavar="SECONDS",
    help="End with an error if a run takes longer; 600 without it.",
)
@arg.word_option(
    "--prices",
    "FILE",
    "A file of prices of models; without it `prices.yaml` here, if there is one.",
)
@click.option(
    "--from",
    "first_turn",
    type=arg.WholeNumber(min=1),
    default=1,
    metavar="TURN",
    help="Replay the turns before this one, and ask real models from it on.",
)
@arg.flag("--all-claims", "Judge claims that only the script can keep, too.")
@click.option(
    "--k",
    type=arg.WholeNumber(min=1),
    help="The k of pass@k (one run holds) and pass^k (all hold): 3, or --runs if that is less.",
)
@click.option(
    "--fail-under",
    type=arg.FiniteNumber(0, 100),
    default=100.0,
    metavar="PERCENT",
    help="End with 1 if a scenario holds in a smaller share of its runs; 100 without it.",
)
@click.option("--to", "folder", default="live", metavar="DIR", help="Keep failed runs here.")
@arg.FITTING
@arg.form_option("text", "json")
@arg.flag("--force", "Run although CI is set.")
def live_command(**options: Any) -> int:
    """Run scenarios with real models in place of their reply lines, and count what holds.

    This sends requests with your key, and costs money. Code asks its models itself; for a declared
    pipeline simkit asks those under its `models:`. The same claims are judged in every run, without
    those that only the script can keep, which are listed. For each claim there is the rate, its
    interval, pass@k and pass^k. A failed run is kept as a scenario with a cassette, which replays
    it offline.
    """
    from simkit.cli.live import LiveOptions, live

    return live(LiveOptions(**options))
