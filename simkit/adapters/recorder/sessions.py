"""A recorder's knowledge of one session: its agent runs, its tool calls, its log; new names."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from types import MappingProxyType
from typing import Any, Final

import msgspec

from simkit.adapters.recorder import histories
from simkit.adapters.recorder.handoffs import may_turn_out, with_handoffs, with_targets
from simkit.core.messages import JsonValue, Message, ToolCall
from simkit.language.paths import with_parts
from simkit.trace import events as e
from simkit.trace.events import HandoffRequested, Omission
from simkit.trace.recorder import Sink
from simkit.trace.store import Trace

NO_TOOLS: Final[Mapping[str, str]] = MappingProxyType({})


class CallFacts(msgspec.Struct, frozen=True):
    """The input of a run, if it is not the session's state."""

    state: str = ""
    """The name of the graph's state in which it runs; empty for the session's."""
    received: JsonValue = None
    """Input that no channel holds."""
    channels: tuple[str, ...] | None = None
    """The channels that it can read; None for all."""


@dataclass(slots=True, eq=False)
class Run:
    """One agent run, current or ended."""

    id: str
    agent: str
    is_node: bool = False
    is_remote: bool = False
    """Whether the agent is elsewhere, so that nothing but its answer shows its end."""
    is_over: bool = False
    ends_with_span: bool = False
    """Whether a framework's span shows its end."""
    call_facts: CallFacts = field(default_factory=CallFacts)
    model_calls: int = 0
    final: Message | None = None
    """Its last message without a tool call; None if there is none."""
    has_replied: bool = False
    output_tools: Mapping[str, str] = field(default_factory=lambda: NO_TOOLS)
    """Tool that the model calls to give the run's output to the argument that holds it; an empty
    text if the arguments are the output."""
    cuts: tuple[Omission, ...] = ()
    """Messages that filters dropped from the next context."""
    lasting_cuts: tuple[Omission, ...] = ()
    """Messages that filters dropped from all later contexts."""


class ToolRequest(msgspec.Struct):
    """A tool call that a model has asked for."""

    call: ToolCall
    agent: str
    run: Run
    is_told: bool = False
    """Whether ToolCalled has been emitted."""
    is_answered: bool = False
    executed: JsonValue = None
    """The arguments with which it was executed, once it was."""
    server: str = ""
    """The scenario's server that it has reached; empty if none."""


_encode: Final = msgspec.json.Encoder(order="sorted").encode
_LATEST: Final = 16
"""The number of groups of calls that are searched for one that comes back."""


class Group(msgspec.Struct, frozen=True):
    """The calls of one message, as a model asked for them."""

    run: str
    ids: tuple[str, ...]
    args: tuple[bytes, ...]


