"""Scouts: conversations that show which agents code has, where nothing says which call is whose.

With a plain SDK client, simkit cannot tell which agent made a call, and a campaign would end there.
The first conversations are then run with all calls as those of nobody, rules are made of their
instructions, as `simkit init` makes them, and the campaign begins again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from simkit.adapters.attribution import OF_NOBODY, system_of
from simkit.core.errors import SimkitError, SourceError
from simkit.core.files import FileReads
from simkit.core.messages import Message
from simkit.core.text import counted
from simkit.explore.campaigns import Bounds, run_campaign, seed_of, turns_most
from simkit.explore.causes import network_tools
from simkit.explore.choices import SIMPLEST, ChoiceLog, Plan
from simkit.explore.chunks import Tally, Tell, chunks_of
from simkit.explore.conversations import ExploredRun, converse
from simkit.explore.drawing import draw
from simkit.explore.interfaces import TEXT
from simkit.explore.search import Campaign, campaign_of
from simkit.explore.subjects import Subject, pipeline_subject, with_profile, with_stand_ins
from simkit.language.paths import literal
from simkit.providers.values import Offer, ParsedRequest, ParsedResponse
from simkit.session.execution.first_run import UNMARKED, FirstRun, ObservedCall
from simkit.session.execution.first_scenario import agents_of, rules_of
from simkit.spec.fields import METHOD_NAME
from simkit.spec.pipeline.model import Limits
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.writing import flow
from simkit.trace.views import CallView, View

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
