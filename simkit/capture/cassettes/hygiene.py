"""Hygiene: cassettes that nothing uses, and those that are too old."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Final

import msgspec

from simkit.capture.cassettes.values import Cassette

_ENDINGS: Final = (".yaml", ".yml", ".json", ".yaml.gz", ".yml.gz", ".json.gz")


class OverAge(msgspec.Struct, frozen=True, gc=False):
    """A cassette with an interaction that was recorded too long ago."""

    path: Path
    recorded_at: str
    """The date of its oldest interaction."""
    days: int
    """The age of that interaction in days."""


def cassettes_in(folder: str | Path) -> list[Path]:
    """Return the cassettes below a folder, by their names, sorted."""
    paths = Path(folder).rglob("*")
    return sorted(
        path
        for path in paths
        if path.name.endswith(_ENDINGS) and not path.name.startswith(".") and path.is_file()
    )


def orphans(files: Iterable[Path], named: Iterable[Path]) -> list[Path]:
    """Return the cassettes that no scenario names, in the order of ``files``."""
    known = {path.resolve() for path in named}
    return [path for path in files if path.resolve() not in known]


def over_age(cassettes: Iterable[Cassette], today: date, days_max: int) -> Iterator[OverAge]:
    """Yield the cassettes that are older than ``days_max`` days.

    A cassette without dates, as other recorders write them, has no age.
    """
    for cassette in cassettes:
        known = [
            (day, item.recorded_at)
            for item in cassette.interactions
            if (day := _day(item.recorded_at)) is not None
        ]
        if known:
            day, recorded_at = min(known)
            if (today - day).days > days_max:
                yield OverAge(cassette.path, recorded_at, (today - day).days)


def _day(recorded_at: str) -> date | None:
    try:
        return datetime.fromisoformat(recorded_at).date()
    except ValueError:
        return None
