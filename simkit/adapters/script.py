"""Scripts: the parts of a scenario that a driver needs, and facts from its rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec

from simkit.adapters.recorder.trace import TraceRecorder
from simkit.core.messages import JsonValue
from simkit.runtime.models.faults import FaultPlan
from simkit.runtime.ports import Schedule, Tools, TurnModel
from simkit.spec.pipeline.model import Limits
from simkit.spec.scenario.apps import App
from simkit.trace import events as e
from simkit.trace.recorder import WHOLE_RUN
from simkit.trace.store import canonical

COUNTER: Final = "chars/4"


def sectioned(facts: e.PipelineFacts, app: App) -> e.PipelineFacts:
    """Return a pipeline's facts with the sections that its file assigns."""
    agents = {
        name: msgspec.structs.replace(
            facts.agents.get(name, e.AgentFacts()),
            sections=canonical(rule.sections),
            sees=rule.sees,
        )
        for name, rule in app.agents.items()
        if rule.sections is not None or rule.sees is not None
    }
    return msgspec.structs.replace(facts, agents={**facts.agents, **agents})


def facts_of(app: App, limits: Limits) -> e.PipelineFacts:
    """Return the facts in a pipeline's file."""
    agents = {
        name: e.AgentFacts(
            handoffs=tuple(other for other in app.agents if other != name),
        )
        for name in app.agents
    }
    unseen = dict(app.implements.unseen) if app.implements is not None else {}
    return e.PipelineFacts(
        name=app.pipeline,
        agents=agents,
        tokens=COUNTER,
        observes=("runs", "handoffs", "state") if app.channels else ("runs", "handoffs"),
        channels={
            name: e.ChannelFacts(c.reducer_name, c.scope, canonical(c.default), c.last)
            for name, c in app.channels.items()
        },
        unseen=tuple(sorted(unseen)),
        unseen_reasons=dict(sorted(unseen.items())),
        is_open=True,
        limits={
            "irrelevant_share": limits.irrelevant_share,
            "context_tokens": limits.context_tokens,
        },
    )


class Script(msgspec.Struct, frozen=True):
    """The parts of a scenario that a driver needs."""

    scenario: str
    seed: int
    start: str
    model: TurnModel
    tools: Tools
    has_lines: Callable[[int, str], bool]
    """Returns whether the turn at an index has reply lines for an agent."""
    agents: Callable[[], Iterable[str]]
    """Returns the agents in reply lines since the last call, including targets of handoffs."""
    limits: Limits
    plan: FaultPlan
    """The model calls that fail, whatever would answer them."""
    schedule: Schedule
    """The order in which waiting model calls are answered."""
    initial_state: Mapping[str, JsonValue] = {}
    stubs: Callable[[int], Collection[str]] = lambda place: ()
    """Returns the tools for which the turn at an index has results."""
    logs: bool = False
    """Whether the scenario claims log records."""
    given_project: str | None = None
    """The project that gets given project channels; None means the first turn's."""


def record_run_start(
    recorder: TraceRecorder, script: Script, driver: str, facts: e.PipelineFacts
) -> None:
    """Record that a run begins."""
    recorder.learn_channels(facts.channels)
    recorder.events.record_run_start(
        WHOLE_RUN,
        scenario=script.scenario,
        seed=script.seed,
        start=script.start,
        driver=driver,
        pipeline=facts,
    )
