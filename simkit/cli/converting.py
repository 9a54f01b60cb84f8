"""What ``simkit init --from`` does: reads a folder, writes one new pipeline file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from simkit.cli.from_engine.pipeline import comments_of, pipeline_of
from simkit.cli.from_engine.reading import engine_in
from simkit.cli.yaml_text import yaml_text
from simkit.errors import SimkitError, SourceError
from simkit.scenario.items import PIPELINE_SUFFIX
from simkit.words import counted


class Converted(msgspec.Struct, frozen=True):
    """What was written."""

    file: str
    summary: str
    """How much of what it holds."""
    left_out: tuple[str, ...]
    """What of the folder is not in it, as ``file:line: what``."""


def convert(folder: str, name: str = "", output: str = "") -> Converted:
    """Writes the folder's workflow as a pipeline file that was not there before.

    Raises SourceError for what cannot be read, and SimkitError for what cannot be written.
    """
    name = _name(folder, name)
    file = output or f"{name}{PIPELINE_SUFFIX}"
    _check_target(file)
    engine = engine_in(folder)
    data = pipeline_of(engine, name)
    _write_new(file, yaml_text(data, comments_of(engine)))
    return Converted(file, _summary(data), engine.left_out)


def _summary(data: Mapping[str, Any]) -> str:
    graph = data["flow"]["graph"]
    holders = {"node": graph["nodes"], "edge": graph["edges"], "agent": data["agents"]}
    holders["tool"] = data.get("tools", {})
    return ", ".join(counted(len(held), noun) for noun, held in holders.items())


def _name(folder: str, name: str) -> str:
    if name and Path(name).name != name:
        raise SimkitError(
            f"--name {name}: a name is no path\n  `--output FILE` says where the file is written."
        )
    found = name or Path(folder).resolve().name
    if not found:
        raise SimkitError(f"{folder}: this folder has no name\n  Give one with `--name`.")
    return found


def _check_target(file: str) -> None:
    if not file.endswith(PIPELINE_SUFFIX):
        raise SourceError(
            file, f"the name of a pipeline file must end with `{PIPELINE_SUFFIX}`",
            advice=f"Write `--output {Path(file).name.split('.')[0]}{PIPELINE_SUFFIX}`.",
        )  # fmt: skip
    if os.path.lexists(file):
        raise _taken(file)


def _taken(file: str) -> SourceError:
    return SourceError(
        file, "the file is there already, and nothing is overwritten",
        advice="Name another with `--output`, or move this one away.",
    )  # fmt: skip


def _write_new(file: str, text: str) -> None:
    """Writes a whole file or none; what appears there meanwhile is not overwritten either."""
    draft = Path(file).with_name(f".{Path(file).name}.{os.getpid()}")
    try:
        try:
            draft.write_text(text, encoding="utf-8", newline="\n")
            # Unlike a renaming, a link never takes another file's place.
            os.link(draft, file)
        finally:
            draft.unlink(missing_ok=True)
    except FileExistsError:
        raise _taken(file) from None
    except OSError as problem:
        raise SimkitError(f"{file}: {problem.strerror}") from None
