"""Scenarios in files, found by the heads of documents: nothing else is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from simkit.core.errors import ReferenceInvalid, SourceError
from simkit.core.output import note_secrets
from simkit.core.redact import redactor_of, secrets_written_in
from simkit.core.text import shell_word, short
from simkit.language.paths import as_text
from simkit.language.paths import compile as compile_references
from simkit.language.yaml import DocumentCache, Head, near, text_of
from simkit.spec.scenario.code_names import advice_on

SCENARIO_SUFFIX: Final = ".scenario.yaml"
PIPELINE_SUFFIX: Final = ".pipeline.yaml"
SIMULATION_SUFFIX: Final = ".simulation.yaml"
_NAMING: Final = ("scenario", "pipeline")
"""The keys that say what a document is."""
_SCENARIO_KEYS: Final = ("scenario", "turns", "examples", "expect", "needs")
_PIPELINE_KEYS: Final = ("pipeline", "agents", "channels", "contracts", "flow")
_FEATURES: Final = "pytest runs features: name it in a module, `scenarios(…)` of pytest-bdd."
_KINDS_ADVICE: Final = (
    "A pipeline has `pipeline:` and `agents:`, a scenario `scenario:` and `turns:`."
)
_SIMULATED: Final = "a document must be a pipeline or a simulation"
NAMES_MAX: Final = 12
"""The number of names in an error."""
LABEL_MAX: Final = 60
"""The length of a row's values in its name."""
Heads: TypeAlias = Callable[[str], list[Head]]
"""Function that reads the heads of a file."""


class ScenarioCase(msgspec.Struct, frozen=True):
    """One scenario to run: a document, and a row if it has a table."""

    file: str
    name: str
    """The scenario's name, with the row's name or values."""
    index: int
    """The index of the document in the file."""
    line: int
    row: int | None = None
    tags: tuple[str, ...] = ()
    skip: str | None = None
    """Why it is not run; None if it is run."""
    needs: tuple[str, ...] = ()
    """Distributions that it needs, from the document and from files under ``use``."""
    pipeline: str = ""
    """The name of its pipeline, as written."""
    outline: str = ""
    """The common name of all rows of its table; empty without a table."""

    @property
    def id(self) -> str:
        """Return ``file::name``."""
        return f"{self.file}::{self.name}"


def scenario_files(path: str | Path) -> list[str]:
    """Return the scenario files of a folder, sorted; a file is returned as it is.

    Raise SourceError if the path does not exist.
    """
    address = Path(path)
    if address.is_dir():
        return sorted(
            str(path_)
            for path_ in address.rglob(f"*{SCENARIO_SUFFIX}")
            if not any(part.startswith(".") for part in path_.relative_to(address).parts)
        )
    if not os.path.exists(address):
        raise missing(str(path))
    if address.name.endswith(SIMULATION_SUFFIX):
        raise SourceError(
            str(path),
            "is no scenario file",
            advice=f"Simulations are explored: `simkit explore {shell_word(str(path))}`.",
        )
    if not address.name.endswith((SCENARIO_SUFFIX, PIPELINE_SUFFIX)):
        raise SourceError(
            str(path),
            f"is no scenario file: its name must end with `{SCENARIO_SUFFIX}`",
            advice=_FEATURES
            if address.suffix == ".feature"
            else advice_on(str(path))
            or f"Name it `{address.name.split('.')[0]}{SCENARIO_SUFFIX}`.",
        )
    return [str(path)]


def missing(path: str, *suffixes: str) -> SourceError:
    """Return the error about a path that does not exist, with the files beside it.

    A name without its ending is near the whole name, too.
    """
    address = Path(path)
    endings = suffixes or (SCENARIO_SUFFIX, SIMULATION_SUFFIX, PIPELINE_SUFFIX)
    files = {
        str(other): other.name.split(".")[0]
        for other in sorted(address.parent.glob("[!._]*"))
        if other.name.endswith(endings) or other.is_dir()
    }
    nearest = near(path, files) or next((file for file in files if files[file] == address.name), "")
    advice = advice_on(path)
    if "*" in path:
        advice = "A pattern in quotes is not expanded: leave the quotes off, or name a folder."
    nearest *= not advice
    if not (nearest or advice):
        listed = ", ".join(map(shell_word, [*files][:5]))
        advice = f"Here are: {listed}." if listed else "This folder holds no such files."
    problem = "this is a folder" if address.is_dir() else "there is no such file or folder"
    return SourceError(path, problem, near=nearest, advice=advice)


