"""The commands: their arguments and help. The code of a command is imported when it is called.

So `simkit --help` and `simkit COMMAND --help` load neither the code that runs scenarios nor
pytest-bdd.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from simkit.core.errors import DirectoryGone, SimkitError
from simkit.core.gc_pause import imports_frozen

TRACEBACK_VARIABLE: Final = "SIMKIT_TRACEBACK"


class _Number(click.FloatRange):
    """A finite number: click lets ``nan`` pass, which is neither below nor above any limit."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no number.", param, ctx)
        return number


class _Group(click.Group):
    """A group that suggests the nearest command for an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0] if args else ""
        if word not in self.commands and not word.startswith("-"):
            # Imported here because most commands are spelled correctly.
            from simkit.language.yaml import near

            hint = near(word, self.commands)
            advice = f" Did you mean `{hint}`?" if hint else ""
            known = ", ".join(sorted(self.commands))
            raise click.UsageError(f"There is no command `{word}`.{advice} Known: {known}.", ctx)
        return super().resolve_command(ctx, args)


def _version(ctx: click.Context, _parameter: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        from simkit import __version__
        from simkit.core.output import echo

        echo(f"simkit {__version__}")
        ctx.exit()


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`simkit COMMAND --help` says more. Exit codes: 0 all held, 1 findings, 2 broken.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Print the version.",
)
@click.option(
    "--traceback",
    "wants_traceback",
    is_flag=True,
    envvar=TRACEBACK_VARIABLE,
    help="Show the traceback if simkit itself fails.",
)
def cli(wants_traceback: bool) -> None:
    """Test what every agent of a multi-agent pipeline is sent: declaratively, offline, the same
    every time."""
    try:
        os.getcwd()
    except OSError as problem:
        raise DirectoryGone(problem.strerror) from None
    if wants_traceback:
        # Worker processes read it, too.
        os.environ[TRACEBACK_VARIABLE] = "1"


def complete_file(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Let the shell complete the names of files and folders."""
    return [CompletionItem(incomplete, type="file")]


