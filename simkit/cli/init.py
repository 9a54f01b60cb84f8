"""``simkit init``: writes a first project, or a pipeline file from another system's files."""

from __future__ import annotations

import click

from simkit.core.errors import SimkitError


@click.command(name="init", epilog="Exit codes: 0 written, 2 something could not be.")
@click.argument("folder", metavar="[DIR]", required=False)
@click.option(
    "--from",
    "engine",
    metavar="DIR",
    help="The folder with workflow.yaml, and tools.yaml and agents.yaml if there are such.",
)
@click.option("--name", default="", help="The pipeline's name (default: the folder's).")
@click.option(
    "--output",
    default="",
    metavar="FILE",
    help="The file to write (default: NAME.pipeline.yaml, here).",
)
def command(folder: str | None, engine: str | None, name: str, output: str) -> int:
    """Write a first project into DIR (default: here).

    It is a pipeline, a scenario, a feature, a workflow for GitHub, and what makes an editor know
    the files; all of it passes at once. With --from, the workflow files of an agent engine are
    turned into one pipeline file instead; what has no counterpart in a pipeline is listed on
    stderr, with its file and line.

    Nothing is overwritten.
    """
    if engine is None:
        _start(folder, {"--name": name, "--output": output})
    elif folder is None:
        _convert(engine, name, output)
    else:
        raise SimkitError(
            f"simkit init: `--from` writes one file, so {folder!r} says nothing\n"
            "  `--output FILE` says where it is written."
        )
    return 0


def _start(folder: str | None, options: dict[str, str]) -> None:
    from simkit.core.output import echo

    for option, value in options.items():
        if value:
            raise SimkitError(f"simkit init: `{option}` needs `--from DIR`")
    # Imported here because `simkit init --help` must not load what reads and writes files.
    from simkit.cli.init_files import started

    for line in started(folder or "."):
        echo(line)
    echo(f"Next, in {folder}:" if folder else "Next:")
    echo("  simkit replay scenarios\n  python -m pytest scenarios features")


def _convert(engine: str, name: str, output: str) -> None:
    from simkit.cli.init_conversion import convert
    from simkit.core.output import echo

    done = convert(engine, name, output)
    for line in done.left_out:
        echo(line, err=True)
    echo(f"{done.file}: {done.summary}")
    echo(f"`simkit validate {done.file}` says what it lacks.")
