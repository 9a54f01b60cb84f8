from __future__ import annotations

from datetime import date
from pathlib import Path

import msgspec
import pytest

from simkit.capture.cassettes import Cassette, age_of, cassettes_in
from tests.capture.cassettes.requests import chat, recorded


def aged(*days: str) -> Cassette:
    items = (msgspec.structs.replace(recorded(chat("a"), "1"), recorded_at=day) for day in days)
    return Cassette(Path("a.yaml"), tuple(items))


def test_cassettes_are_found_by_their_names(tmp_path: Path) -> None:
    names = ["b.yaml", "a.json", "deep/c.yaml.gz", "deep/notes.md", ".a.yaml.7.tmp", ".b.yaml"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    cassettes = cassettes_in(tmp_path)

    assert cassettes == [tmp_path / "a.json", tmp_path / "b.yaml", tmp_path / "deep/c.yaml.gz"]


@pytest.mark.parametrize(
    ("days", "age"),
    [
        (("2026-01-30T10:00:00Z", "2026-01-02T03:04:05+00:00"), (30, "2026-01-02T03:04:05+00:00")),
        (("2026-01-21", "yesterday"), (11, "2026-01-21")),
        (("2026-02-03",), (0, "2026-02-03")),
        (("", "yesterday"), (None, "")),
        ((), (None, "")),
    ],
)
def test_cassette_is_as_old_as_its_oldest_interaction(
    days: tuple[str, ...], age: tuple[int | None, str]
) -> None:
    assert age_of(aged(*days), date(2026, 2, 1)) == age