class Session:
    """The log, the calls and the histories of one session."""

    def __init__(self) -> None:
        self.project = ""
        self.initial_state: Mapping[str, JsonValue] = {}
        """The initial state."""
        self._numbers: dict[histories.Print, int] = {}
        """Print of a logged message to the number of its last one."""
        self._several: dict[histories.Print, list[int]] = {}
        """All numbers of messages that were logged several times, or that have two prints."""
        self.latest: dict[histories.Print, Message] = {}
        """The last logged message with a print."""
        self.repeated: list[histories.Print] = []
        """Prints of messages that repeat earlier ones, in the order of the log."""
        self.authors: dict[str, str] = {}
        """Text to its author, to recognize a message whose calls a filter removed."""
        self.streams: dict[str, histories.SentStream] = {}
        self.histories = histories.GrowingLists(histories.MessageHistory)
        """The last context of each agent, and the last content of each list."""
        self.requests: dict[str, ToolRequest] = {}
        """Tool calls by id."""
        self.pending: list[HandoffRequested] = []
        """The handoffs about which the user decides in the next turn."""
        self.ids: dict[str, str] = {}
        """Foreign ids of calls to simkit's."""
        self._alike: dict[tuple[str, bytes], list[str]] = {}
        """Simkit's ids of requested calls, by name and arguments."""
        self._served: dict[str, str] = {}
        """Simkit's ids to those in served responses."""
        self.as_served: dict[str, str] = {}
        """Ids of calls in served responses to simkit's."""
        self._returned_ids: set[str] = set()
        """Calls that came back under the served id."""
        self._renamed: dict[str, int] = {}
        """Call to the number of other ids that came for it."""
        self.groups: dict[tuple[str, ...], list[Group]] = {}
        """Calls of one message that have not come back, by agent and tools."""

    def add(self, message: Message, mark: histories.Print, number: int) -> None:
        """Add a message to the log under a number; ``mark`` is its print."""
        numbers = self._numbers
        if mark in numbers:
            self.repeated.append(mark)
            if mark not in self._several:
                self._several[mark] = [numbers[mark]]
            self._several[mark].append(number)
        numbers[mark] = number
        self.latest[mark] = message

    def number_of(self, mark: histories.Print) -> int:
        """Return the number of the last logged message with a print; 0 if there is none."""
        return self._several[mark][-1] if mark in self._several else self._numbers.get(mark, 0)

    def renumbered_since(self, repeats: int) -> dict[int, int]:
        """Return what were the last numbers of messages that were repeated since, and what are."""
        counts = Counter(self.repeated[repeats:])
        several = ((self._several[mark], count) for mark, count in counts.items())
        return {numbers[-1 - count]: numbers[-1] for numbers, count in several}

    def numbers_of(self, prints: Sequence[histories.Print], before: int) -> list[int]:
        """Return the messages' numbers in the log, all below ``before``; 0 for a new message.

        If the log has the same message several times, the latest one that keeps the order counts.
        """
        result = [*map(self._numbers.get, prints, repeat(0))]
        if not self.repeated:
            return result
        several = self._several
        for index in range(len(result) - 1, -1, -1):
            mark = prints[index]
            if mark in several:
                # The last one below `before`; if there is none, the last of all.
                numbers = several[mark]
                last = numbers[-1]
                result[index] = last if last < before else numbers[bisect_left(numbers, before) - 1]
            before = result[index] or before
        return result

    def served(self, ours: str, prefix: str) -> str:
        """Return the id of a call in the provider's format, by which it is recognized."""
        own_id = f"{prefix}{ours.removeprefix('call'):0>24}" if prefix else ours
        self.ids[own_id], self._served[ours] = ours, own_id
        if prefix:
            self.as_served[own_id] = ours
        return own_id

    def ask(self, request: ToolRequest) -> None:
        """Record a call that a model asks for."""
        call = request.call
        self.requests[call.id] = request
        self._alike.setdefault((call.name, _args_bytes(call.args)), []).append(call.id)

    def turn_out(self, request: ToolRequest, agent: str) -> None:
        """Record that a logged call turned out to be a handoff to an agent."""
        ours = {request.call.id: agent}
        for mark, message in [*self.latest.items()]:
            if any(call.id in ours for call in message.calls):
                message = with_targets(message, ours)
                other = histories.print_of(message)
                self.latest[other] = message
                if mark not in self._several:
                    self._several[mark] = [self._numbers[mark]]
                self._several[other] = self._several[mark]
                self._numbers[other] = self._numbers[mark]
                request.call = next(call for call in message.calls if call.id in ours)

    def ask_together(self, agent: str, run: str, calls: Sequence[ToolCall]) -> None:
        """Record the calls of one message, to recognize them when they come back."""
        group = Group(run, tuple(c.id for c in calls), tuple(_args_bytes(c.args) for c in calls))
        self.groups.setdefault(_tools(agent, calls), []).append(group)

    def come_back(self, agent: str, run: str, messages: Sequence[Message]) -> None:
        """Match the calls that a request answers for the first time, whatever their ids.

        Clients that number the calls of each request or session use one id for many calls: an
        agent's last calls are at the end of its next context.
        """
        if not self.groups:
            return
        calls = next((message.calls for message in reversed(messages) if message.calls), ())
        waiting = self.groups.get(_tools(agent, calls))
        if not calls or not waiting:
            return
        served = tuple(self._ours_served(call.id) for call in calls)
        args = tuple(_args_bytes(call.args) for call in calls)
        latest = waiting[: -_LATEST - 1 : -1]
        group = next((message for message in latest if message.ids == served), None)
        if group is None and not any(served):
            group = _group_of(run, args, latest)
            for call, ours in zip(calls, group.ids if group is not None else (), strict=False):
                self._rename(call.id, ours)
        if group is not None:
            waiting.remove(group)

    def _ours_served(self, foreign: str) -> str:
        """Return simkit's id for an id in a served response; empty for any other."""
        ours = self.ids.get(foreign, "")
        return ours if ours and self._served.get(ours) == foreign else ""

    def _rename(self, foreign: str, ours: str) -> None:
        self._renamed[ours] = self._renamed.get(ours, 0) + 1
        self.ids[foreign] = ours

    def _unreturned_alike(self, name: str, args_key: bytes, agent: str) -> list[str]:
        """Return the ids of calls that look the same: the agent's, or all if it has none."""
        candidates = self._alike.get((name, args_key), ())
        alike = [candidate for candidate in candidates if candidate not in self._returned_ids]
        same_agent = [ours for ours in alike if agent and self.requests[ours].agent == agent]
        return same_agent or alike

    def known_again(self, foreign: str, name: str, args: JsonValue, agent: str = "") -> str:
        """Return simkit's id for a foreign one; empty for a new call.

        Clients of protocols without ids make their own. Such a call is recognized by its name,
        arguments and order, first among those of the ``agent`` whose context it is in. An id that
        stood for another call now stands for this one.
        """
        ours, args_key = self.ids.get(foreign, ""), _args_bytes(args)
        request = self.requests.get(ours)
        if ours and request is None:
            return ours
        if self._ours_served(foreign) and request is not None and request.call.name == name:
            self._returned_ids.add(ours)
            return ours
        if request is not None and (request.call.name, _args_bytes(request.call.args)) == (
            name,
            args_key,
        ):
            return ours
        if alike := self._unreturned_alike(name, args_key, agent):
            ours = min(alike, key=lambda candidate: self._renamed.get(candidate, 0))
            self._rename(foreign, ours)
            return ours
        if request is not None and request.call.name == name:
            return ours
        self.ids.pop(foreign, None)
        return ""


