"""The commands that read runs and pipelines: `judge`, `diff`, `view` and `graph`."""

from __future__ import annotations

from typing import Any, Final

import click

from simkit.cli.commands import options as arg
from simkit.core.gc_pause import imports_frozen

QUESTION: Final = arg.word_option(
    "--scenario question",
    "PATH[::NAME]",
    "The scenarios that made the traces, if the traces do not name them.",
)
NO_OPEN: Final = click.option(
    "--no-open", "opens", is_flag=True, flag_value=False, default=True, help="Only write the page."
)


@arg.cli.command(
    name="judge",
    short_help="Check stored traces with today's claims and lints; nothing runs.",
    epilog="Exit codes: 0 all passed, 1 findings, 2 a trace or a file was broken (2 beats 1).",
)
@click.argument("traces", nargs=-1, metavar="[TRACE]...", shell_complete=arg.complete_file)
@QUESTION
@arg.form_option("text", "json", "github")
@arg.STRICT
@arg.QUIET
def judge_command(**options: Any) -> int:
    """Check stored traces with the current claims and lints.

    TRACE is a file or a folder of traces (default: .simkit, the last run's). No agent runs, and of
    your code only the predicates under `satisfies`. A trace's scenario is the one from which it was
    made, in its current text.
    """
    with imports_frozen:
        from simkit.cli.judge import judge_traces

    return judge_traces(**options)


@arg.cli.command(
    name="diff",
    short_help="Compare traces, or a scenario on two pipelines: what each agent was sent.",
    epilog="Exit codes: 0 equal, 1 different, 2 something was broken.",
)
@click.argument("paths", nargs=-1, metavar="[A] [B]", shell_complete=arg.complete_file)
@arg.BASE
@arg.word_option(
    "--pipeline",
    "X",
    "Run the scenario A on its own pipeline and on this one: a file, or a pipeline's name.",
)
@arg.form_option("text", "json", "github", "markdown")
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
            f"one scenario; this call names {len(paths)}."
        )
    from simkit.cli.traces import on_two_pipelines, stored_pairs, tell
    from simkit.report.diff_lines import Sides

    if pipeline:
        pairs, sides = on_two_pipelines(paths[0], pipeline)
    elif base:
        pairs, sides = stored_pairs(base, paths[0] if paths else ""), Sides("base", "now")
    else:
        pairs, sides = stored_pairs(*paths), Sides()
    return tell(pairs, sides, form)


@arg.cli.command(
    name="view",
    short_help="Show runs in a browser: one file, with what every agent was sent.",
    epilog="Exit codes: 0 written, 2 there is no trace, or the page cannot be written.",
)
@click.argument("traces", nargs=-1, metavar="[TRACE]...", shell_complete=arg.complete_file)
@arg.file_option("Write here, not to .simkit/report.html.")
@arg.word_option(
    "--diff base",
    "BASE",
    "Show each run beside the one of the same scenario in this trace or folder.",
)
@QUESTION
@NO_OPEN
def view_command(**options: Any) -> int:
    """Write one page with the runs, and open it: it needs no network and can be sent to anybody.

    TRACE is a file or a folder of traces (default: .simkit, the last run's). The page shows each
    run's timeline, what every model call was sent and why something was left out, who saw which
    message, the state by turn, the pipeline, and the claims at their lines. Claims are those of
    today, as in `simkit judge`.
    """
    from simkit.cli.view import view

    return view(**options)


@arg.cli.command(
    name="graph",
    short_help="Draw a pipeline: its agents, edges and handoffs.",
    epilog="Exit codes: 0 drawn, 2 there is no pipeline, or it cannot be read.",
)
@click.argument("path", metavar="PIPELINE|SCENARIO|TRACE", shell_complete=arg.complete_file)
@arg.form_option(
    "page",
    "mermaid",
    "dot",
    "json",
    help="page for a browser, mermaid for Markdown, dot for Graphviz, json for programs.",
)
@arg.file_option("Write here: a page not to .simkit/graph.html, a text not to the screen.")
@NO_OPEN
def graph_command(**options: Any) -> int:
    """Draw the pipeline of a file, of a scenario or of traces.

    A declared pipeline is drawn as its file says. Of code, a run shows the agents: name a scenario,
    which is run for that, or a trace.
    """
    from simkit.cli.view import draw

    return draw(**options)


@arg.cli.command(
    name="import",
    short_help="Make scenarios of an exported trace: OTLP, LangSmith, OpenAI Agents.",
    epilog="Exit codes: 0 written (and all passed), 1 the code sends something else, 2 no scenario "
    "can be made of it.",
)
@click.argument("trace", metavar="TRACE", shell_complete=arg.complete_file)
@arg.word_option(
    "--pipeline",
    "NAME",
    "The pipeline that made the trace, `myapp:run` or a name; the scenarios run on it.",
)
@arg.words_option("--option options", "KEY=VALUE", "As in `simkit init`.")
@arg.words_option("--path folders", "DIR", "As in `simkit init`.")
@arg.word_option("-o target", "FILE", "Write here, not to TRACE.scenario.yaml in this folder.")
def import_command(trace: str, **options: Any) -> int:
    """Write what happened elsewhere as scenarios: users' messages, replies, results of tools.

    TRACE is a file of OTLP (JSON, lines of JSON or protobuf, with GenAI conventions, OpenInference
    or Langfuse's attributes), of LangSmith's runs, or what the OpenAI Agents SDK exports; also
    compressed with gzip. Claims say what each model was sent. The command
    prints each gap of the file; without replies or users' messages it writes no scenario.
    """
    with imports_frozen:
        from simkit.cli.importing import import_trace

    return import_trace(trace, **options)


@arg.cli.command(
    name="export",
    short_help="Write runs as OTLP, for tools that show traces.",
    epilog="Exit codes: 0 written, 2 there is no trace, or the file cannot be written.",
)
@click.argument("path", metavar="[TRACE]", default="", shell_complete=arg.complete_file)
@arg.file_option("Write here, not to the screen.")
def export_command(path: str, file: str) -> int:
    """Write runs as OTLP JSON by today's GenAI conventions, one line a run.

    TRACE is a file or a folder of traces (default: .simkit, the last run's). `simkit import` makes
    the same scenario of it again.
    """
    with imports_frozen:
        from simkit.cli.importing import export_runs

    return export_runs(path, file)
