"""Exploring this project's own applications neither fails nor finds anything but their faults."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from simkit.explore.campaigns import Bounds, run_campaign
from simkit.explore.subjects import scenario_subject
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import items_in
from tests.conftest import IS_NIGHTLY

APPS: Final = Path(__file__).resolve().parent.parent / "apps"
RUNS: Final = 30 if IS_NIGHTLY else 6
KNOWN: Final[dict[str, set[str]]] = {
    "agents_desk:ask": set(),
    "agents_desk:two_filters": {"CTX-01"},  # a filter that drops calls and keeps their results
    "agents_team:translator": set(),
    "agents_team:searcher": set(),
    "agents_team:counted": {"MaxTurnsExceeded"},  # it permits two
    "agents_team:Desk": set(),
    "clinic:build": set(),
    "dated_desk:Desk": set(),
    "langgraph_house_hunt:app": {"HND-06"},  # langgraph-supervisor#230
    "langgraph_research:build": set(),
    # A tool that divides by its argument; langgraph-swarm#26.
    "langgraph_ships_crew:app": {"ZeroDivisionError", "CTX-02", "HND-06"},
    "pydantic_ai_desk:router": {"UnexpectedModelBehavior"},  # the outputs it refuses twice
}
"""Application to the lints and errors that exploring it may show."""


def prepared(name: str) -> Prepared:
    """Return the first scenario of an application."""
    library = Library()
    for file in sorted(APPS.glob(f"{name.partition(':')[0]}*.scenario.yaml")):
        for item in items_in(str(file), library.cache):
            ready = library.prepared(item)
            if str(ready.scenario.pipeline) == name:
                return ready
    raise AssertionError(f"no scenario of {name}")


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_an_application_is_explored(name: str) -> None:
    ready = prepared(name)
    if ready.unmet:
        pytest.skip(str(ready.refusal()))

    campaign = run_campaign(name, scenario_subject(ready), Bounds(runs=RUNS, turns=2))

    causes = {discovery.cause for discovery in campaign.discoveries}
    kinds = {cause.detail if cause.id == "claim" else cause.id for cause in causes}
    assert kinds <= KNOWN[name]
    assert campaign.model_calls or kinds
