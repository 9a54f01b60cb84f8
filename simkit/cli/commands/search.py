"""The commands that search for what no scenario shows: `explore`, `coverage` and `mutate`."""

from __future__ import annotations

from typing import Any, Final

import click

from simkit.cli.commands import options as arg
from simkit.core.gc_pause import imports_frozen

RUNS_LIMIT, TURNS_LIMIT = 1_000_000_000, 8_000
"""Those of `simkit.explore.campaigns`, which `--help` must not load."""


PROFILE_NAMES: Final = ("overload", "chaos", "models", "users", "races", "restarts", "long")
"""The names of `simkit.explore.subjects.PROFILES`, which `--help` must not load."""


@arg.cli.command(
    name="explore",
    short_help="Search for conversations that break a rule; write scenarios.",
    epilog="Exit codes: 0 nothing found, 1 something found, 2 the pipeline cannot be run.",
)
@click.argument("subject", metavar="PATH[::NAME]|MODULE:NAME", shell_complete=arg.complete_file)
@click.option(
    "--runs", type=arg.WholeNumber(1, RUNS_LIMIT), default=300, help="Draw so many conversations."
)
@click.option(
    "--turns",
    type=arg.WholeNumber(1, TURNS_LIMIT),
    help="Of at most so many turns; else as the simulation says, or 3.",
)
@click.option("--seed", type=int, help="Draw others; else as the simulation says, or 0.")
@click.option(
    "--time",
    "seconds",
    type=arg.FiniteNumber(min=0, min_open=True),
    metavar="SECONDS",
    help="End after so long, with what was found.",
)
@click.option(
    "--profile", type=arg.Words(PROFILE_NAMES), help="Let failures of a class happen, too."
)
@arg.flag("--exhaustive", "Run every conversation, instead of drawing some.")
@arg.processes_option("Run in N processes.")
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Run on the workers of a dask scheduler, as tcp://host:8786; or local.",
)
@click.option(
    "--coverage",
    "page",
    type=click.Path(dir_okay=False),
    default="",
    metavar="FILE",
    help="Write a page with what of the pipeline the conversations made happen.",
)
@click.option("--to", "folder", default="found", metavar="DIR", help="Write scenario files here.")
@arg.flag("--needs-met", "A file whose libraries are not installed ends with 2; it is not skipped.")
@arg.flag("--strict is_strict", "Claims under `always` that no conversation judged end with 1.")
def explore_command(
    subject: str, folder: str, page: str, needs_met: bool, is_strict: bool, **options: Any
) -> int:
    """Run unscripted conversations, and write what breaks a rule as scenario files.

    PATH is a simulation, a pipeline file, one scenario to start from (its users' texts and options
    are used), or a folder: its simulations, and its scenarios by pipeline. MODULE:NAME is code.
    Models answer whatever their requests permit: texts, values of their schemas, calls of the tools
    that they are offered, handoffs. An error that ends a turn, every lint and every claim of a
    simulation is found once for each cause, in the smallest conversation that shows it.
    """
    # Imported here because `simkit explore --help` must not load what runs scenarios.
    from simkit.cli.explore import explore
    from simkit.explore.campaigns import Bounds

    bounds = Bounds(**options, measures=bool(page))
    return explore(subject, bounds, folder, page, needs_met, is_strict)


@arg.cli.command(
    name="coverage",
    short_help="List what no scenario makes a pipeline do.",
    epilog="Exit codes: 0 measured, 1 below --fail-under, 2 a file or script was broken.",
)
@arg.PATHS
@arg.FITTING
@arg.form_option(
    "text",
    "json",
    "html",
    "lcov",
    help="html for a page; lcov for editors and coverage services: the lines of pipeline files.",
)
@arg.file_option("Write here, not to the terminal; a page is else .simkit/coverage.html.")
@arg.FAIL_UNDER
def coverage_command(**options: Any) -> int:
    """Run scenarios, and list what their pipelines can do and never did.

    These are agents, routes, edges, handoffs, keys of payloads, tools that answer or fail, filters,
    windows, channels, rules, limits, error policies and more, each with its line and a way to cover
    it. PATH is as for `simkit replay`; traces, or `.simkit` (the last run's), are read
    instead of run. Of unscripted conversations: `simkit explore --coverage`.
    """
    with imports_frozen:
        from simkit.cli.view import coverage

    return coverage(**options)


@arg.cli.command(
    name="mutate",
    short_help="Mutate runs and list mutants that no claim catches.",
    epilog="Exit codes: 0 judged, 1 below --fail-under, 2 a file or script was broken.",
)
@arg.PATHS
@arg.FITTING
@click.option(
    "--max",
    "most",
    type=arg.WholeNumber(min=1),
    default=500,
    help="Judge at most so many mutants of traces, and so many of pipelines.",
)
@click.option("--seed", type=int, default=0, help="Choose others, where there are more.")
@arg.flag("--traces is_of_traces", "Change traces only: nothing runs again.")
@arg.form_option("text", "json")
@arg.FAIL_UNDER
def mutate_command(**options: Any) -> int:
    """Mutate runs and list mutants that no claim catches.

    One fact of a run is changed: a message left out of a context, a payload's key lost, a state's
    value, a handoff's target, an argument, a result or a reply changed. Its trace is judged again.
    Then faults are planted in declared pipelines, and their scenarios run again. A change that
    neither a claim nor a lint notices has survived, and is listed with the claim that would notice
    it, for the turn's `expect:`. PATH is as for `simkit coverage`. Nothing is written.
    """
    with imports_frozen:
        from simkit.cli.mutate import mutate

    return mutate(**options)