def complete_id(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the ids that `simkit explain` knows, in any case."""
    from simkit.spec.explanations import explanations

    return [
        CompletionItem(entry.id, help=entry.name or None)
        for entry in explanations().values()
        if entry.id.lower().startswith(incomplete.lower())
    ]


# Options of several commands

_SHOW: Final = click.option(
    "--show",
    type=click.Choice(["context", "state", "events"]),
    default=None,
    help="Show every model call's messages, the state after each turn, or all events.",
)
_QUIET: Final = click.option(
    "-q", "quiet", is_flag=True, help="Print only what fails, and the last line."
)
_FITTING: Final = click.option(
    "-k", "expression", default="", help="Run only what fits: words, and, or, not, ()."
)
_BASE: Final = click.option(
    "--base",
    default="",
    metavar="DIR",
    help="Compare with the traces of this folder, such as those of the base branch.",
)
_STRICT: Final = click.option(
    "--strict",
    is_flag=True,
    help="Claims that were not looked at, or that nothing could break (RUN-03), end with 1.",
)
_FAIL_UNDER: Final = click.option(
    "--fail-under",
    type=_Number(0, 100),
    default=0.0,
    metavar="PERCENT",
    help="End with 1 if the share is smaller.",
)
_PATHS: Final = click.argument(
    "paths", nargs=-1, metavar="[PATH[::NAME]]...", shell_complete=complete_file
)


@cli.group(
    name="bdd",
    short_help="List what the lines of a feature file may say.",
    invoke_without_command=False,
)
def bdd_command() -> None:
    """Feature files: what their lines may say."""


@bdd_command.command(name="steps")
@click.argument("word", required=False, default="")
def steps(word: str) -> int:
    """List the steps, each with an example; with a WORD, those that have it.

    Exit codes: 0 listed, 1 no step has the word.
    """
    from simkit.bdd.vocabulary import listed_steps
    from simkit.core.output import echo

    lines = list(listed_steps(word))
    if not lines:
        echo(f"no step has the word `{word}`", err=True)
        return 1
    for line in lines:
        echo(line)
    return 0


@cli.command(
    name="cassettes",
    short_help="List recorded traffic that no scenario uses, is old, or holds a secret.",
    epilog="Exit codes: 0 listed, 1 a secret was found (or, with --strict, an orphan or one over "
    "age), 2 a file cannot be read.",
)
@click.argument("words", nargs=-1, metavar="[scan] [PATH]...", shell_complete=complete_file)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("--strict", is_flag=True, help="Orphans and cassettes over age end with 1.")
def cassettes_command(words: tuple[str, ...], form: str, strict: bool) -> int:
    """List cassettes with their interactions, size and age.

    The list has the files that scenarios below PATH (default: here) name, and those in every folder
    `cassettes` there. A file that no scenario names is an orphan; one that is older than its
    scenario's `max_age_days` is over age. `simkit cassettes scan` searches them for secrets,
    whichever tool recorded them; with a PATH, it searches all YAML and JSON files there.
    """
    from simkit.cli.cassettes import list_cassettes, scan_cassettes

    if words[:1] == ("scan",):
        return scan_cassettes(words[1:], form)
    return list_cassettes(words or (".",), form, strict)


@cli.command(
    name="coverage",
    short_help="Say what of a pipeline no scenario makes happen.",
    epilog="Exit codes: 0 measured, 1 below --fail-under, 2 a file or script was broken.",
)
@_PATHS
@_FITTING
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "html", "lcov"]),
    default="text",
    help="html for a page; lcov for editors and coverage services: the lines of pipeline files.",
)
@click.option(
    "-o",
    "file",
    type=click.Path(dir_okay=False),
    default="",
    metavar="FILE",
    help="Write here, not to the terminal; a page is else .simkit/coverage.html.",
)
@_FAIL_UNDER
def coverage_command(**options: Any) -> int:
    """Run scenarios, and list what their pipelines can do and never did.

    These are agents, routes, edges, handoffs, keys of payloads, tools that answer or fail, filters,
    windows, channels, rules, limits, error policies and more, each with its line and a way to cover
    it. PATH is as for `simkit replay`; traces, or `.simkit` (the last run's), are read
    instead of run. Of conversations that nobody wrote: `simkit explore --coverage`.
    """
    with imports_frozen():
        from simkit.cli.coverage import CoverageOptions, coverage

    return coverage(CoverageOptions(**options))


@cli.command(
    name="diff",
    short_help="Compare traces, or a scenario on two pipelines: what each agent was sent.",
    epilog="Exit codes: 0 equal, 1 different, 2 something was broken.",
)
@click.argument("paths", nargs=-1, metavar="[A] [B]", shell_complete=complete_file)
@_BASE
@click.option(
    "--pipeline",
    default="",
    metavar="X",
    help="Run the scenario A on its own pipeline and on this one: a file, or a pipeline's name.",
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "github", "markdown"]), default="text"
)
def diff_command(paths: tuple[str, ...], base: str, pipeline: str, form: str) -> int:
    """Show the differences of two runs: the first event, then contexts, handoffs and state.

    \b
    simkit diff A B                  two traces, or two folders of traces, paired by scenario
    simkit diff --base DIR [B]       B (default: .simkit, the last run) against a folder
    simkit diff PATH --pipeline X    scenarios run on their own pipeline, and on X

    Contents are compared, not ids: a new message in the middle is one difference. Nothing is
    written.
    """
    if base and pipeline:
        raise click.UsageError("--base compares stored traces, --pipeline runs scenarios: use one.")
    arity = {"--base": (0, 1), "--pipeline": (1, 1)}.get(
        ("--base" if base else "") or ("--pipeline" if pipeline else ""), (2, 2)
    )
    if not arity[0] <= len(paths) <= arity[1]:
        raise click.UsageError(
            "`simkit diff` takes two traces or folders; with --base one at most, with --pipeline "
            f"one scenario; here are {len(paths)}."
        )
    from simkit.cli.diff import on_two_pipelines, stored_pairs, tell
    from simkit.report.diff_lines import Sides

    if pipeline:
        pairs, sides = on_two_pipelines(paths[0], pipeline)
    elif base:
        pairs, sides = stored_pairs(base, paths[0] if paths else ""), Sides("base", "now")
    else:
        pairs, sides = stored_pairs(*paths), Sides()
    return tell(pairs, sides, form)


@cli.command(
    name="doctor",
    short_help="Say which client libraries are here, and what of them is seen.",
    epilog="Exit codes: 0 all is well, 2 the scenario's pipeline cannot be run, or nothing of it "
    "was seen.",
)
@click.argument("scenario", metavar="[PATH[::NAME]]", default="", shell_complete=complete_file)
def doctor_command(scenario: str) -> int:
    """Show the installed client libraries, how simkit observes them, and possible problems.

    With a scenario whose pipeline is code: run its first turn, and show how many model calls simkit
    saw, of which client, and how each was attributed to its agent; or why there was none. No value
    of a secret is printed.
    """
    from simkit.adapters.libraries import installed
    from simkit.adapters.modules import server_file, server_text
    from simkit.cli.doctor import environment_text, first_turn
    from simkit.core.output import echo

    echo(environment_text())
    if not scenario:
        if [*installed(("langgraph",))] or server_file(Path()):
            echo(f"\n{server_text(Path())}")
        return 0
    turn = first_turn(scenario)
    echo(f"\n{turn.text}")
    return 0 if turn.is_well else 2


@cli.command(
    name="expect",
    short_help="Write a first full set of claims for turns that have none.",
    epilog="Exit codes: 0 written, or nothing to write; 1 not written; 2 a file was broken.",
)
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH[::NAME]...", shell_complete=complete_file
)
@click.option("--yes", "accepts_all", is_flag=True, help="Write without asking.")
def expect_command(paths: tuple[str, ...], accepts_all: bool) -> int:
    """Write claims for every turn that has no `expect:`, from a run of it.

    The claims cover agents, reply, contexts (sections and messages, without instructions),
    handoffs, tool calls and state. The command shows the difference first; on a terminal it asks
    for each file. Turns with claims stay unchanged. Read the new claims: they say what is, not what
    should be.
    """
    from simkit.cli.expect import expect
    from simkit.update import refuse_in_ci

    refuse_in_ci("simkit expect", os.environ)
    return expect(paths, accepts_all)


@cli.command(
    name="explain",
    short_help="Explain a finding or an error by its id: cause and fix.",
)
@click.argument("words", nargs=-1, metavar="[ID|MESSAGE]", shell_complete=complete_id)
def explain_command(words: tuple[str, ...]) -> None:
    """Explain a finding or an error: what should hold, the usual cause, the fix.

    Takes an id (`HND-12`), a name (`context-ignored`), the type of an error (`ReplyMissing`), or a
    message as it was printed, in quotes. Without one it lists every id.
    """
    from simkit.cli.console import explanation_lines
    from simkit.core.output import echo
    from simkit.spec.explanations import explanation_of, explanations

    if not words:
        for explanation in explanations().values():
            echo(f"{explanation.title:<34} {explanation.severity or explanation.kind}")
        return
    echo("\n".join(explanation_lines(explanation_of(" ".join(words)))))


RUNS_LIMIT, TURNS_LIMIT = 1_000_000_000, 8_000
"""Those of `simkit.explore.campaigns`, which `--help` must not load."""
PROFILE_NAMES: Final = ("overload", "chaos", "models", "users", "races", "restarts", "long")
"""The names of `simkit.explore.profiles.PROFILES`, which `--help` must not load."""


@cli.command(
    name="explore",
    short_help="Search for conversations that break a rule; write scenarios.",
    epilog="Exit codes: 0 nothing found, 1 something found, 2 the pipeline cannot be run.",
)
@click.argument("subject", metavar="PATH[::NAME]|MODULE:NAME", shell_complete=complete_file)
@click.option(
    "--runs",
    type=click.IntRange(1, RUNS_LIMIT),
    default=300,
    help="Draw so many conversations.",
)
@click.option(
    "--turns",
    type=click.IntRange(1, TURNS_LIMIT),
    help="Of at most so many turns; else as the simulation says, or 3.",
)
@click.option("--seed", type=int, help="Draw others; else as the simulation says, or 0.")
@click.option(
    "--time",
    "seconds",
    type=_Number(min=0, min_open=True),
    metavar="SECONDS",
    help="End after so long, with what was found.",
)
@click.option(
    "--profile",
    type=click.Choice(PROFILE_NAMES),
    help="Let failures of a class happen, too.",
)
@click.option("--exhaustive", is_flag=True, help="Run every conversation, instead of drawing some.")
@click.option("-j", "processes", type=click.IntRange(min=1), default=1, help="Run in N processes.")
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
@click.option(
    "--to",
    "folder",
    default="found",
    metavar="DIR",
    help="Write scenario files here.",
)
@click.option(
    "--needs-met",
    is_flag=True,
    help="What needs a library that is not installed cannot be run (2), and is not skipped.",
)
@click.option(
    "--strict",
    "is_strict",
    is_flag=True,
    help="Claims under `always` that no conversation judged end with 1.",
)
def explore_command(
    subject: str, folder: str, page: str, needs_met: bool, is_strict: bool, **options: Any
) -> int:
    """Run conversations that nobody wrote, and write what breaks a rule as scenario files.

    PATH is a simulation, a pipeline file, one scenario to start from (its users' texts and options
    are used), or a folder: its simulations, and its scenarios by pipeline. MODULE:NAME is code.
    Models answer whatever their requests permit: texts, values of their schemas, calls of the tools
    that they are offered, handoffs. An error that ends a turn, every lint and every claim of a
    simulation is found once for each cause, in the smallest conversation that shows it.
    """
    # Imported here because `simkit explore --help` must not load what runs scenarios.
    from simkit.cli.explore import Strictness, explore
    from simkit.explore.campaigns import Bounds

    strictness = Strictness(needs_met=needs_met, is_strict=is_strict)
    return explore(subject, Bounds(**options, measures=bool(page)), folder, strictness, page)


@cli.command(
    name="graph",
    short_help="Draw a pipeline: its agents, edges and handoffs.",
    epilog="Exit codes: 0 drawn, 2 there is no pipeline, or it cannot be read.",
)
@click.argument("path", metavar="PIPELINE|SCENARIO|TRACE", shell_complete=complete_file)
@click.option(
    "--format",
    "form",
    type=click.Choice(["svg", "mermaid", "dot"]),
    default="svg",
    show_default=True,
    help="svg for anything, mermaid for Markdown, dot for Graphviz.",
)
@click.option("-o", "file", type=click.Path(dir_okay=False), help="Write to this file instead.")
def graph_command(path: str, form: str, file: str | None) -> int:
    """Draw the pipeline of a file, of a scenario or of traces.

    A declared pipeline is drawn as its file says. Of code, a run shows the agents: name a scenario,
    which is run for that, or a trace.
    """
    from simkit.cli.graph import graph_text
    from simkit.core.output import echo_picture, picture

    text = picture(graph_text(path, form))
    if file is None:
        echo_picture(text)
        return 0
    from simkit.cli.pages import write_file

    write_file(file, f"{text}\n".encode(), "-o")
    return 0


@cli.command(
    name="init",
    short_help="Write the first test of an app, or a sample project.",
    epilog="Exit codes: 0 written, 2 something could not be.",
)
@click.argument("folder", metavar="[DIR]", required=False)
@click.option(
    "--app",
    default="",
    metavar="MODULE:NAME",
    help="Write the first scenario of this app: a function, an object, or a module that is an "
    "input() loop.",
)
@click.option("--say", "messages", multiple=True, metavar="TEXT", help="A user's message: `Hello`.")
@click.option(
    "--record",
    "is_recorded",
    is_flag=True,
    help="Ask the app's models, with your key; without it, scaffolded replies stand in.",
)
@click.option(
    "--call", default="", metavar="METHOD", help="The method that takes the message, of several."
)
@click.option(
    "--path",
    "folders",
    multiple=True,
    metavar="DIR",
    help="A folder from which the app's modules are imported, where they are not found.",
)
@click.option(
    "--option",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="What the app needs beside the message, as below `app:` in a file: `env.SHOP=test`, "
    "`run_options=module:function`, `config.configurable.user_id=ada`.",
)
@click.option("--sample", "is_sample", is_flag=True, help="Write a sample project in any case.")
def init_command(
    folder: str | None,
    app: str,
    messages: tuple[str, ...],
    is_recorded: bool,
    call: str,
    folders: tuple[str, ...],
    pairs: tuple[str, ...],
    is_sample: bool,
) -> int:
    """Write a first scenario, a feature, a workflow for GitHub, and settings of the editor.

    They are for an app in DIR (default: here), which is run once, or for a sample if there is no
    app. All of it passes at once, in a new process. Nothing is overwritten.
    """
    from simkit.cli.init.first_test import AppRequest, options_of
    from simkit.cli.init.starting import start

    request = AppRequest(
        name=app,
        messages=messages,
        call=call,
        folders=folders,
        is_recorded=is_recorded,
        options=options_of(pairs),
    )
    return start(folder or ".", request, is_sample=is_sample)


@cli.command(
    name="judge",
    short_help="Hold stored traces against today's claims and lints; nothing runs.",
    epilog="Exit codes: 0 all held, 1 findings, 2 a trace or a file was broken (2 beats 1).",
)
@click.argument("traces", nargs=-1, metavar="[TRACE]...", shell_complete=complete_file)
@click.option(
    "--scenario",
    "question",
    default="",
    metavar="PATH[::NAME]",
    help="The scenarios that the traces are of, where they do not say it themselves.",
)
@click.option("--format", "form", type=click.Choice(["text", "json", "github"]), default="text")
@_STRICT
@_QUIET
def judge_command(
    traces: tuple[str, ...], question: str, form: str, strict: bool, quiet: bool
) -> int:
    """Check stored traces with the current claims and lints.

    TRACE is a file or a folder of traces (default: .simkit, the last run's). No agent runs, and of
    your code only the predicates under `satisfies`. A trace's scenario is the one from which it was
    made, in its current text.
    """
    with imports_frozen():
        from simkit.cli.judge import judge_traces

    return judge_traces(traces, question, form, quiet, strict)


@cli.command(
    name="live",
    short_help="Run scenarios with real models, many times; say how often each claim holds.",
    epilog="Exit codes: 0 every scenario held as often as --fail-under says, 1 one did not, "
    "2 nothing could be run: a file, a key or a price is missing or wrong.",
)
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH[::NAME]...", shell_complete=complete_file
)
@click.option("--runs", type=click.IntRange(min=1), default=10, help="Run each so many times.")
@click.option(
    "-j", "processes", type=click.IntRange(min=1), default=1, help="Make N runs at the same time."
)
@click.option(
    "--budget-usd",
    type=_Number(min=0, min_open=True),
    metavar="USD",
    help="Start no run that could exceed this. It needs prices of all models.",
)
@click.option(
    "--prices",
    default="",
    metavar="FILE",
    help="A file of prices of models; without it `prices.yaml` here, if there is one.",
)
@click.option(
    "--from",
    "first_turn",
    type=click.IntRange(min=1),
    default=1,
    metavar="TURN",
    help="Replay the turns before this one, and ask real models from it on.",
)
@click.option("--all-claims", is_flag=True, help="Judge claims that only the script can keep, too.")
@click.option(
    "--k",
    type=click.IntRange(min=1),
    help="Of how many runs pass@k (one holds) and pass^k (all hold) speak: 3, or --runs if those "
    "are fewer.",
)
@click.option(
    "--fail-under",
    type=_Number(0, 100),
    default=100.0,
    metavar="PERCENT",
    help="End with 1 if a scenario holds in a smaller share of its runs; 100 without it.",
)
@click.option("--to", "folder", default="live", metavar="DIR", help="Keep failed runs here.")
@_FITTING
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("--force", is_flag=True, help="Run although CI is set.")
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


@cli.command(
    name="mutate",
    short_help="Change what happened, and say which changes no claim notices.",
    epilog="Exit codes: 0 judged, 1 below --fail-under, 2 a file or script was broken.",
)
@_PATHS
@_FITTING
@click.option(
    "--max",
    "most",
    type=click.IntRange(min=1),
    default=500,
    help="Judge at most so many mutants of traces, and so many of pipelines.",
)
@click.option("--seed", type=int, default=0, help="Choose others, where there are more.")
@click.option(
    "--traces", "is_of_traces", is_flag=True, help="Change traces only: nothing runs again."
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@_FAIL_UNDER
def mutate_command(**options: Any) -> int:
    """Say whether anything is claimed about what happens.

    One fact of a run is changed: a message left out of a context, a payload's key lost, a state's
    value, a handoff's target, an argument, a result or a reply changed. Its trace is judged again.
    Then faults are planted in declared pipelines, and their scenarios run again. A change that
    neither a claim nor a lint notices has survived, and is listed with the claim that would notice
    it, for the turn's `expect:`. PATH is as for `simkit coverage`. Nothing is written.
    """
    with imports_frozen():
        from simkit.cli.mutate import MutateOptions, mutate

    return mutate(MutateOptions(**options))


_MODES: Final = ("once", "new_episodes", "all", "verify", "none")


@cli.command(
    name="record",
    short_help="Run scenarios with real traffic, and keep it as cassettes.",
    epilog="Exit codes: 0 all held, 1 findings or differences, 2 broken (2 beats 1).",
)
@_PATHS
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
@_FITTING
@_QUIET
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
def record_command(
    paths: tuple[str, ...],
    mode: str,
    keep_failed: bool,
    force: bool,
    outside: bool,
    expression: str,
    quiet: bool,
    name: str,
    **new: Any,
) -> int:
    """Run scenarios against their real providers, and keep the traffic.

    Only scenarios with `cassette:` are recorded; the reply lines of a scenario are used as always.
    A cassette is written only if its scenario passed, completely or not at all, and never with a
    secret.
    """
    from simkit.capture.cassettes.vcrpy import require
    from simkit.cli.replay import ReplayOptions, replay
    from simkit.session.execution.recorded import Recording
    from simkit.update.files import is_ci

    _check(name, paths, new)
    if is_ci(os.environ) and not force and mode != "none" and not new["cassette"]:
        raise SimkitError(
            "simkit record sends real requests and keeps what is answered, and is refused in CI "
            "(CI is set)\n"
            "  Record where somebody reads what is written, and commit that; --force records here."
        )
    if name:
        from simkit.cli.record import First, recorded_source, write_first, written_text
        from simkit.core.output import echo

        cassette = new.pop("cassette")
        first = write_first(First(name=name, **new), recorded_source(cassette))
        for line in written_text(first.file):
            echo(line)
        return 0
    if mode not in ("none", "verify"):
        require()
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    recording = Recording(mode, now, keep_failed, outside)  # type: ignore[arg-type]
    return replay(
        ReplayOptions(paths=paths, expression=expression, quiet=quiet, recording=recording)
    )


_NEW: Final = {
    "pipeline": "--pipeline",
    "messages": "--say",
    "call": "--call",
    "folders": "--path",
    "cassette": "--cassette",
}
"""The options of a new scenario."""


def _check(name: str, paths: tuple[str, ...], new: Mapping[str, Any]) -> None:
    """Raise UsageError for options that do not work together."""
    if not name:
        options_given = [option for key, option in _NEW.items() if new[key]]
        if options_given:
            raise click.UsageError(
                f"{options_given[0]} is about a scenario that is to be written: --new."
            )
        return
    if paths:
        raise click.UsageError(f"--new writes a scenario of its own; leave out {paths[0]}.")
    for key in ("pipeline", "messages"):
        if not new[key]:
            raise click.UsageError(f"--new needs {_NEW[key]}.")


@cli.command(
    name="replay",
    short_help="Run scenarios; show what every agent was sent, and what does not hold.",
    epilog="Exit codes: 0 all held, 1 findings, 2 a file or script was broken (2 beats 1).",
)
@_PATHS
@_SHOW
@click.option("--turn", type=click.IntRange(min=1), help="Show only this turn.")
@click.option("--agent", default="", help="Show only this agent.")
@click.option("--seed", type=int, help="Run with this seed instead of the scenario's own.")
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run each for N seeds, from --seed or 0 on; show how often it holds.",
)
@click.option(
    "--verify", is_flag=True, help="Run everything twice, and show where two runs differ."
)
@click.option("--failed", is_flag=True, help="Run only what failed when it last ran.")
@_FITTING
@click.option(
    "-j",
    "processes",
    type=click.IntRange(min=1),
    default=1,
    help="Run in N processes; in one if fewer than 50 scenarios, all of pipeline files, are run.",
)
@click.option("--format", "form", type=click.Choice(["table", "json", "github"]), default="table")
@_QUIET
@_BASE
@click.option(
    "--needs-met",
    is_flag=True,
    help="A scenario is broken, not skipped, if what it needs is not installed.",
)
@_STRICT
@click.option(
    "--pipeline",
    default="",
    metavar="NAME",
    help="Run on this pipeline instead: a name, a file, or module:function.",
)
@click.option(
    "--html",
    "page",
    default="",
    metavar="FILE",
    help="Write a page that shows every run: what each agent was sent, and where it went.",
)
@click.option("--watch", is_flag=True, help="Run again what a changed file belongs to.")
@click.option("--update", is_flag=True, help="Change failing claims into what was found.")
@click.option("--yes", "accepts_all", is_flag=True, help="With --update: write without asking.")
def replay_command(watch: bool, seeds: int | None, **options: Any) -> int:
    """Run scenarios, and check their claims and all lints.

    PATH is a `*.scenario.yaml` file or a folder (default: pytest's `testpaths`, else scenarios),
    and `PATH::NAME` one scenario of a file. A single scenario, or one that fails, is shown turn by
    turn: what each agent was sent (messages, tokens, and what filters dropped), what it answered,
    handed off and wrote.
    """
    form, update = options["form"], options["update"]
    if form == "json" and options["show"]:
        raise click.UsageError(
            "--show is for people; with --format json, read the file named under `trace`."
        )
    if form == "json" and options["base"]:
        raise click.UsageError("--base is not for --format json; see `simkit diff --base DIR`.")
    if options["pipeline"] and (options["verify"] or update):
        raise click.UsageError("--pipeline goes with neither --verify nor --update.")
    others = ("verify", "failed", "update", "base", "pipeline")
    _check_watch(watch, form, [f"--{option}" for option in others if options[option]])
    _check_update(update, options["accepts_all"], form, options["seed"])
    with imports_frozen():
        from simkit.cli.replay import ReplayOptions, replay

    call = ReplayOptions(**{**options, "show": options["show"] or ""})
    if seeds is not None:
        _check_seeds(watch, options)
        from simkit.cli.seeds import replay_seeds

        return replay_seeds(call, seeds)
    if not watch:
        return replay(call)
    from simkit.cli.watching import watch as run_again

    return run_again(call)


def _check_watch(watch: bool, form: str, others: Sequence[str]) -> None:
    """Raise UsageError for options that do not work with ``--watch``."""
    if watch and (others or form != "table"):
        wrong = [*others, *([f"--format {form}"] if form != "table" else [])]
        raise click.UsageError(f"--watch is for people, at work on files; leave out {wrong[0]}.")


def _check_seeds(watch: bool, options: Mapping[str, Any]) -> None:
    """Raise UsageError for options that concern a single run of each scenario."""
    others = ("show", "turn", "agent", "verify", "update", "base")
    wrong = [f"--{option}" for option in others if options[option]]
    wrong += ["--watch"] if watch else []
    wrong += ["--format github"] if options["form"] == "github" else []
    if wrong:
        raise click.UsageError(f"--seeds runs each scenario many times; leave out {wrong[0]}.")


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


@cli.command(
    name="schema",
    short_help="Print the JSON Schema of scenario and pipeline files, for editors.",
)
@click.argument(
    "kind",
    type=click.Choice(["scenario", "simulation", "pipeline", "code", "program"]),
    required=False,
)
@click.option("-o", "file", type=click.Path(dir_okay=False), help="Write to this file instead.")
def schema_command(kind: str | None, file: str | None) -> None:
    """Print the JSON Schema of scenario and pipeline files, for editors.

    Without a KIND it accepts either kind of document, as files that hold both need it. Editors with
    the YAML language server read it from a first line
    `# yaml-language-server: $schema=simkit.schema.json`.
    """
    from simkit.cli.schema import schema_text
    from simkit.core.output import echo_json

    text = schema_text(kind)
    if file is None:
        echo_json(text)
        return
    from simkit.cli.pages import write_file

    write_file(file, f"{text}\n".encode(), "-o")


@cli.command(
    name="serve",
    short_help="Answer programs in other languages from a scenario, on this machine's own network.",
    epilog="Exit codes: 0 all held, 1 findings, 2 broken; 2 also where the command given with "
    "--then fails. Ctrl-C ends it, and judges.",
)
@click.argument("scenario", metavar="PATH[::NAME]", shell_complete=complete_file)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0 takes any free one.")
@click.option(
    "--then",
    "program",
    default="",
    metavar="COMMAND",
    help="Run this with the environment that points clients here, and judge at its end.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["shell", "json"]),
    default="shell",
    help="Without --then: how the environment is printed.",
)
@_SHOW
def serve_command(scenario: str, port: int, program: str, form: str, show: str | None) -> int:
    """Serve the providers' protocols on the loopback interface, and answer from a scenario.

    For programs that simkit cannot run in its own process. simkit recognizes the agent by the
    header `x-simkit-agent`, by a path `/agents/NAME/v1/…`, or by the scenario's rules under
    `agents`. A turn begins when a request's latest user message contains the turn's, or with a POST
    to `/simkit/next`.
    """
    from simkit.cli.serve import ServeOptions, serve

    return serve(
        ServeOptions(path=scenario, port=port, program=program, form=form, show=show or "")
    )


@cli.command(
    name="validate",
    short_help="Check files without running anything.",
    epilog="Exit codes: 0 nothing that keeps a file from running or contradicts it, 1 warnings "
    "and --strict, 2 errors.",
)
@click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=complete_file)
@click.option("--strict", is_flag=True, help="Warnings end with 1.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    show_default=True,
    help="text for people, json for programs, github for a pull request.",
)
def validate_command(paths: tuple[str, ...], strict: bool, form: str) -> int:
    """Check scenario and pipeline files without running them.

    PATH is a file or a folder (default: scenarios). All files are checked; of what keeps a document
    from running, the first is printed. docs/reference/validate.md explains the codes; a document
    turns one off with a reason: `lints: {VAL-14: kept for the next release}`.
    """
    with imports_frozen():
        from simkit import __version__
        from simkit.cli.selection import paths_or_default
        from simkit.cli.validate import checked
        from simkit.core.output import echo, echo_commands, echo_json
        from simkit.report.validation import github_lines, json_text, verdict

    report = checked(paths_or_default(paths))
    code = 2 if report.count("E") else int(strict and report.count("W") > 0)
    if form == "json":
        echo_json(json_text(report, __version__, code))
        return code
    if form == "github":
        echo_commands(github_lines(report))
    else:
        for problem in report.problems:
            echo(problem.text, err=True)
    echo(verdict(report))
    return code


@cli.command(
    name="view",
    short_help="Show runs in a browser: one file, with what every agent was sent.",
    epilog="Exit codes: 0 written, 2 there is no trace, or the page cannot be written.",
)
@click.argument("traces", nargs=-1, metavar="[TRACE]...", shell_complete=complete_file)
@click.option(
    "-o", "file", default="", metavar="FILE", help="Write here, not to .simkit/report.html."
)
@click.option(
    "--diff",
    "base",
    default="",
    metavar="BASE",
    help="Show each run beside the one of the same scenario in this trace or folder.",
)
@click.option(
    "--scenario",
    "question",
    default="",
    metavar="PATH[::NAME]",
    help="The scenarios that the traces are of, where they do not say it themselves.",
)
@click.option(
    "--no-open", "opens", is_flag=True, flag_value=False, default=True, help="Only write the page."
)
def view_command(**options: Any) -> int:
    """Write one page with the runs, and open it: it needs no network and can be sent to anybody.

    TRACE is a file or a folder of traces (default: .simkit, the last run's). The page shows each
    run's timeline, what every model call was sent and why something was left out, who saw which
    message, the state by turn, the pipeline, and the claims at their lines. Claims are those of
    today, as in `simkit judge`.
    """
    from simkit.cli.view import ViewOptions, view

    return view(ViewOptions(**options))
