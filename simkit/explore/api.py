"""Exploration from Python: the same search as the command's, and its result as values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from simkit.adapters.attribution import OF_NOBODY, system_of
from simkit.core.errors import DirectoryGone, SimkitError, SourceError
from simkit.core.files import FileReads
from simkit.core.messages import Message
from simkit.core.text import counted, guess
from simkit.explore.campaigns import (
    RUNS,
    RUNS_LIMIT,
    Bounds,
    command_of,
    run_campaign,
    seed_of,
    turns_most,
)
from simkit.explore.causes import NO_PAST, label_of, network_text, network_tools
from simkit.explore.choices import SIMPLEST, ChoiceLog, Plan
from simkit.explore.chunks import Tally, Tell, chunks_of
from simkit.explore.conversations import ExploredRun, converse
from simkit.explore.drawing import draw
from simkit.explore.interfaces import TEXT
from simkit.explore.scenarios import earlier_lines, headline, scenario_text
from simkit.explore.search import Campaign, Discovery, campaign_of
from simkit.explore.subjects import (
    PROFILES,
    Subject,
    pipeline_subject,
    scenario_subject,
    subjects_named,
    with_profile,
    with_stand_ins,
)
from simkit.language.json_schema import is_number
from simkit.language.paths import literal
from simkit.providers.values import Offer, ParsedRequest, ParsedResponse
from simkit.session.execution.first_run import UNMARKED, FirstRun, ObservedCall
from simkit.session.execution.first_scenario import agents_of, rules_of
from simkit.spec.fields import METHOD_NAME, shown_value
from simkit.spec.pipeline.model import Limits
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.simulations import TURNS_LIMIT
from simkit.spec.scenario.writing import flow
from simkit.trace.views import CallView, View

# Scouts: conversations that show which agents code has, where nothing says which call is whose.
#
# With a plain SDK client, simkit cannot tell which agent made a call, and a campaign would end
# there. The first conversations are then run with all calls as those of nobody, rules are made of
# their instructions, as `simkit init` makes them, and the campaign begins again.


SCOUTS: Final = 12
"""The number of conversations that are run first; each time that a campaign meets an agent that
they did not, it is multiplied."""
_MORE: Final = 4
_LOOKS_MAX: Final = 3
_ROUNDS_MAX: Final = 4
"""How often code is probed with the rules that were made so far: agents that have names may do
more. If there are calls that no rule fits each time, instructions of an agent begin differently in
each."""
_LIMITS: Final = {"agent_runs_per_turn": 100, "model_calls_per_run": 100, "handoffs_per_turn": 100}
"""The limits while the calls of several agents are those of one."""


def explore_with_probe_runs(
    name: str,
    subject: Subject,
    bounds: Bounds,
    *,
    reads: FileReads | None = None,
    tell: Tell = lambda tally: None,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[Subject, Campaign]:
    """Explore a subject as `run_campaign` does; of code, find the agents if nothing says them.

    Return the subject, with the rules of the agents, too. Raise SimkitError if it cannot be run.
    """
    probe_runs = ProbeRuns(name, subject, bounds)
    while True:
        timed = msgspec.structs.replace(bounds, seconds=probe_runs.seconds_left())
        try:
            campaign = run_campaign(name, subject, timed, reads=reads, tell=tell, say=say)
            tools = network_tools(subject, campaign)
            if not tools or campaign.is_stopped:
                return subject, campaign
            listed = " and ".join(f"`{tool}`" for tool in tools)
            note = f"{listed}: needs the network, so it answers `{TEXT}` without running"
            subject = with_stand_ins(msgspec.structs.replace(subject, notes=(note,)), tools)
        except SimkitError as problem:
            # A scenario's rules are its author's.
            if not METHOD_NAME.fullmatch(name) or OF_NOBODY not in str(problem):
                raise
            try:
                again = probe_runs.look()
            except KeyboardInterrupt:  # Nothing is judged before the agents have names.
                return subject, campaign_of(Tally(is_stopped=True), ())
            if again is None:
                raise
            subject = again


class ProbeRuns:
    """The calls that conversations showed so far, and the rules that were made of them."""

    def __init__(self, name: str, subject: Subject, bounds: Bounds) -> None:
        self._name, self._bounds, self._started = name, bounds, time.monotonic()
        self._turns_max, self._seed = turns_most(subject, bounds), seed_of(subject, bounds)
        self._deadline: float | None = None
        """When probing ends, even if there are more conversations to run."""
        self._looks, self._runs, self._turns = 0, 0, 0
        self._calls: list[ObservedCall] = []
        self._rules: dict[str, Any] = {}

    def seconds_left(self) -> float | None:
        """Return the time that is left of what the bounds allow; None for no limit."""
        seconds = self._bounds.seconds
        return seconds and max(seconds - (time.monotonic() - self._started), 0)

    def look(self) -> Subject | None:
        """Run more conversations than before; return the subject with the rules of all agents.

        Return None if they show no others, or others each time that they are run. The same seed
        shows the same.
        """
        if self._looks == _LOOKS_MAX:
            return None
        count = min(SCOUTS * _MORE**self._looks, self._bounds.runs)
        self._looks += 1
        left = self.seconds_left()
        # The campaign needs time, too.
        self._deadline = None if left is None else time.monotonic() + left / 2
        before = self._rules
        for _ in range(_ROUNDS_MAX):
            try:
                has_new_calls = self._meet(count)
            except SourceError:
                return None  # The rules of two agents fit one call.
            if has_new_calls:
                self._rules = rules_of(self._first_run)
            if not has_new_calls or self._is_late():
                break
        else:
            return None
        if self._rules == before:
            return None
        subject = pipeline_subject(Library(), self._name, literal(self._rules))
        return msgspec.structs.replace(subject, notes=(*subject.notes, *self._lines()))

    @property
    def _first_run(self) -> FirstRun:
        return FirstRun(tuple(self._calls), (), {})

    def _meet(self, count: int) -> bool:
        """Run conversations by the rules so far; return whether they have calls of nobody."""
        subject = _with_nobody(pipeline_subject(Library(), self._name, literal(self._rules)))
        if self._bounds.profile is not None:
            subject = with_profile(subject, self._bounds.profile)
        calls_before = len(self._calls)

        def run(choices: Plan | ChoiceLog) -> ExploredRun:
            record = converse(subject, choices, observes=True)
            assert record.observed is not None
            self._runs += 1
            self._take(record.observed[1])
            return msgspec.structs.replace(record, observed=None)

        run(SIMPLEST)
        rare = len(subject.rare)
        for chunk in chunks_of(count, self._seed):
            tally = draw(run, chunk, turns_max=self._turns_max, rare=rare, is_late=self._is_late)
            if tally.is_stopped and not self._is_late():
                raise KeyboardInterrupt
            if tally.is_stopped:
                break
        return len(self._calls) > calls_before

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def _take(self, view: View) -> None:
        """Keep the calls of a conversation, if some are those of nobody."""
        if any(call.agent == UNMARKED for turn in view.turns for call in turn.calls):
            for turn in view.turns:
                self._calls.extend(self._observed(call) for call in turn.calls)
                self._turns += 1

    def _observed(self, call: CallView) -> ObservedCall:
        # Later calls may change an agent's rule, and its name.
        agent = UNMARKED if call.agent in self._rules else call.agent
        settings = call.context.settings
        choice = settings.get("tool_choice", "auto") if isinstance(settings, Mapping) else "auto"
        request = ParsedRequest(
            protocol="",
            model="",
            messages=tuple(call.context.messages),
            offers=tuple(map(Offer, call.context.tools)),
            choice=choice,
        )
        answer = ParsedResponse(call.reply or Message("assistant"))
        return ObservedCall(self._turns, agent, request, answer)

    def _lines(self) -> Iterator[str]:
        """Yield the sentences that say what was found."""
        rules = flow(literal(self._rules))
        yield (
            f"agents found by {counted(self._runs, 'conversation')}, since nothing says which "
            f"agent makes which call: `agents: {rules}`. To name them yourself, write that into a "
            f"scenario (`simkit init --app {self._name}` makes one), and explore it"
        )
        systems: dict[str, set[str]] = {}
        first = self._first_run
        for agent, call in zip(agents_of(first), first.calls, strict=True):
            systems.setdefault(agent, set()).add(system_of(call.model_request))
        for agent in self._rules:
            if (count := len(systems.get(agent, ()))) > 1:
                yield (
                    f"`{agent}` has {count} texts of instructions that begin alike: "
                    "if they are several agents, say so by rules of your own"
                )


def _with_nobody(subject: Subject) -> Subject:
    """Return code whose calls need no agent, so that conversations go on after them."""
    prepared = subject.prepared
    assert isinstance(prepared.pipeline, App)
    return msgspec.structs.replace(
        subject,
        prepared=msgspec.structs.replace(
            prepared,
            pipeline=msgspec.structs.replace(prepared.pipeline, fallback=UNMARKED),
            scenario=prepared.scenario.model_copy(update={"limits": Limits(**_LIMITS)}),
        ),
    )


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


def _notes_of(campaigns: Sequence[Campaign]) -> tuple[str, ...]:
    return (NO_PAST,) if any(campaign.noted for campaign in campaigns) else ()


def _joined(parts: Sequence[_Part], skipped: Sequence[str], broken: Sequence[str]) -> Exploration:
    """Return the exploration of several subjects."""
    campaigns = [part.campaign for part in parts]
    unreached = {
        f"{part.kind} {part.name}"
        for campaign in campaigns
        for part in campaign.reach.offered - campaign.reach.reached
    }
    return Exploration(
        findings=tuple(finding for part in parts for finding in part.findings),
        warnings=tuple(warning for part in parts for warning in part.warnings),
        notes=_notes_of(campaigns),
        conversations=sum(campaign.runs for campaign in campaigns),
        turns=sum(campaign.turns for campaign in campaigns),
        model_calls=sum(campaign.model_calls for campaign in campaigns),
        is_complete=all(campaign.is_complete for campaign in campaigns),
        is_stopped=any(campaign.is_stopped for campaign in campaigns),
        unreached=tuple(sorted(unreached)),
        skipped=tuple(skipped),
        broken=tuple(broken),
        refused=tuple(
            network_text(each.cause.detail, each.record.turns)
            for campaign in campaigns
            for each in campaign.refused
        ),
    )


def _check(subject: object, bounds: Bounds) -> None:
    """Raise SimkitError for an argument of `explore` that cannot be used."""
    _check_number("runs", bounds.runs, most=RUNS_LIMIT)
    if bounds.turns is not None:
        _check_number("turns", bounds.turns, most=TURNS_LIMIT)
    if bounds.seed is not None:
        _check_number("seed", bounds.seed, least=float("-inf"))
    seconds, profile = bounds.seconds, bounds.profile
    if seconds is not None and not (is_number(seconds) and seconds > 0):
        raise SimkitError(f"`seconds` must be a number above 0, not {shown_value(seconds)}")
    if not isinstance(subject, (str, PathLike, Prepared)):
        raise SimkitError(
            "a file, a folder, `module:name` or a loaded scenario can be explored, not "
            f"{shown_value(subject)}"
        )
    if profile is not None and profile not in PROFILES:
        hint = guess(str(profile), PROFILES)
        raise SimkitError(f"no profile {profile!r}.{hint} Known: {', '.join(PROFILES)}")


def _check_number(name: str, value: object, least: float = 1, most: float = float("inf")) -> None:
    """Raise SimkitError for an option that is no whole number within its bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise SimkitError(f"`{name}` must be a whole number, not {shown_value(value)}")
    if value < least:
        raise SimkitError(f"`{name}` must be at least {least}, not {value}")
    if value > most:
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
