"""``simkit diff``: contexts, handoffs and state of two runs, side by side."""

from __future__ import annotations

import click

from simkit.cli.completion import complete_file


@click.command(name="diff", epilog="Exit codes: 0 equal, 1 different, 2 something was broken.")
@click.argument("paths", nargs=-1, metavar="[A] [B]", shell_complete=complete_file)
@click.option(
    "--base",
    default="",
    metavar="DIR",
    help="Compare with the traces of this folder, such as those of the base branch.",
)
@click.option(
    "--pipeline",
    default="",
    metavar="X",
    help="Run the scenario A on its own pipeline and on this one: a file, or a pipeline's name.",
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "github", "markdown"]), default="text"
)
def command(paths: tuple[str, ...], base: str, pipeline: str, form: str) -> int:
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
    # Imported here because `simkit diff --help` must not load the code that runs scenarios.
    from simkit.cli.diff.output import on_two_pipelines, stored_pairs, tell
    from simkit.report.diff_lines import Sides

    if pipeline:
        pairs, sides = on_two_pipelines(paths[0], pipeline)
    elif base:
        pairs, sides = stored_pairs(base, paths[0] if paths else ""), Sides("base", "now")
    else:
        pairs, sides = stored_pairs(*paths), Sides()
    return tell(pairs, sides, form)
