"""Renaming: names that a scenario's rules give to agents with other framework names.

A framework knows its agent before a model call; a rule knows it by the request. The rule wins, so
that the run has its name from the beginning: the events of a turn wait until the turn is over, or
the run cannot continue. The events of the first turn always wait, because only then the observed
aspects are known of frameworks that code imports by a name made at run time. If an offered tool may
turn out to be a handoff, the rest of the turn waits, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from simkit.adapters.recorder.handoffs import may_turn_out, with_handoffs
from simkit.adapters.recorder.sessions import Run
from simkit.core.messages import Message, ToolCall
from simkit.trace import events as e
from simkit.trace.recorder import Sink

_replaced = msgspec.structs.replace


class RenamingSink:
    """A sink that holds back a turn's events, and gives runs the names of rules."""

    def __init__(self, sink: Sink, has_rules: bool) -> None:
        """``has_rules``: rules may name agents by their requests."""
        self._sink, self._has_rules = sink, has_rules
        self._is_first = True
        self._waiting: list[e.AnyEvent] = []
        self._runs: dict[str, str] = {}
        """Run to the name that a rule gave it."""
        self._names: dict[str, set[str]] = {}
        """A framework's name for an agent to the names of its runs."""

    def emit(self, event: e.AnyEvent) -> None:
        """Hold an event until the turn is over, if it may still change."""
        is_held = self._has_rules or self._is_first or self._waiting
        if is_held or (type(event) is e.ContextBuilt and may_turn_out(event)):
            self._waiting.append(event)
        else:
            self._sink.emit(event)

    def rename(self, run: Run, agent: str) -> None:
        """Give a run without model calls the name of a rule's agent."""
        self._names.setdefault(run.agent, set()).add(agent)
        self._runs[run.id] = run.agent = agent

    def flush(self, observes: Collection[str] = ()) -> None:
        """Pass on the held events, with the names known by now.

        ``observes`` are aspects that the driver observes beyond those at the run's start.
        """
        waiting, self._waiting = with_handoffs(self._waiting), []
        self._is_first = False
        if waiting and isinstance(first := waiting[0], e.RunStarted):
            aspects = tuple(dict.fromkeys((*first.pipeline.observes, *observes)))
            waiting[0] = _replaced(first, pipeline=_replaced(first.pipeline, observes=aspects))
        if not self._runs:
            for event in waiting:
                self._sink.emit(event)
            return
        started = {
            waiting_event.handoff: waiting_event.run
            for waiting_event in waiting
            if isinstance(waiting_event, e.AgentStarted) and waiting_event.handoff
        }
        requesters = {
            waiting_event.handoff: waiting_event.run
            for waiting_event in waiting
            if isinstance(waiting_event, e.HandoffRequested)
        }
        known = _Names(self._runs, self._everywhere(), started, requesters)
        for event in waiting:
            self._sink.emit(known.applied(event))

    def _everywhere(self) -> dict[str, str]:
        """Return the framework names that always stand for one agent, with its name."""
        return {old: next(iter(new)) for old, new in self._names.items() if len(new) == 1}


class _Names(msgspec.Struct, frozen=True):
    runs: Mapping[str, str]
    names: Mapping[str, str]
    started: Mapping[str, str]
    """Handoff to the run that it started."""
    requesters: Mapping[str, str]
    """Handoff to the run that asked for it."""

    def applied(self, event: e.AnyEvent) -> e.AnyEvent:
        """Return an event with the names of rules."""
        if isinstance(event, e.RunStarted):
            return _replaced(event, pipeline=self._facts(event.pipeline))
        changes = dict(self._changes(event))
        return _replaced(event, **changes) if changes else event

    def _changes(self, event: e.AnyEvent) -> Iterator[tuple[str, object]]:
        if event.run in self.runs:
            yield "agent", self.runs[event.run]
        elif event.agent in self.names:
            yield "agent", self.names[event.agent]
        if isinstance(event, e.MessageAdded):
            yield "message", self._message(event.message, event.run)
        elif isinstance(event, e.ContextBuilt) and event.handoffs:
            yield "handoffs", tuple(self.names.get(agent, agent) for agent in event.handoffs)
            yield (
                "handoff_tools",
                tuple((tool, self.names.get(to, to)) for tool, to in event.handoff_tools),
            )
        elif isinstance(event, e.AgentStarted) and event.handoff_from:
            source = self.requesters.get(event.handoff, "")
            yield "handoff_from", self._of(event.handoff_from, source)
        elif isinstance(event, (e.HandoffRequested, e.HandoffMade, e.HandoffRejected)):
            yield "from_agent", self._of(event.from_agent, event.run)
            target = self.started.get(event.handoff, "")
            yield "to_agent", self._of(event.to_agent, target)

    def _of(self, agent: str, run: str) -> str:
        """Return the name of an agent by its run, else by its framework's name."""
        return self.runs.get(run) or self.names.get(agent, agent)

    def _message(self, message: Message, run: str) -> Message:
        agent = self._of(message.agent, run) if message.agent else message.agent
        return _replaced(message, agent=agent, calls=tuple(map(self._call, message.calls)))

    def _call(self, call: ToolCall) -> ToolCall:
        target = call.target
        return _replaced(call, to=self.names[target]) if target in self.names else call

    def _facts(self, facts: e.PipelineFacts) -> e.PipelineFacts:
        """Return the metadata with the names of rules; the rules' own facts stay."""
        names = self.names
        renamed = {names[old] for old in facts.agents if old in names}
        agents = {
            names.get(old, old): agent
            for old, agent in facts.agents.items()
            if old in names or old not in renamed
        }
        for name, agent in agents.items():
            ruled = facts.agents.get(name, agent)
            agents[name] = _replaced(
                agent,
                handoffs=tuple(names.get(other, other) for other in agent.handoffs),
                sections=ruled.sections,
                sees=ruled.sees,
            )
        return _replaced(
            facts,
            agents=agents,
            edges=tuple((names.get(agent, agent), names.get(to, to)) for agent, to in facts.edges),
            starts=tuple(names.get(agent, agent) for agent in facts.starts),
        )
