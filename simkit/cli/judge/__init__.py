"""``simkit judge``: check stored traces with the current claims and lints; runs no agent."""

from __future__ import annotations

import click

from simkit.cli.completion import complete_file


@click.command(
    name="judge",
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
@click.option(
    "--strict",
    is_flag=True,
    help="Claims that were not looked at, or that nothing could break (RUN-03), end with 1.",
)
@click.option("-q", "quiet", is_flag=True, help="Print only what fails, and the last line.")
def command(traces: tuple[str, ...], question: str, form: str, strict: bool, quiet: bool) -> int:
    """Check stored traces with the current claims and lints.

    TRACE is a file or a folder of traces (default: .simkit, the last run's). No agent runs, and of
    your code only the predicates under `satisfies`. A trace's scenario is the one from which it was
    made, in its current text.
    """
    # Imported here because `simkit judge --help` must not load the code that reads scenarios.
    from simkit.cli.judge.traces import judge_traces

    return judge_traces(traces, question, form, quiet, strict)
