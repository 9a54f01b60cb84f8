"""Implementation of ``simkit cassettes``: find cassettes and their scenarios, read them, print."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace
from tabulate import tabulate

from simkit.capture import cassettes
from simkit.core.answers import answer
from simkit.core.errors import CassetteInvalid
from simkit.core.output import echo, echo_json
from simkit.core.redact import Redactor
from simkit.core.stopping import BROKEN
from simkit.core.text import counted
from simkit.providers.http import HttpRequest
from simkit.providers.protocols import protocol_of
from simkit.session.execution.recorded import FOLDER, cassette_path, simulation_of, user_cassettes
from simkit.spec.scenario import items as scenario_items
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.simulations import prepare_simulation

_SKIPPED: Final = frozenset(("__pycache__", "node_modules", "site-packages"))
_KILO: Final = 1_000
_NAMES_MAX: Final = 4
"""The number of protocols and hosts in a line; `--format json` has them all."""


class User(msgspec.Struct, frozen=True):
    """A scenario, or a simulation, that names a cassette."""

    id: str
    name: str
    days_max: int | None


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about one cassette."""

    file: str
    scenarios: tuple[str, ...] = ()
    """The scenarios and simulations that name it; empty for an orphan."""
    interactions: int = 0
    protocols: Mapping[str, int] = {}
    """Protocol to the number of interactions; requests that are no model calls are under method
    and host."""
    bytes: int = 0
    recorded_at: str = ""
    """The date of the oldest interaction; empty if the file does not give it."""
    days: int | None = None
    """The age of that interaction in days; None if it is not known."""
    is_orphan: bool = False
    days_over: int = 0
    """The number of days by which it is older than a scenario allows."""
    stale: int = 0
    """The number of interactions of scenarios that do not name the file."""
    error: str = ""
    """Why it cannot be read; else empty."""


def list_cassettes(paths: Sequence[str], form: str, strict: bool) -> int:
    """Print the facts about each cassette; return the exit code."""
    used = users(paths)
    today = datetime.now(UTC).date()
    files = _some(_files(paths, used), paths)
    rows = [_listed(file, used.get(file.resolve(), ()), today) for file in files]
    if form == "json":
        echo_json(msgspec.json.format(msgspec.json.encode({"cassettes": rows}), indent=2).decode())
    else:
        for line in _lines(rows):
            echo(line)
    if any(row.error for row in rows):
        return BROKEN
    return int(strict and any(row.is_orphan or row.days_over or row.stale for row in rows))


def scan_cassettes(paths: Sequence[str], form: str) -> int:
    """Print the places of secrets; return the exit code."""
    files = _some(list(_scanned(paths)), paths or (".",))
    redactor = Redactor(os.environ)
    leaks, errors = list[cassettes.Leak](), list[str]()
    for file in files:
        try:
            leaks_found = cassettes.scan_file(file, redactor)
        except CassetteInvalid as problem:
            errors.append(str(problem))
            continue
        leaks += leaks_found.leaks
        # A named folder may contain YAML and JSON files of other kinds.
        if leaks_found.problem and (leaks_found.is_cassette or _is_meant(file, paths)):
            errors.append(leaks_found.problem)
    if form == "json":
        summary = {"files": len(files), "leaks": leaks, "errors": errors}
        echo_json(msgspec.json.format(msgspec.json.encode(summary), indent=2).decode())
    else:
        for leak in leaks:
            where = f"{leak.file}:{leak.line}" if leak.line else leak.file
            at = f"\n  at {leak.at}" if leak.at else ""
            echo(f"{where}: a secret, known by the rule `{leak.rule}`{at}")
        for error in errors:
            echo(error, err=True)
        secrets = counted(len(leaks), "secret") if leaks else "no secret found"
        echo(f"{counted(len(files), 'file')}: {secrets}")
    return BROKEN if errors else int(bool(leaks))


