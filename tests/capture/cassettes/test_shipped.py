"""The cassettes of the repository are what the code sends today, and hold no secret."""

from __future__ import annotations

import copy
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import chdir
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from simkit.core.errors import SimkitError
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import items_in
from simkit.trace.events import TurnFinished
from tests import stand_in
from tests.conftest import sample_by_day

ROOT = stand_in.ROOT
FOLDER = ROOT / "cassettes"
FILES = sorted(FOLDER.rglob("*.yaml"))
NOW = "2026-01-05T09:00:00Z"
VOLATILE = ("recorded_at", "offsets_ms", "x-stainless-package-version")
PATTERN = re.compile(r"127\.0\.0\.1|localhost|\[::1\]|/(?:home|root|tmp|work|Users|private|var)/")
SECRET = re.compile(r"sk-[\w-]{8}|Bearer |authorization|x-api-key|cookie", re.IGNORECASE)


def ids(file: Path) -> str:
    return str(file.relative_to(FOLDER))


@cache
def recorded() -> tuple[Prepared, ...]:
    return tuple(stand_in.recorded_scenarios())


def lasting(value: Any) -> Any:
    """What of a cassette is the same each time."""
    if isinstance(value, dict):
        return {key: lasting(inner) for key, inner in value.items() if key not in VOLATILE}
    return [lasting(item) for item in value] if isinstance(value, list) else value


def data_of(file: Path) -> Any:
    return lasting(yaml.safe_load(file.read_text(encoding="utf-8")))


@pytest.mark.slow
@pytest.mark.parametrize("folder", sorted({Path(file).parent.name for file in stand_in.PAIRS}))
def test_a_recording_from_the_stand_in_is_the_one_that_is_here(folder: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "cassettes").mkdir()
    source = ROOT / "scenarios" / folder
    shutil.copytree(source, tmp_path / "scenarios" / folder)

    with chdir(tmp_path):
        for prepared in stand_in.recorded_scenarios(tmp_path, folder):
            stand_in.record_from_stand_in(prepared, NOW)
    paths = sorted((tmp_path / "cassettes").rglob("*.yaml"))

    if not paths:
        pytest.skip(f"nothing that {folder} needs is installed")
    for file in paths:
        assert data_of(file) == data_of(FOLDER / file.relative_to(tmp_path / "cassettes")), file


@pytest.mark.parametrize("file", FILES, ids=ids)
def test_a_cassette_names_no_place_of_a_machine_and_no_secret(file: Path) -> None:
    text = file.read_text(encoding="utf-8")

    assert PATTERN.findall(text) == []
    assert SECRET.findall(text) == []
    assert str(ROOT) not in text
    assert not re.search(rf"\b{re.escape(socket.gethostname())}\b", text)


@pytest.mark.parametrize("file", FILES, ids=ids)
def test_a_cassette_says_that_no_provider_was_asked(file: Path) -> None:
    assert file.read_text(encoding="utf-8").startswith(stand_in.NOTE)


def test_every_cassette_answers_a_scenario_that_the_stand_in_can_record_again() -> None:
    library = Library()
    items = [item for file in stand_in.PAIRS for item in items_in(str(ROOT / file))]

    used = {stand_in.cassette_of(library.prepared(item)).resolve() for item in items}

    assert sorted(used) == FILES


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values in claims, but for those that are denied."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in pairs:
        if key in ("$not", "excludes"):
            continue
        if isinstance(inner, (dict, list)):
            yield from leaves(inner, (*path, key))
        else:
            yield (*path, key)


def another(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, (int, float)) else f"{value} and more"


@cache
def first_rows() -> dict[tuple[str, int], Prepared]:
    """One scenario of each table."""
    cases_by_key: dict[tuple[str, int], Prepared] = {}
    for prepared in recorded():
        cases_by_key.setdefault((prepared.item.file, prepared.item.index), prepared)
    return cases_by_key


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(stand_in.PAIRS))
def test_every_claim_on_what_was_recorded_can_fail(file: str) -> None:
    rows = [item for (name, _), item in first_rows().items() if name.endswith(file)]
    if not rows:
        pytest.skip(f"nothing that {file} needs is installed")

    for row in rows:
        assert not fails_with(row)
        green = []
        for place, turn in enumerate(row.document.data["turns"]):
            for path in sample_by_day(leaves(turn.get("expect", {})), 3):
                if not fails_with(row, ("turns", place, "expect", *path)):
                    green.append((place, *path))
        assert green == []


def fails_with(prepared: Prepared, path: tuple[Any, ...] = ()) -> bool:
    """Whether a scenario is red, or refused, when the value at a path of it is another."""
    data = copy.deepcopy(prepared.document.data)
    inner = data
    for part in path[:-1]:
        inner = inner[part]
    if path:
        inner[path[-1]] = another(inner[path[-1]])
    library = Library().with_document(prepared.document.with_data(data))
    try:
        return not simulate(library.prepared(prepared.item)).passed
    except SimkitError:
        return True


MISS = """\
cassettes/plain_http/openai_chat_plain.yaml: no recording answers agent 'chat' in turn 1: \
POST /v1/chat/completions
  nothing was recorded that asks the same
  nearest: interactions[0], agent 'chat', turn 1, call 1, has not answered yet
    ~ messages[0] system
        - Chat. What you do not know, pass on: LOOKUP: and a query.
        + Chat. Be brief. What you do not know, pass on: LOOKUP: and a query.
      = 1 message
  if the change is meant, record again: simkit record \
'scenarios/plain_http/drift.scenario.yaml::a prompt that drifted from its recording is answered \
by nothing' --mode all"""


def test_a_prompt_that_drifted_from_its_recording_shows_what_of_which_message_is_new() -> None:
    with chdir(ROOT):
        (item,) = items_in("scenarios/plain_http/drift.scenario.yaml")
        outcome = simulate(Library().prepared(item))
    ended = next(event for event in outcome.trace.events if isinstance(event, TurnFinished))

    assert outcome.passed
    assert ended.error is not None
    assert ended.error.message == MISS
