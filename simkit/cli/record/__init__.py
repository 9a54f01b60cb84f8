"""``simkit record``: run scenarios with real traffic, and keep it as cassettes."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import click

from simkit.cli.completion import complete_file
from simkit.core.errors import SimkitError
from simkit.core.output import echo

MODES = ("once", "new_episodes", "all", "verify", "none")


@click.command(
    name="record",
    epilog="Exit codes: 0 all held, 1 findings or differences, 2 broken (2 beats 1).",
)
@click.argument("paths", nargs=-1, metavar="[PATH[::NAME]]...", shell_complete=complete_file)
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default="once",
    help="once: where nothing is recorded yet. new_episodes: what the cassette does not answer. "
    "all: everything anew. verify: send everything, hold requests and the shape of responses "
    "against the cassette, write nothing. none: replay.",
)
@click.option("--keep-failed", is_flag=True, help="Write also what a failed scenario recorded.")
@click.option("--force", is_flag=True, help="Record although CI is set.")
@click.option("-k", "expression", default="", help="Run only what fits: words, and, or, not, ().")
@click.option("-q", "quiet", is_flag=True, help="Print only what fails, and the last line.")
@click.option(
    "--outside",
    is_flag=True,
    help="Write cassettes that scenarios name outside their project, too.",
)
@click.option(
    "--new",
    "name",
    default="",
    metavar="NAME",
    help="Run an app once, and write its first scenario: NAME.scenario.yaml.",
)
@click.option("--pipeline", default="", metavar="MODULE:FUNCTION", help="With --new: the app.")
@click.option(
    "--say", "messages", multiple=True, metavar="TEXT", help="With --new: a user's message."
)
@click.option(
    "--call",
    default="",
    metavar="METHOD",
    help="With --new: the method that takes the message, where the app's object has several.",
)
@click.option(
    "--path",
    "folders",
    multiple=True,
    metavar="DIR",
    help="With --new: a folder from which the app's modules are imported, beside this one.",
)
@click.option(
    "--cassette",
    default="",
    metavar="FILE",
    help="With --new: answer from this file, and send nothing.",
)
def command(
    paths: tuple[str, ...],
    mode: str,
    keep_failed: bool,
    force: bool,
    outside: bool,
    expression: str,
    quiet: bool,
    name: str,
    pipeline: str,
    messages: tuple[str, ...],
    call: str,
    folders: tuple[str, ...],
    cassette: str,
) -> int:
    """Run scenarios against their real providers, and keep the traffic.

    Only scenarios with `cassette:` are recorded; the reply lines of a scenario are used as always.
    A cassette is written only if its scenario passed, completely or not at all, and never with a
    secret.
    """
    # Imported here because `simkit record --help` must not load the code that runs scenarios.
    from simkit.capture.cassettes.vcrpy import require
    from simkit.cli.replay.output import ReplayOptions, replay
    from simkit.session.execution.recorded import Recording
    from simkit.update.files import is_ci

    options: dict[str, object] = {
        "--pipeline": pipeline,
        "--say": messages,
        "--call": call,
        "--path": folders,
        "--cassette": cassette,
    }
    _check(name, paths, options)
    if is_ci(os.environ) and not force and mode != "none" and not cassette:
        raise SimkitError(
            "simkit record sends real requests and keeps what is answered, and is refused in CI "
            "(CI is set)\n"
            "  Record where somebody reads what is written, and commit that; --force records here."
        )
    if name:
        from simkit.cli.record.first_scenario import (
            First,
            recorded_source,
            write_first,
            written_text,
        )

        first = First(name=name, pipeline=pipeline, messages=messages, call=call, folders=folders)
        first_scenario = write_first(first, recorded_source(cassette))
        for line in written_text(first_scenario.file):
            echo(line)
        return 0
    if mode not in ("none", "verify"):
        require()
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return replay(
        ReplayOptions(
            paths=paths, show="", turn=None, agent="", seed=None, verify=False, failed=False,
            expression=expression, processes=1, form="table", quiet=quiet,
            recording=Recording(mode, now, keep_failed, outside),  # type: ignore[arg-type]
        )
    )  # fmt: skip


def _check(name: str, paths: tuple[str, ...], options: dict[str, object]) -> None:
    """Raise UsageError for options that do not work together."""
    if not name:
        options_given = [option for option, value in options.items() if value]
        if options_given:
            raise click.UsageError(
                f"{options_given[0]} is about a scenario that is to be written: --new."
            )
        return
    if paths:
        raise click.UsageError(f"--new writes a scenario of its own; leave out {paths[0]}.")
    for option in ("--pipeline", "--say"):
        if not options[option]:
            raise click.UsageError(f"--new needs {option}.")
