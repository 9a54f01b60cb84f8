"""``simkit init``: writes a pipeline file from another system's files."""

from __future__ import annotations

import click

from simkit.errors import SimkitError


@click.command(name="init", epilog="Exit codes: 0 written, 2 nothing was written.")
@click.option(
    "--from", "folder", metavar="DIR",
    help="The folder with workflow.yaml, and tools.yaml and agents.yaml if there are such.",
)  # fmt: skip
@click.option("--name", default="", help="The pipeline's name (default: the folder's).")
@click.option(
    "--output", default="", metavar="FILE",
    help="The file to write (default: NAME.pipeline.yaml, here).",
)  # fmt: skip
def command(folder: str | None, name: str, output: str) -> int:
    """Turn the workflow files of an agent engine into a pipeline file.

    Nothing is overwritten. What has no counterpart in a pipeline is listed on stderr, with its file
    and line.
    """
    if folder is None:
        raise SimkitError("simkit init: `--from DIR` is needed, the folder with workflow.yaml")
    # Imported here because `simkit init --help` must not load what reads files.
    from simkit.cli.converting import convert

    done = convert(folder, name, output)
    for line in done.left_out:
        click.echo(line, err=True)
    click.echo(f"{done.file}: {done.summary}")
    click.echo(f"`simkit validate {done.file}` says what it lacks.")
    return 0
