"""What each way to run a scenario makes once: the parse of a file, a matcher, the view of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.making import WAYS
from tests.processes import run_python

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def counts_by_way(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    """What each way made, counted in a process of its own."""
    done = run_python("-m", "tests.making", folder=tmp_path_factory.mktemp("desk"))
    assert done.returncode == 0, done.stderr
    counts: dict[str, dict[str, int]] = json.loads(done.stdout)
    return counts


@pytest.mark.parametrize("way", [way for way in WAYS if not way.startswith(("validate", "update"))])
def test_a_run_has_one_view(way: str, counts_by_way: dict[str, dict[str, int]]) -> None:
    assert counts_by_way[way]["view"] == 1


@pytest.mark.parametrize("way", [way for way in WAYS if "update" not in way])
def test_a_file_is_read_and_parsed_once(way: str, counts_by_way: dict[str, dict[str, int]]) -> None:
    counts = {name: count for name, count in counts_by_way[way].items() if name.endswith(".yaml")}

    assert counts
    assert set(counts.values()) == {1}


@pytest.mark.parametrize("way", WAYS)
def test_a_matcher_is_compiled_once(way: str, counts_by_way: dict[str, dict[str, int]]) -> None:
    counts = {
        name: count for name, count in counts_by_way[way].items() if name.startswith("matcher ")
    }

    assert counts or "refused" in way
    assert set(counts.values()) <= {1}


@pytest.mark.parametrize(("way", "runs"), [("update", 2), ("item and its update", 1)])
def test_an_update_parses_a_file_and_what_it_becomes(
    way: str, runs: int, counts_by_way: dict[str, dict[str, int]]
) -> None:
    """The command also runs what it has written."""
    assert counts_by_way[way]["parse of failing.scenario.yaml"] == 2
    assert counts_by_way[way]["parse of desk.pipeline.yaml"] == 1
    assert counts_by_way[way]["view"] == runs