def is_pipeline(values: Mapping[str, Any]) -> bool:
    """Return whether a document with these keys declares a pipeline, rather than names one."""
    return "pipeline" in values and "scenario" not in values and "simulation" not in values


def misnamed(path: str | Path) -> str:
    """Return advice on a scenario in the folder, or one below, whose file has another ending."""
    for path_ in sorted([*Path(path).glob("*.y*ml"), *Path(path).glob("*/*.y*ml")]):
        is_other = path_.is_file() and not path_.name.endswith(SCENARIO_SUFFIX)
        if is_other and b"\nturns:" in path_.read_bytes():
            return f"`{path_}` holds one: name it `{path_.name.split('.')[0]}{SCENARIO_SUFFIX}`."
    for path_ in sorted([*Path(path).glob("*.feature"), *Path(path).glob("*/*.feature")]):
        return f'`{path_}` is run by pytest, in a module that has `scenarios("{path_.name}")`.'
    return ""


def readable(path: str) -> str:
    """Return a path whose bytes that are no UTF-8 are shown as escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def refuse_undecodable(path: str) -> None:
    """Raise SourceError for a name that no report could hold: its bytes are no UTF-8."""
    if not path.isprintable() and readable(path) != path:
        raise SourceError(readable(path), "the name of this file is not UTF-8", advice="rename it")


def items_in(file: str, cache: DocumentCache | None = None) -> list[ScenarioCase]:
    """Return the scenarios of a file; only their names and needs are read.

    A caller that runs them passes the cache of documents.
    """
    refuse_undecodable(file)
    read = (DocumentCache() if cache is None else cache).heads
    items: list[ScenarioCase] = []
    for head in read(file):
        if "scenario" in head.values:
            items += _items_of(file, head, read)
        elif "turns" in head.keys or "pipeline" not in head.values:
            raise _nameless(file, head)
    _refuse_twins(items)
    return items


def simulations_in(file: str, cache: DocumentCache) -> list[ScenarioCase]:
    """Return the simulations of a file; only their names and needs are read."""
    read = cache.heads
    items: list[ScenarioCase] = []
    for head in read(file):
        if "simulation" in head.values:
            values = {**head.values, "scenario": head.values["simulation"], "examples": None}
            items += _items_of(file, msgspec.structs.replace(head, values=values), read)
            continue
        for key, position in head.keys.items():
            if near(key, ("simulation", *_PIPELINE_KEYS)) == "simulation":
                where = f"{file}:{position}"
                raise SourceError(where, f"unknown key `{key}`: {_SIMULATED}", key, "simulation")
        if not is_pipeline(head.values):
            raise SourceError(
                f"{file}:{head.line}:1",
                _SIMULATED,
                advice="A simulation has `simulation:`, with its name, and `pipeline:`.",
            )
    _refuse_twins(items)
    return items


def parted(path: str) -> tuple[str, str]:
    """Return file and scenario name of ``PATH::NAME``; the name is empty if there is none."""
    file, _, name = path.partition("::")
    return file, name


def items_named(file: str, items: Sequence[ScenarioCase], name: str) -> list[ScenarioCase]:
    """Return the scenario of a file with that name, or all rows of its table; raise SourceError."""
    exact = [item for item in items if item.name == name]
    rows = [item for item in items if item.row is not None and name in _names_of(item)]
    if exact or rows:
        return exact or rows
    known = tuple(item.name for item in items)
    nearest = near(name, known)
    raise SourceError(
        file,
        f"there is no scenario {name!r}",
        near=nearest,
        advice=""
        if nearest or not known
        else "It holds:"
        + "".join(f"\n    {name_}" for name_ in known[:NAMES_MAX])
        + ("\n    …" if len(known) > NAMES_MAX else ""),
    )


def _names_of(item: ScenarioCase) -> tuple[str, str]:
    """Return the other names of a row: by its table, and by its number there."""
    return item.outline, f"{item.outline} [{(item.row or 0) + 1}]"


def _nameless(file: str, head: Head) -> SourceError:
    """Return the error about a document without the key that says what it is.

    A misspelt key is named with its place.
    """
    has_turns = "turns" in head.keys
    problem, advice = "a document must be a pipeline or a scenario", _KINDS_ADVICE
    if has_turns:
        problem = "a document with `turns:` is a scenario, and needs `scenario:` with its name"
        advice = ""
    for key, position in head.keys.items():
        nearest = near(key, (*_SCENARIO_KEYS, *_PIPELINE_KEYS))
        if key == nearest or nearest not in _NAMING or (has_turns and nearest != "scenario"):
            continue
        return SourceError(f"{file}:{position}", f"unknown key `{key}`: {problem}", key, nearest)
    return SourceError(f"{file}:{head.line}:1", problem, advice=advice)


def _refuse_twins(items: list[ScenarioCase]) -> None:
    first_items: dict[str, ScenarioCase] = {}
    for item in items:
        other = first_items.setdefault(item.name, item)
        if other is not item:
            raise SourceError(
                f"{item.file}:{item.line}:1",
                f"scenario {item.name!r} has the same name as the one in line {other.line}",
                advice="Give each scenario of a file a name of its own.",
            )


def _items_of(file: str, head: Head, read: Heads) -> Iterator[ScenarioCase]:
    name = text_of(head.values["scenario"]) or str(head.values["scenario"])
    tags_data = head.values.get("tags")
    tags = tuple(str(tag) for tag in tags_data) if isinstance(tags_data, list) else ()
    skip = text_of(head.values.get("skip"))
    pipeline = text_of(head.values.get("pipeline")) or ""
    needs = tuple(_needs(file, head.values, {file}, read))
    rows = head.values.get("examples")
    if not isinstance(rows, list) or not rows:
        yield ScenarioCase(file, name, head.index, head.line, None, tags, skip, needs, pipeline)
        return
    try:
        template = compile_references(name) if "${" in name else None
    except ReferenceInvalid as problem:
        raise SourceError(f"{file}:{head.line}:1", str(problem)) from None
    labels = _labels(rows)
    for number, row in enumerate(rows):
        row_name, outline = f"{name} [{labels[number]}]", name
        if template is not None and isinstance(row, dict):
            row_name = outline = str(template.resolve({"column": row}))
        yield ScenarioCase(
            file, row_name, head.index, head.line, number, tags, skip, needs, pipeline, outline
        )


def _labels(rows: Sequence[Any]) -> list[str]:
    """Return a name for each row of a table: its values, and its number if they repeat."""
    secrets = frozenset(secrets_written_in(rows))
    note_secrets(secrets)
    label_rows = redactor_of(secrets).texts(rows) if secrets else rows
    labels = [_label(row) for row in label_rows]
    return [
        label if label and labels.count(label) == 1 else f"{label} #{number}".strip()
        for number, label in enumerate(labels, 1)
    ]


def _label(row: Any) -> str:
    values = row.values() if isinstance(row, dict) else ()
    texts = [value if isinstance(value, str) else as_text(value) for value in values]
    return short(", ".join(" ".join(text.split()) for text in texts), LABEL_MAX)


def _needs(
    file: str, values: Mapping[str, Any], files_read: set[str], read: Heads
) -> Iterator[str]:
    """Yield the needs of a document and of the files under its ``use``; errors are reported later.

    ``files_read`` are the files read so far: ``use`` may be circular.
    """
    for name in _texts(values.get("use")):
        shared = str(Path(file).parent / name)
        if shared in files_read or not os.path.isfile(shared):
            continue
        files_read.add(shared)
        with suppress(SourceError):
            for head in read(shared):
                yield from _needs(shared, head.values, files_read, read)
    yield from _texts(values.get("needs"))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, str))
