"""Selection of scenarios: paths, ``PATH::NAME``, ``-k``, and those that failed last time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from simkit.cli.configured_paths import configured_paths
from simkit.cli.keywords import keyword
from simkit.core.errors import SourceError
from simkit.language.yaml import DocumentCache, near
from simkit.report.results import Result
from simkit.spec.scenario.items import SCENARIO_SUFFIX, ScenarioCase, items_in, scenario_files

DEFAULT_PATH: Final = "scenarios"
"""The default folder."""
NAMES_MAX: Final = 12
"""The number of names in an error."""

SelectedEntry: TypeAlias = ScenarioCase | Result
"""A scenario to run, or the result of an unreadable file."""


class Selection(msgspec.Struct, frozen=True):
    """The selected scenarios, in the order of the command and of the files."""

    entries: tuple[SelectedEntry, ...]
    deselected: int = 0
    """The number of scenarios that do not fit ``-k`` or did not fail."""
    by_name: bool = False
    """Whether the user named every scenario."""

    @property
    def items(self) -> list[ScenarioCase]:
        """Return the scenarios that can run."""
        return [entry for entry in self.entries if isinstance(entry, ScenarioCase)]


def paths_or_default(paths: Sequence[str]) -> Sequence[str]:
    """Return the given paths; else pytest's `testpaths` with scenarios, else `scenarios`.

    Raise SourceError if that does not exist.
    """
    if not paths:
        paths = [path for path in configured_paths(".") if _holds_scenarios(path)]
    if not paths and not Path(DEFAULT_PATH).exists():
        raise SourceError(
            DEFAULT_PATH,
            "there is no such folder, and the call names no other",
            advice="Name files or folders (`.` is this one), set pytest's `testpaths`, or begin "
            "with `simkit init`.",
        )
    return paths or (DEFAULT_PATH,)


def _holds_scenarios(path: str) -> bool:
    return path.endswith(SCENARIO_SUFFIX) or any(Path(path).rglob(f"*{SCENARIO_SUFFIX}"))


def select(
    paths: Sequence[str], cache: DocumentCache | None = None, *, expression: str = ""
) -> Selection:
    """Return the scenarios in the paths that fit ``-k``; an invalid file gives its own result.

    A caller that runs them passes the cache of documents.
    Raise SourceError for a path or name that does not exist.
    """
    cache = DocumentCache() if cache is None else cache
    entries = list(_unique(entry for path in paths for entry in _at(path, cache)))
    fits = keyword(expression) if expression else None
    kept_entries = tuple(
        entry
        for entry in entries
        if fits is None or isinstance(entry, Result) or fits(_searched(entry))
    )
    by_name = all(parted(path)[1] for path in paths)
    return Selection(kept_entries, len(entries) - len(kept_entries), by_name)


def only(
    selection: Selection, identities: Iterable[str], safe: Callable[[str], str] = str
) -> Selection:
    """Return the scenarios of a selection with one of the ids, compared after ``safe``."""
    wanted_ids = set(identities)
    entries_kept = tuple(entry for entry in selection.entries if safe(entry.id) in wanted_ids)
    left_out = selection.deselected + len(selection.entries) - len(entries_kept)
    return Selection(entries_kept, left_out, selection.by_name)


def parted(path: str) -> tuple[str, str]:
    """Return file and scenario name of ``PATH::NAME``; the name is empty if there is none."""
    file, _, name = path.partition("::")
    return file, name


def _searched(item: ScenarioCase) -> str:
    return " ".join((item.id, *item.tags))


def _unique(entries: Iterable[SelectedEntry]) -> Iterator[SelectedEntry]:
    visited: set[str] = set()
    for entry in entries:
        if entry.id not in visited:
            visited.add(entry.id)
            yield entry


def _at(path: str, cache: DocumentCache) -> Iterator[SelectedEntry]:
    place, name = parted(path)
    items: list[ScenarioCase] = []
    for file in scenario_files(place):
        try:
            entries_there = items_in(file, cache)
        except SourceError as problem:
            yield Result(file, file, 1, "", "broken", error=str(problem))
            continue
        items += entries_there
        if not name:
            yield from entries_there
    if name:
        yield from _named(place, items, name)


def _named(place: str, items: Sequence[ScenarioCase], name: str) -> list[ScenarioCase]:
    """Return the scenario of that name, or all rows of its table."""
    exact = [item for item in items if item.name == name]
    rows = [item for item in items if item.row is not None and name in _names_of(item)]
    if exact or rows:
        return exact or rows
    known = tuple(item.name for item in items)
    nearest = near(name, known)
    raise SourceError(
        place,
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


def paths_of(identities: Iterable[str]) -> list[str]:
    """Return the existing files of ids, each once."""
    files = dict.fromkeys(parted(identity)[0] for identity in identities)
    return [file for file in files if Path(file).exists()]
