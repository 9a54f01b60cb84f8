"""Simulations in pytest: the text of what their conversations show."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path

from simkit.core.text import counted
from simkit.explore.conversations import converse, label_of
from simkit.explore.scenarios import headline, scenario_text
from simkit.explore.search import search
from simkit.explore.subjects import simulation_subject
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import ScenarioCase


def failure_of(library: Library, case: ScenarioCase, runs: int, seed: int | None) -> str:
    """Explore a simulation; return what breaks a rule, empty if nothing does.

    Raise SimkitError if it cannot be explored.
    """
    subject = simulation_subject(library, case)
    if subject.prepared.unmet:
        raise subject.prepared.refusal()
    number = subject.simulation.seed if seed is None else seed
    campaign = search(
        partial(converse, subject),
        runs=runs,
        turns_max=subject.simulation.turns,
        seed=number,
        rare=len(subject.rare),
    )
    command = f"simkit explore {shlex.quote(case.id)} --runs {runs} --seed {number}"
    lines: list[str] = []
    for discovery in campaign.discoveries:
        times = counted(discovery.runs, "conversation")
        lines += [f"{label_of(discovery.cause)}: {headline(discovery)} (in {times})", ""]
        text = scenario_text(discovery, subject, Path.cwd(), command)
        lines += [f"    {line}" for line in text.splitlines()]
        lines.append("")
    if not lines:
        return ""
    return "\n".join([*lines, f"write it as a scenario: {command}"])