def _some(files: list[Path], paths: Sequence[str]) -> list[Path]:
    """Return the files, of which there is one at least; raise CassetteInvalid."""
    if not files:
        raise CassetteInvalid(
            f"{', '.join(paths)}: no cassette is here: none that a scenario names, and none in a "
            f"folder `{FOLDER}`. `simkit record` writes them"
        )
    return files


def import_cassette(source: str, target: str) -> int:
    """Write a new cassette with what another recorder's file holds; return 0.

    Raise CassetteInvalid if the file cannot be read or written, or the new one is there.
    """
    if os.path.lexists(target):
        raise CassetteInvalid(f"{target}: this file is there, and is not overwritten")
    interactions = cassettes.load_foreign(source).interactions
    protocols = [protocol_of(item.request) for item in interactions]
    items = [
        replace(item, protocol=protocol.name if protocol else "")
        for item, protocol in zip(interactions, protocols, strict=True)
    ]
    cassettes.save(target, items, cassettes.Keying(Redactor(os.environ)))
    answer(cassette=target, interactions=len(interactions))
    echo(f"{target}: {counted(len(interactions), 'interaction')} from {source}")
    return 0


def _is_meant(file: Path, paths: Sequence[str]) -> bool:
    """Return whether a file must be a cassette: by its name on the command line, or its folder."""
    return not paths or file in map(Path, paths) or FOLDER in file.parts


def users(paths: Iterable[str]) -> dict[Path, tuple[User, ...]]:
    """Return the scenarios and simulations below paths by their cassettes; raise SourceError."""
    library = Library()
    users_found: dict[Path, tuple[User, ...]] = {}
    for path, user in (*_scenario_users(library, paths), *_simulation_users(library, paths)):
        users_found[path.resolve()] = (*users_found.get(path.resolve(), ()), user)
    return users_found


def _scenario_users(library: Library, paths: Iterable[str]) -> Iterator[tuple[Path, User]]:
    for file in dict.fromkeys(_files_named(paths, scenario_items.SCENARIO_SUFFIX)):
        for item in scenario_items.items_in(file, library.cache):
            data = library.documents(file)[item.index].data
            if not isinstance(data, dict) or "cassette" not in data:
                continue
            prepared = library.prepared(item)
            path = cassette_path(prepared)
            if path is not None:
                yield path, _user(prepared)


def _simulation_users(library: Library, paths: Iterable[str]) -> Iterator[tuple[Path, User]]:
    """Yield the cassettes of simulated users with a model."""
    for file in dict.fromkeys(_files_named(paths, scenario_items.SIMULATION_SUFFIX)):
        for case in scenario_items.simulations_in(file, library.cache):
            document = library.documents(file)[case.index]
            if document.mentions("cassette"):
                ready = prepare_simulation(library, case, document)
                for path in set(user_cassettes(ready.prepared, ready.simulation).values()):
                    yield path, User(case.id, case.name, None)


def _user(prepared: Prepared) -> User:
    options = prepared.scenario.cassette
    days_max = options.max_age_days if options is not None else None
    return User(prepared.item.id, prepared.item.name, days_max)


def _files_named(paths: Iterable[str], suffix: str) -> Iterator[str]:
    for folder in _folders(paths):
        yield from sorted(str(file) for file in folder.glob(f"*{suffix}"))


def _files(paths: Sequence[str], used: Mapping[Path, tuple[User, ...]]) -> list[Path]:
    """Return the files that scenarios name, and those in folders of cassettes, each once."""
    by_path = {Path(path).resolve(): Path(path) for path in paths if Path(path).is_file()}
    for folder in _folders(paths):
        if folder.name == FOLDER or folder.resolve().name == FOLDER:
            by_path.update({file.resolve(): file for file in cassettes.cassettes_in(folder)})
    for file in used:
        if file.exists():
            by_path.setdefault(file, _short_path(file))
    return sorted(by_path.values())


def _short_path(file: Path) -> Path:
    folder = Path.cwd()
    return file.relative_to(folder) if file.is_relative_to(folder) else file


