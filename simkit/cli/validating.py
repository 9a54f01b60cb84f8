"""What ``simkit validate`` does: reads every file and puts every scenario together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from simkit.errors import SourceError
from simkit.scenario.files import Library
from simkit.scenario.items import (
    PIPELINE_SUFFIX,
    SCENARIO_SUFFIX,
    items_in,
    misnamed,
    scenario_files,
)


class Report(msgspec.Struct, frozen=True):
    """What was checked, and what is wrong."""

    files: int
    scenarios: int
    """Rows of tables count one by one."""
    problems: tuple[str, ...]
    """In the order of files and documents; one a document."""


def checked(paths: Sequence[str]) -> Report:
    """Returns what is wrong with the files at the paths.

    Raises SourceError for a path that is not there, or where there is nothing to check.
    """
    files = list(dict.fromkeys(file for path in paths for file in _files(path)))
    if not files:
        raise SourceError(
            ", ".join(paths),
            f"there is nothing to check: no `*{SCENARIO_SUFFIX}` and no `*{PIPELINE_SUFFIX}` file",
            advice=next(filter(None, map(misnamed, paths)), ""),
        )
    library = Library()
    problems: dict[str, None] = {}
    scenarios = 0
    for file in files:
        for problem in _problems(file, library):
            if isinstance(problem, str):
                problems[problem] = None
            else:
                scenarios += problem
    return Report(len(files), scenarios, tuple(problems))


def _files(path: str) -> list[str]:
    place = Path(path)
    file, parting, _ = path.partition("::")
    if parting and not place.exists():
        advice = f"Write `simkit validate {file}`."
        raise SourceError(path, "files are checked whole", advice=advice)
    if not place.is_dir():
        return scenario_files(path)
    pipelines = (
        str(found)
        for found in place.rglob(f"*{PIPELINE_SUFFIX}")
        if not any(part.startswith(".") for part in found.relative_to(place).parts)
    )
    return sorted([*scenario_files(path), *pipelines])


def _problems(file: str, library: Library) -> Iterator[str | int]:
    """Yields what is wrong in a file, and 1 for each scenario in it."""
    try:
        items = items_in(file)
        documents = library.documents(file)
    except SourceError as problem:
        yield str(problem)
        return
    for document in documents:
        if isinstance(document.data, dict) and "pipeline" in document.data:
            if "scenario" in document.data:
                continue
            try:
                library.pipeline(document)
            except SourceError as problem:
                yield str(problem)
    wrong: set[int] = set()
    for item in items:
        yield 1
        # The rows of one table are one document.
        if item.index in wrong:
            continue
        try:
            library.prepared(item)
        except SourceError as problem:
            wrong.add(item.index)
            yield str(problem)
