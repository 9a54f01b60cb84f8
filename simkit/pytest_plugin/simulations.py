"""Simulations in pytest: conversations that nobody wrote, and the text of what they show.

Collection imports this module, so that what explores is imported where a simulation runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from simkit.core.errors import SimkitError
from simkit.core.gc_pause import gc_paused
from simkit.core.output import clean
from simkit.core.stopping import sudden_end_told
from simkit.core.text import counted
from simkit.pytest_plugin.items import (
    ScenarioFile,
    ScenarioItem,
    documents_of,
    load_runs,
    relative_path,
)
from simkit.spec.scenario.items import ScenarioCase, simulations_in

if TYPE_CHECKING:
    from simkit.explore.campaigns import Bounds
    from simkit.explore.search import Campaign
    from simkit.spec.scenario.files import Library


class SimulationFile(ScenarioFile):
    """One file of simulations."""

    def cases(self) -> Sequence[ScenarioCase]:
        return simulations_in(relative_path(self.path), documents_of(self.config))

    @property
    def item_type(self) -> type[ScenarioItem]:
        return SimulationItem


class SimulationItem(ScenarioItem):
    """One simulation: conversations of which none may break a rule."""

    def runtest(self) -> None:
        load_runs(self.session)
        run_simulation(self)


def run_simulation(item: ScenarioItem) -> None:
    """Explore a simulation; raise pytest's failure if a conversation breaks a rule."""
    from simkit.explore.campaigns import Bounds
    from simkit.pytest_plugin.runs import session_of

    session = session_of(item.config)
    coverage = session.coverage
    with gc_paused(), sudden_end_told(session.release):
        try:
            bounds = Bounds(
                runs=item.config.getoption("--simkit-runs"),
                seed=session.seed,
                measures=coverage is not None,
            )
            campaign, text = failure_of(
                session.library, item.scenario, bounds, is_strict=session.is_strict
            )
            if coverage is not None and campaign.coverage is not None:
                coverage.take(campaign.coverage)
        except SimkitError as problem:
            raise pytest.fail.Exception(clean(str(problem)), pytrace=False) from None
        if text:
            pytest.fail(clean(text), pytrace=False)


def failure_of(
    library: Library, case: ScenarioCase, bounds: Bounds, *, is_strict: bool = False
) -> tuple[Campaign, str]:
    """Explore a simulation; return the campaign, and what breaks a rule, empty if nothing does.

    ``is_strict``: a claim that no conversation judged is a failure, too. Raise SimkitError if it
    cannot be explored.
    """
    from simkit.explore.campaigns import command_of, is_exhaustive, run_campaign
    from simkit.explore.causes import refused_lines
    from simkit.explore.reach import unjudged_lines
    from simkit.explore.scenarios import shown_lines, title_of
    from simkit.explore.subjects import simulation_subject

    subject = simulation_subject(library, case)
    campaign = run_campaign(case.id, subject, bounds)
    if campaign.is_stopped and bounds.seconds is None:
        # The test proves nothing, and pytest must end.
        raise KeyboardInterrupt
    command = command_of(case.id, subject, bounds)
    lines: list[str] = []
    if is_strict:
        for line in unjudged_lines(campaign.reach):
            lines += [line, ""]
    if is_exhaustive(subject, bounds) and not campaign.is_complete:
        ran = counted(campaign.runs, "conversation")
        lines += [f"not every conversation was run, but {ran}: --simkit-runs draws more", ""]
    if campaign.refused:
        lines += [*refused_lines(subject, campaign), ""]
    for discovery in campaign.discoveries:
        texts = shown_lines(discovery, subject, campaign.growing, command)
        indent = "    " if discovery.is_alone else ""
        lines += [title_of(discovery), "", *(f"{indent}{line}" for line in texts), ""]
    if not lines:
        return campaign, ""
    if campaign.discoveries:
        lines.append(f"write it as a scenario: {command}")
    return campaign, "\n".join(lines)
