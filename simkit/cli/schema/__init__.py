"""``simkit schema``: the JSON Schema of the two kinds of file."""

from __future__ import annotations

from pathlib import Path

import click

from simkit.core.errors import SimkitError


@click.command(name="schema")
@click.argument(
    "kind", type=click.Choice(["scenario", "pipeline", "code", "program"]), required=False
)
@click.option("-o", "file", type=click.Path(dir_okay=False), help="Write to this file instead.")
def command(kind: str | None, file: str | None) -> None:
    """Print the JSON Schema of scenario and pipeline files, for editors.

    Without a KIND it accepts either kind of document, as files that hold both need it. Editors with
    the YAML language server read it from a first line
    `# yaml-language-server: $schema=simkit.schema.json`.
    """
    # Imported here because `simkit schema --help` must not load the models.
    from simkit.cli.schema.schemas import schema_text
    from simkit.core.output import echo_json

    text = schema_text(kind)
    if file is None:
        echo_json(text)
        return
    try:
        Path(file).write_text(text + "\n", encoding="utf-8")
    except OSError as problem:
        raise SimkitError(f"{file}: {problem.strerror}") from None