def _folders(paths: Iterable[str]) -> Iterator[Path]:
    """Yield folders and those below them, except libraries and hidden ones."""
    for path in paths:
        if not Path(path).exists():
            raise scenario_items.missing(path)
        for name, below, files in os.walk(path):
            if "pyvenv.cfg" in files:
                below.clear()
                continue
            below[:] = sorted(n for n in below if n not in _SKIPPED and not n.startswith("."))
            yield Path(name)


def _scanned(paths: Sequence[str]) -> Iterator[Path]:
    if not paths:
        yield from _files((".",), users((".",)))
    for path in paths:
        if Path(path).is_file():
            yield Path(path)
        elif Path(path).is_dir():
            yield from cassettes.cassettes_in(path)
        else:
            raise scenario_items.missing(path)


def _listed(file: Path, used: tuple[User, ...], today: date) -> Listed:
    names = {user.name for user in used}
    size, identities = file.stat().st_size, tuple(user.id for user in used)
    listed = Listed(file=str(file), scenarios=identities, bytes=size)
    try:
        cassette = cassettes.load(file)
    except CassetteInvalid as problem:
        return replace(listed, error=str(problem))
    items = cassette.interactions
    days, recorded_at = cassettes.age_of(cassette, today)
    limits = [user.days_max for user in used if user.days_max is not None]
    return replace(
        listed,
        interactions=len(items),
        protocols=_protocols(cassette),
        recorded_at=recorded_at,
        days=days,
        is_orphan=not used,
        days_over=max(days - min(limits), 0) if limits and days is not None else 0,
        stale=sum(_is_stale(item.scenario, names) for item in items),
    )


def _is_stale(scenario: str, names: Collection[str]) -> bool:
    """Return whether an interaction belongs to none of those that name its file.

    Those of a simulation's users have the simulation's run in their scenario's place.
    """
    is_known = scenario in names or simulation_of(scenario) in names
    return bool(names and scenario) and not is_known


def _protocols(cassette: cassettes.Cassette) -> dict[str, int]:
    counts = Counter(
        interaction.protocol or _foreign(interaction.request)
        for interaction in cassette.interactions
    )
    return dict(sorted(counts.items()))


def _foreign(request: HttpRequest) -> str:
    """Return the name of a request that is no model call: ``GET api.example.com``."""
    try:
        host = urlsplit(request.url).netloc.rpartition("@")[2]
    except ValueError:
        host = ""
    return f"{request.method} {host or request.url.partition('?')[0] or 'nowhere'}"


def _lines(scanned: Sequence[Listed]) -> Iterator[str]:
    rows = [_row(row) for row in scanned if not row.error]
    table = iter(tabulate(rows, tablefmt="plain", disable_numparse=True).splitlines())
    for row in scanned:
        yield row.error or next(table).rstrip()
    yield _summary(scanned)


def _row(row: Listed) -> tuple[str, ...]:
    cells = []
    if row.is_orphan:
        cells.append("orphan: no scenario names it")
    if row.days_over:
        cells.append(f"over age by {counted(row.days_over, 'day')}")
    if row.stale:
        cells.append(f"{counted(row.stale, 'interaction')} of no scenario that names it")
    age = "age unknown" if row.days is None else counted(row.days, "day")
    size = f"{row.bytes / _KILO:,.1f} kB"
    names = [*row.protocols]
    protocols = ", ".join(names[:_NAMES_MAX]) or "nothing"
    if len(names) > _NAMES_MAX:
        protocols += f", {len(names) - _NAMES_MAX} more"
    count_text = counted(row.interactions, "interaction")
    return row.file, count_text, protocols, size, age, "; ".join(cells)


def _summary(rows: Sequence[Listed]) -> str:
    counts = {
        "orphan": sum(row.is_orphan for row in rows),
        "over age": sum(bool(row.days_over) for row in rows),
        "unreadable": sum(bool(row.error) for row in rows),
    }
    counts_text = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
    return counted(len(rows), "cassette") + (f": {counts_text}" if counts_text else "")
