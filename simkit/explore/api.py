"""Exploration from Python: the same search as the command's, and its result as values."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import NamedTuple

import msgspec

from simkit.core.errors import DirectoryGone, SimkitError
from simkit.core.text import counted
from simkit.explore.campaigns import RUNS, RUNS_LIMIT, Bounds, command_of
from simkit.explore.causes import NO_PAST, label_of, network_text
from simkit.explore.probe_runs import explore_with_probe_runs
from simkit.explore.scenarios import earlier_lines, headline, scenario_text
from simkit.explore.search import Campaign, Discovery
from simkit.explore.subjects import PROFILES, Subject, scenario_subject, subjects_named
from simkit.language.json_schema import is_number
from simkit.language.yaml import near
from simkit.spec.fields import shown_value
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.simulations import TURNS_LIMIT


class ExplorationFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One cause of failures, with the smallest scenario that shows it."""

    id: str
    """The lint, `error`, or the key of the claim: `always`, `never`, `finally`."""
    text: str
    """The sentence that says what is wrong."""
    scenario: str
    """The text of a scenario file that fails by it; its paths start in the current folder. Empty
    if no scenario shows it by itself."""
    subject: str
    """The name of what was explored."""
    conversations: int
    """The number of conversations that showed it, without those made to find the smallest one."""
    command: str
    """The command that finds it again."""
    note: str = ""
    """For one without a scenario: which earlier conversations it needs, and the state they left."""


