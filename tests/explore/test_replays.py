"""Everything that a campaign finds is found again by its scenario, in a process of its own.

The campaigns are those of the reference systems' simulations, each with one fault in its pipeline
or none, and with failures and misbehaviour that the simulation does not speak of.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from simkit.core.errors import SimkitError
from simkit.explore.campaigns import Bounds, run_campaign
from simkit.explore.scenarios import scenario_text, shows
from simkit.explore.subjects import PROFILES, Subject, pipeline_subject, simulation_subject
from simkit.spec.pipeline.mutants import PipelineMutant, apply_edits, pipeline_mutants
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import ScenarioCase, simulations_in
from simkit.spec.scenario.writing import block
from tests.conftest import IS_NIGHTLY
from tests.processes import run_python

ROOT: Final = Path(__file__).resolve().parent.parent.parent
FILES: Final = sorted((ROOT / "scenarios").glob("*/*.simulation.yaml"))
CAMPAIGNS: Final = 80 if IS_NIGHTLY else 16
PARTS: Final = 4
"""Campaigns are spread over so many tests, so that processes of pytest share them."""
RUNS: Final = 25
NOTHING: Final = PipelineMutant(kind="none", text="no fault", path=(), edits=())
CODE: Final = (
    "scenarios.known_bugs.swarm_26:app",
    "scenarios.known_bugs.supervisor_230:app",
    "scenarios.known_bugs.langgraph_4007:app",
)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_what_campaigns_find_is_found_again_in_another_process(part: int, tmp_path: Path) -> None:
    expected: dict[str, list[str]] = {}
    count = 0
    for seed in range(part, CAMPAIGNS, PARTS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        expected |= dict(_discoveries(seed, folder))
        count += 1

    assert count == CAMPAIGNS // PARTS
    assert expected, "no campaign found anything"
    again = _replayed(expected)
    lost = {file: cause for file, cause in expected.items() if cause not in again[file]}
    assert lost == {}


def _discoveries(seed: int, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the files that a campaign writes, each with the cause that it must show."""
    rng = random.Random(seed)
    try:
        subject = _subject(rng, folder)
        campaign = run_campaign(
            "campaign",
            subject,
            Bounds(runs=RUNS, seed=seed, profile=rng.choice([None, None, *PROFILES])),
        )
    except SimkitError:
        # The fault is refused before anything runs.
        return
    for number, discovery in enumerate(campaign.discoveries):
        file = folder / f"found{number}.scenario.yaml"
        text = scenario_text(discovery, subject, folder, "simkit explore")
        file.write_text(text, encoding="utf-8")
        # The command keeps no file that does not show its cause, and says so.
        if shows(file, discovery.cause):
            yield str(file), [*discovery.cause]


def _subject(rng: random.Random, folder: Path) -> Subject:
    """Return a simulation of a reference system with one fault in its pipeline, or none."""
    library = Library()
    if rng.random() < 0.1:
        for name in ("langgraph_swarm", "langgraph_supervisor"):
            pytest.importorskip(name)
        return pipeline_subject(library, rng.choice(CODE))
    cases = [case for file in FILES for case in simulations_in(str(file), library.cache)]
    case = rng.choice(cases)
    data: dict[str, Any] = dict(library.documents(case.file)[case.index].data)
    source = Path(case.file).parent / data["pipeline"]
    pipeline = library.cache.documents(str(source))[0].data
    mutant = rng.choice([NOTHING, *pipeline_mutants(pipeline)])
    data["pipeline"] = "a.pipeline.yaml"
    _write(folder / "a.pipeline.yaml", apply_edits(pipeline, mutant.edits))
    _write(folder / "a.simulation.yaml", data)
    if rng.random() < 0.2:
        # Nothing but the pipeline: models answer anything.
        return pipeline_subject(library, str(folder / "a.pipeline.yaml"))
    own: tuple[ScenarioCase, ...] = tuple(
        simulations_in(str(folder / "a.simulation.yaml"), library.cache)
    )
    return simulation_subject(library, own[0])


def _write(file: Path, data: Any) -> None:
    file.write_text("\n".join([*block(_plain(data), 0), ""]), encoding="utf-8")


def _plain(value: Any) -> Any:
    """Return a value of a file without what it knows of its text."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return float(value) if isinstance(value, float) else value


def _replayed(files: dict[str, list[str]]) -> dict[str, list[list[str]]]:
    """Return the causes that files show in a new process."""
    done = run_python("-m", "tests.explore.replaying", *files, folder=ROOT)
    assert done.returncode == 0, done.stderr
    result: dict[str, list[list[str]]] = json.loads(done.stdout.strip().splitlines()[-1])
    return result
