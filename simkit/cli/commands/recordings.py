"""The commands on recorded traffic: `record` and `cassettes`."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Final

import click

from simkit.cli.commands.group import cli
from simkit.cli.commands.options import FITTING, PATHS, QUIET, complete_file
from simkit.core.errors import SimkitError

_MODES: Final = ("once", "new_episodes", "all", "verify", "none")


@cli.command(
    name="record",
    short_help="Run scenarios with real traffic, and keep it as cassettes.",
    epilog="Exit codes: 0 all held, 1 findings or differences, 2 broken (2 beats 1).",
)
@PATHS
@click.option(
    "--mode",
    type=click.Choice(_MODES),
    default="once",
    help="once: where nothing is recorded yet. new_episodes: what the cassette does not answer. "
    "all: everything anew. verify: send everything, hold requests and the shape of responses "
    "against the cassette, write nothing. none: replay.",
)
@click.option("--keep-failed", is_flag=True, help="Write also what a failed scenario recorded.")
@click.option("--force", is_flag=True, help="Record although CI is set.")
@FITTING
@QUIET
@click.option(
    "--outside",
    is_flag=True,
    help="Write cassettes that scenarios name outside their project, too.",
)
def record_command(
    paths: tuple[str, ...],
    mode: str,
    keep_failed: bool,
    force: bool,
    outside: bool,
    expression: str,
    quiet: bool,
) -> int:
    """Run scenarios against their real providers, and keep the traffic.

    Only scenarios with `cassette:` are recorded; the reply lines of a scenario are used as always.
    A cassette is written only if its scenario passed, completely or not at all, and never with a
    secret.
    """
    from simkit.capture.cassettes.saving import require
    from simkit.cli.plan import RunPlan
    from simkit.cli.replay import ReplayOptions, replay
    from simkit.session.execution.recorded import Recording
    from simkit.update.files import is_ci

    if is_ci(os.environ) and not force and mode != "none":
        raise SimkitError(
            "simkit record sends real requests and keeps what is answered, and is refused in CI "
            "(CI is set)\n"
            "  Record where somebody reads what is written, and commit that; --force records here."
        )
    if mode not in ("none", "verify"):
        require()
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    recording = Recording(mode, now, keep_failed, outside)  # type: ignore[arg-type]
    plan = RunPlan(paths=paths, expression=expression)
    return replay(ReplayOptions(plan=plan, quiet=quiet, recording=recording))


@cli.command(
    name="cassettes",
    short_help="List recorded traffic that no scenario uses, is old, or holds a secret.",
    epilog="Exit codes: 0 listed or imported, 1 a secret was found (or, with --strict, an orphan "
    "or one over age), 2 a file cannot be read or written.",
)
@click.argument(
    "words", nargs=-1, metavar="[scan | import] [PATH]...", shell_complete=complete_file
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("--strict", is_flag=True, help="Orphans and cassettes over age end with 1.")
def cassettes_command(words: tuple[str, ...], form: str, strict: bool) -> int:
    """List cassettes with their interactions, size and age.

    The list has the files that scenarios below PATH (default: here) name, and those in every folder
    `cassettes` there. A file that no scenario names is an orphan; one that is older than its
    scenario's `max_age_days` is over age. `simkit cassettes scan` searches them for secrets,
    whichever tool recorded them; with a PATH, it searches all YAML and JSON files there.
    `simkit cassettes import FILE NEW` writes what pydantic-ai, langchain-tests, go-vcr or an old
    vcrpy recorded as a new cassette, without secrets.
    """
    from simkit.cli.cassettes import import_cassette, list_cassettes, scan_cassettes

    if words[:1] == ("import",):
        if len(words) != 3:
            raise click.UsageError("import needs two files: the recorded one, and the new one.")
        return import_cassette(*words[1:])
    if words[:1] == ("scan",):
        return scan_cassettes(words[1:], form)
    return list_cassettes(words or (".",), form, strict)