class Exploration(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `simkit.explore`."""

    findings: tuple[ExplorationFinding, ...]
    """The causes, in the order in which they were met."""
    conversations: int
    """The number of conversations, without those made to find the smallest ones."""
    turns: int
    model_calls: int
    is_complete: bool
    """Whether every conversation within the bound was run, so that what held is proven there."""
    is_stopped: bool
    """Whether the time ended it."""
    unreached: tuple[str, ...]
    """The agents, handoffs, tools and claims that no conversation came to, each with its kind."""
    warnings: tuple[ExplorationFinding, ...] = ()
    """The causes that fail nothing, and say something about the application."""
    notes: tuple[str, ...] = ()
    """Sentences on the design: that no agent is ever sent anything of an earlier turn."""

    skipped: tuple[str, ...] = ()
    """The names of what was not explored, each with the reason."""
    refused: tuple[str, ...] = ()
    """The tools and other parts that need the network: what comes after them was not explored."""
    broken: tuple[str, ...] = ()
    """Of several subjects, the names of those that cannot be run, each with the error."""

    @property
    def passed(self) -> bool:
        """Whether nothing was found, all could be run without a network, and there was time."""
        had_no_time = self.is_stopped and not self.conversations
        return not (self.findings or self.refused or self.broken or had_no_time)

    def __str__(self) -> str:
        lines = [counted(self.conversations, "conversation")]
        lines += [f"skipped: {name}" for name in self.skipped]
        lines += [f"not explored: {part}" for part in (*self.refused, *self.broken)]
        for finding in self.findings:
            lines += [f"{finding.id}: {finding.text}", "", finding.scenario or finding.note]
        return "\n".join(lines)


def explore(
    subject: str | PathLike[str] | Prepared,
    *,
    runs: int = RUNS,
    turns: int | None = None,
    seed: int | None = None,
    profile: str | None = None,
    seconds: float | None = None,
    exhaustive: bool = False,
) -> Exploration:
    """Run unscripted conversations; return what breaks a rule.

    ``subject`` is a simulation, a scenario, a pipeline's file, a folder, ``module:name``, or a
    loaded scenario. The options are those of ``simkit explore``. Nothing is written, and a finding
    is no exception; raise SimkitError if the subject cannot be run. Of several, as below a folder,
    those that cannot are in ``broken``.
    """
    bounds = Bounds(
        runs=runs, turns=turns, seed=seed, profile=profile, seconds=seconds, exhaustive=exhaustive
    )
    _check(subject, bounds)
    subjects: list[tuple[str, Subject | SimkitError]]
    if isinstance(subject, Prepared):
        subjects = [(subject.item.id, scenario_subject(subject))]
    else:
        subjects = list(subjects_named(Library(), fspath(subject)))
    skipped: list[str] = []
    broken: list[str] = []
    parts: list[_Part] = []
    for name, each in subjects:
        try:
            if isinstance(each, SimkitError):
                raise each
            if each.prepared.skip is None:
                parts.append(_explored(name, each, bounds))
            else:
                skipped.append(f"{name}: {each.prepared.skip}")
        except SimkitError as problem:
            if len(subjects) == 1 or isinstance(problem, DirectoryGone):
                raise
            broken.append(f"{name}: {problem}")
    return _joined(parts, skipped, broken)


def _joined(parts: Sequence[_Part], skipped: Sequence[str], broken: Sequence[str]) -> Exploration:
    """Return the exploration of several subjects."""
    campaigns = [part.campaign for part in parts]
    return Exploration(
        findings=tuple(finding for part in parts for finding in part.findings),
        warnings=tuple(warning for part in parts for warning in part.warnings),
        notes=_notes_of(campaigns),
        conversations=sum(campaign.runs for campaign in campaigns),
        turns=sum(campaign.turns for campaign in campaigns),
        model_calls=sum(campaign.model_calls for campaign in campaigns),
        is_complete=all(campaign.is_complete for campaign in campaigns),
        is_stopped=any(campaign.is_stopped for campaign in campaigns),
        unreached=tuple(
            sorted(
                {
                    f"{part.kind} {part.name}"
                    for campaign in campaigns
                    for part in campaign.reach.offered - campaign.reach.reached
                }
            )
        ),
        skipped=tuple(skipped),
        broken=tuple(broken),
        refused=tuple(
            network_text(each.cause.detail, each.record.turns)
            for campaign in campaigns
            for each in campaign.refused
        ),
    )


def _notes_of(campaigns: Sequence[Campaign]) -> tuple[str, ...]:
    return (NO_PAST,) if any(campaign.noted for campaign in campaigns) else ()


def _check(subject: object, bounds: Bounds) -> None:
    """Raise SimkitError for an argument of `explore` that cannot be used."""
    _check_number("runs", bounds.runs, most=RUNS_LIMIT)
    if bounds.turns is not None:
        _check_number("turns", bounds.turns, most=TURNS_LIMIT)
    if bounds.seed is not None:
        _check_number("seed", bounds.seed, least=None)
    seconds, profile = bounds.seconds, bounds.profile
    if seconds is not None and not (is_number(seconds) and seconds > 0):
        raise SimkitError(f"`seconds` must be a number above 0, not {shown_value(seconds)}")
    if not isinstance(subject, (str, PathLike, Prepared)):
        raise SimkitError(
            "a file, a folder, `module:name` or a loaded scenario can be explored, not "
            f"{shown_value(subject)}"
        )
    if profile is not None and profile not in PROFILES:
        nearest = near(str(profile), PROFILES)
        hint = f" Did you mean {nearest!r}?" if nearest else ""
        raise SimkitError(f"no profile {profile!r}.{hint} Known: {', '.join(PROFILES)}")


def _check_number(
    name: str, value: object, *, least: int | None = 1, most: int | None = None
) -> None:
    """Raise SimkitError for an option that is no whole number within its bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise SimkitError(f"`{name}` must be a whole number, not {shown_value(value)}")
    if least is not None and value < least:
        raise SimkitError(f"`{name}` must be at least {least}, not {value}")
    if most is not None and value > most:
        raise SimkitError(f"`{name}` must be at most {most:,}, not {value:,}")


class _Part(NamedTuple):
    """The exploration of one subject."""

    campaign: Campaign
    findings: Sequence[ExplorationFinding]
    warnings: Sequence[ExplorationFinding]


def _explored(name: str, subject: Subject, bounds: Bounds) -> _Part:
    subject, campaign = explore_with_probe_runs(name, subject, bounds)
    command = command_of(name, subject, bounds)
    findings, warnings = (
        [_finding_of(discovery, name, subject, command, campaign) for discovery in group]
        for group in (campaign.discoveries, campaign.warned)
    )
    return _Part(campaign, findings, warnings)


def _finding_of(
    discovery: Discovery, name: str, subject: Subject, command: str, campaign: Campaign
) -> ExplorationFinding:
    return ExplorationFinding(
        id=label_of(discovery.cause),
        text=headline(discovery),
        scenario=(
            scenario_text(discovery, subject, Path.cwd(), command) if discovery.is_alone else ""
        ),
        note="" if discovery.is_alone else "\n".join(earlier_lines(campaign.growing)),
        subject=name,
        conversations=discovery.runs,
        command=command,
    )