def _group_of(run: str, args: tuple[bytes, ...], latest: Sequence[Group]) -> Group | None:
    """Return the group of calls that come back under other ids, by arguments, then by run."""
    alike = [group for group in latest if group.args == args]
    same_run = [group for group in alike or latest if group.run == run]
    # Clients may add arguments: then only the run identifies the calls.
    return next(iter(same_run or alike), None)


def _tools(agent: str, calls: Sequence[ToolCall]) -> tuple[str, ...]:
    return agent, *(call.name for call in calls)


def _args_bytes(args: JsonValue) -> bytes:
    """Return arguments as bytes; ``3.0`` equals ``3``, because some clients have no integers."""
    encoded = _encode(args)
    return _encode(_whole(args)) if b".0" in encoded else encoded


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return with_parts(value, _whole)


# Renaming: names that a scenario's rules give to agents with other framework names.
#
# A framework knows its agent before a model call; a rule knows it by the request. The rule wins, so
# that the run has its name from the beginning: the events of a turn wait until the turn is over, or
# the run cannot continue. The events of the first turn always wait, because only then the observed
# aspects are known of frameworks that code imports by a name made at run time. If an offered tool
# may turn out to be a handoff, the rest of the turn waits, too.


_replaced = msgspec.structs.replace


class RenamingSink:
    """A sink that holds back a turn's events, and gives runs the names of rules."""

    def __init__(self, sink: Sink, has_rules: bool) -> None:
        """``has_rules``: rules may name agents by their requests."""
        self._sink, self._has_rules = sink, has_rules
        self._note_held = sink.note_held if isinstance(sink, Trace) else id
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
            self._note_held(event)
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
        # The framework names that always stand for one agent, with its name.
        everywhere = {old: next(iter(new)) for old, new in self._names.items() if len(new) == 1}
        names = _Names(self._runs, everywhere, started, requesters)
        for event in waiting:
            self._sink.emit(names.applied(event))


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
