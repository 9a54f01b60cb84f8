"""Convert the YAML files of an agent engine into a pipeline file.

``python -m scenarios.agent_engine.from_engine DIR [--name NAME] [--output FILE]``, from the
project's top. An example of a converter: it reads the engine's words, and says with file and line
what has no counterpart.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from scenarios.agent_engine.from_engine.pipeline import comments_of, pipeline_of
from scenarios.agent_engine.from_engine.reading import engine_in
from simkit.cli.init.files import write_new
from simkit.core.errors import SimkitError, SourceError
from simkit.core.text import counted
from simkit.spec.scenario.items import PIPELINE_SUFFIX
from simkit.spec.scenario.writing import STEP, entry


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
    if not write_new(Path(file), _yaml_text(data, comments_of(engine))):
        raise _already_there(file)
    return Converted(file, _summary(data), engine.left_out)


def _yaml_text(data: Mapping[str, Any], comments: Mapping[str, str]) -> str:
    """Returns a mapping as a document; ``comments`` stand above its keys, "" above all."""
    lines = _comment(comments.get("", ""))
    for key, value in data.items():
        lines += [*_comment(comments.get(key, "")), *_entry(key, value, 0)]
    return "".join(f"{line}\n" for line in lines)


def _entry(key: str, value: Any, column: int) -> list[str]:
    """Returns the lines of an entry; a mapping of mappings is one line for each, to be edited."""
    if not isinstance(value, Mapping) or not any(isinstance(v, Mapping) for v in value.values()):
        return entry(key, value, column)
    (name,) = entry(key, {}, column)
    inner = (_entry(below, part, column + STEP) for below, part in value.items())
    return [name.removesuffix(" {}"), *(line for lines in inner for line in lines)]


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in text.splitlines()]


def _summary(data: Mapping[str, Any]) -> str:
    graph = data["flow"]["graph"]
    holders = {"node": graph["nodes"], "edge": graph["edges"], "agent": data["agents"]}
    holders["tool"] = data.get("tools", {})
    return ", ".join(counted(len(entries_held), noun) for noun, entries_held in holders.items())


def _name(folder: str, name: str) -> str:
    if name and Path(name).name != name:
        raise SimkitError(
            f"--name {name}: a name is no path\n  `--output FILE` says where the file is written."
        )
    pipeline_name = name or Path(folder).resolve().name
    if not pipeline_name:
        raise SimkitError(f"{folder}: this folder has no name\n  Give one with `--name`.")
    return pipeline_name


def _check_target(file: str) -> None:
    if not file.endswith(PIPELINE_SUFFIX):
        raise SourceError(
            file,
            f"the name of a pipeline file must end with `{PIPELINE_SUFFIX}`",
            advice=f"Write `--output {Path(file).name.split('.')[0]}{PIPELINE_SUFFIX}`.",
        )
    if os.path.lexists(file):
        raise _already_there(file)


def _already_there(file: str) -> SourceError:
    return SourceError(
        file,
        "the file is there already, and nothing is overwritten",
        advice="Name another with `--output`, or move this one away.",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert one folder; return 0, or 2 for what cannot be read or written."""
    parser = argparse.ArgumentParser(prog="from_engine", description="Convert an engine's files.")
    parser.add_argument("folder", help="the folder with workflow.yaml")
    parser.add_argument("--name", default="", help="the pipeline's name (default: the folder's)")
    parser.add_argument("--output", default="", help="the file to write")
    options = parser.parse_args(arguments)
    try:
        done = convert(options.folder, options.name, options.output)
    except SimkitError as problem:
        print(problem, file=sys.stderr)
        return 2
    for line in done.left_out:
        print(line, file=sys.stderr)
    print(f"{done.file}: {done.summary}")
    print(f"`simkit validate {done.file}` says what it lacks.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
