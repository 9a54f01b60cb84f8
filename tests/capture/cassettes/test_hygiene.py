from __future__ import annotations

from datetime import date
from pathlib import Path

import msgspec

from simkit.capture.cassettes import Cassette, OverAge, cassettes_in, over_age
from tests.capture.cassettes.requests import chat, recorded


def aged(*days: str) -> Cassette:
    items = (msgspec.structs.replace(recorded(chat("a"), "1"), recorded_at=day) for day in days)
    return Cassette(Path("a.yaml"), tuple(items))


def test_cassettes_are_found_by_their_names(tmp_path: Path) -> None:
    names = ["b.yaml", "a.json", "deep/c.yml", "deep/notes.md", ".a.yaml.7.tmp", ".b.yaml"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    cassettes = cassettes_in(tmp_path)

    assert cassettes == [tmp_path / "a.json", tmp_path / "b.yaml", tmp_path / "deep/c.yml"]


def test_cassette_is_as_old_as_its_oldest_interaction() -> None:
    cassettes = [
        aged("2026-01-30T10:00:00Z", "2026-01-02T03:04:05+00:00"),
        aged("2026-01-21"),
        aged("", "yesterday"),
        aged(),
    ]

    result = list(over_age(cassettes, date(2026, 2, 1), 11))

    assert result == [OverAge(Path("a.yaml"), "2026-01-02T03:04:05+00:00", 30)]
