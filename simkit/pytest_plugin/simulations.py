"""Simulations in pytest: the text of what their conversations show."""

from __future__ import annotations

from pathlib import Path

from simkit.core.text import counted
from simkit.explore.campaigns import Bounds, command_of, is_exhaustive, run_campaign
from simkit.explore.causes import label_of
from simkit.explore.network import refused_lines
from simkit.explore.reach import unjudged_claims
from simkit.explore.scenarios import earlier_lines, headline, scenario_text
from simkit.explore.search import Campaign
from simkit.explore.subjects import simulation_subject
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import ScenarioCase


def failure_of(
    library: Library, case: ScenarioCase, bounds: Bounds, *, is_strict: bool = False
) -> tuple[Campaign, str]:
    """Explore a simulation; return the campaign, and what breaks a rule, empty if nothing does.

    ``is_strict``: a claim that no conversation judged is a failure, too. Raise SimkitError if it
    cannot be explored.
    """
    subject = simulation_subject(library, case)
    campaign = run_campaign(case.id, subject, bounds)
    if campaign.is_stopped and bounds.seconds is None:
        # The test proves nothing, and pytest must end.
        raise KeyboardInterrupt
    command = command_of(case.id, subject, bounds)
    lines: list[str] = []
    if is_strict:
        for name in unjudged_claims(campaign.reach):
            lines += [f"{name}: no conversation judged it: what it speaks of never happened", ""]
    if is_exhaustive(subject, bounds) and not campaign.is_complete:
        ran = counted(campaign.runs, "conversation")
        lines += [f"not every conversation was run, but {ran}: --simkit-runs draws more", ""]
    if campaign.refused:
        lines += [*refused_lines(subject, campaign), ""]
    for discovery in campaign.discoveries:
        times = counted(discovery.runs, "conversation")
        lines += [f"{label_of(discovery.cause)}: {headline(discovery)} (in {times})", ""]
        if not discovery.is_alone:
            lines += [*earlier_lines(campaign.growing), ""]
            continue
        text = scenario_text(discovery, subject, Path.cwd(), command)
        lines += [f"    {line}" for line in text.splitlines()]
        lines.append("")
    if not lines:
        return campaign, ""
    if campaign.discoveries:
        lines.append(f"write it as a scenario: {command}")
    return campaign, "\n".join(lines)
