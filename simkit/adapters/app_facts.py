"""Facts about a pipeline that is code before it runs, from the scenario's rules. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from simkit.spec.pipeline.model import Limits
from simkit.spec.scenario.apps import App
from simkit.trace import events as e
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
