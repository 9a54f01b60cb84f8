"""The commands that run scenarios, and keep traffic: `replay`, `serve`, `record`, `cassettes`."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any, Final

import click

from simkit.cli.commands import options as arg
from simkit.core.errors import SimkitError
from simkit.core.gc_pause import imports_frozen


@arg.cli.command(
    name="replay",
    short_help="Run scenarios; show what every agent was sent, and which claims fail.",
    epilog="Exit codes: 0 all passed, 1 findings, 2 a file or script was broken (2 beats 1).",
)
@arg.PATHS
@arg.SHOW
@click.option("--turn", type=arg.WholeNumber(min=1), help="Show only this turn.")
@click.option("--agent", default="", help="Show only this agent.")
@click.option("--seed", type=int, help="Run with this seed instead of the scenario's own.")
@arg.flag("--verify", "Run everything twice, and show where two runs differ.")
@arg.flag("--failed", "Run only what failed when it last ran.")
@arg.FITTING
@arg.processes_option(
    "Run N scenarios at a time; fewer than 50 of pipeline files are run one by one."
)
@arg.flag(
    "--in-process",
    "Run code in this process, where `breakpoint()` works; RUN-08 says what is carried over.",
)
@arg.form_option("table", "json", "github")
@arg.QUIET
@arg.BASE
@arg.flag("--needs-met", "A scenario is broken, not skipped, if what it needs is not installed.")
@arg.STRICT
@arg.word_option(
    "--pipeline", "NAME", "Run on this pipeline instead: a name, a file, or module:function."
)
@arg.word_option(
    "--html page",
    "FILE",
    "Write a page that shows every run: what each agent was sent, and where it went.",
)
@arg.flag("--update", "Change failing claims into what was found.")
@arg.flag("--yes accepts_all", "With --update: write without asking.")
def replay_command(**options: Any) -> int:
    """Run scenarios, and check their claims and all lints.

    PATH is a `*.scenario.yaml` file or a folder (default: pytest's `testpaths`, else scenarios),
    and `PATH::NAME` one scenario of a file. A single scenario, or one that fails, is shown turn by
    turn: what each agent was sent (messages, tokens, and what filters dropped), what it answered,
    handed off and wrote.
    """
    form, update = options["form"], options["update"]
    if form == "json" and options["show"] not in ("", "context"):
        raise click.UsageError(
            "--format json has contexts (`--show context`); the file under `trace` has the rest."
        )
    if form == "json" and options["base"]:
        raise click.UsageError("--base is not for --format json; see `simkit diff --base DIR`.")
    if options["pipeline"] and (options["verify"] or update):
        raise click.UsageError("--pipeline goes with neither --verify nor --update.")
    _check_update(update, options["accepts_all"], form, options["seed"])
    with imports_frozen:
        from simkit.cli.plan import RunPlan
        from simkit.cli.replay import ReplayOptions, replay

    plan = RunPlan(**{name: options.pop(name) for name in RunPlan.__struct_fields__})
    return replay(ReplayOptions(plan=plan, **options))


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
    from simkit.update.files import refuse_in_ci

    refuse_in_ci("simkit replay --update", os.environ)


@arg.cli.command(
    name="serve",
    short_help="Answer programs in other languages from a scenario, on this machine's own network.",
    epilog="Exit codes: 0 all passed, 1 findings, 2 errors; 2 also where the command given with "
    "--then fails. Ctrl-C ends it, and judges.",
)
@click.argument("path", metavar="PATH[::NAME]", shell_complete=arg.complete_file)
@click.option("--port", type=arg.WholeNumber(0, 65535), default=0, help="0 takes any free one.")
@arg.word_option(
    "--then program",
    "COMMAND",
    "Run this with the environment that points clients here, and judge at its end.",
)
@arg.form_option("shell", "json", help="Without --then: how the environment is printed.")
@arg.SHOW
def serve_command(**options: Any) -> int:
    """Serve the providers' protocols on the loopback interface, and answer from a scenario.

    For programs that simkit cannot run in its own process. simkit recognizes the agent by the
    header `x-simkit-agent`, by a path `/agents/NAME/v1/…`, or by the scenario's rules under
    `agents`. A turn begins when a request's latest user message contains the turn's, or with a POST
    to `/simkit/next`.
    """
    from simkit.cli.serve import ServeOptions, serve

    return serve(ServeOptions(**options))


_MODES: Final = ("once", "new_episodes", "all", "verify", "none")


@arg.cli.command(
    name="record",
    short_help="Run scenarios with real traffic, and keep it as cassettes.",
    epilog="Exit codes: 0 all passed, 1 findings or differences, 2 errors (2 beats 1).",
)
@arg.PATHS
@click.option(
    "--mode",
    type=arg.Words(_MODES),
    default="once",
    help="once: where nothing is recorded yet. new_episodes: what the cassette does not answer. "
    "all: everything anew. verify: send everything, hold requests and the shape of responses "
    "against the cassette, write nothing. none: replay.",
)
@arg.flag("--keep-failed", "Write also what a failed scenario recorded.")
@arg.flag("--force", "Record although CI is set.")
@arg.FITTING
@arg.form_option("table", "json")
@arg.QUIET
@arg.flag("--outside", "Write cassettes that scenarios name outside their project, too.")
def record_command(mode: str, keep_failed: bool, force: bool, outside: bool, **options: Any) -> int:
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
    plan = RunPlan(paths=options.pop("paths"), expression=options.pop("expression"))
    return replay(ReplayOptions(plan=plan, recording=recording, **options))


@arg.cli.command(
    name="cassettes",
    short_help="List recordings that are unused, old, or hold a secret.",
    epilog="Exit codes: 0 listed or imported, 1 a secret was found (or, with --strict, an orphan "
    "or one over age), 2 no cassette, or a file cannot be read or written.",
)
@click.argument(
    "words", nargs=-1, metavar="[scan | import] [PATH]...", shell_complete=arg.complete_file
)
@arg.form_option("text", "json")
@arg.flag("--strict", "Orphans and cassettes over age end with 1.")
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
