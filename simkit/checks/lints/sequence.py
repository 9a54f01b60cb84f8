"""Lints on the order of a context's messages, as providers require it.

One walk through a context finds what is odd in it, for all lints here. Of the settled part of a
history only new messages are read, so that a context costs what is new in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import Facts, first_of, lint
from simkit.core.messages import JsonValue, Message, ToolCall
from simkit.core.text import counted
from simkit.trace import events as e
from simkit.trace.views import ContextView, HistoryView, InlinePart, StreamView, View


class PendingCall(NamedTuple):
    """A call in a context, with its agent."""

    call: ToolCall
    agent: str | None
    position: int
    """Its message's index in the stream; -1 outside the settled part."""


class Odd(NamedTuple):
    """A message where it should not be."""

    message: Message
    section: str
    position: int
    """Its index in the stream; -1 outside the settled part."""


class Oddities:
    """The oddities in the order of a context; of the settled part only new ones."""

    def __init__(self) -> None:
        self.results: list[Odd] = []
        """Results without an earlier call."""
        self.unanswered: list[PendingCall] = []
        """Calls without a result before the user, or the agent that asked, continues."""
        self.twice: list[Odd] = []
        """Results of calls that have one already."""
        self.empty: list[Odd] = []
        """Messages without text and calls."""
        self.late: list[Odd] = []
        """System messages after other messages."""

    def __bool__(self) -> bool:
        return bool(self.results or self.unanswered or self.twice or self.empty or self.late)


class Walk:
    """A walk through messages in order, with the calls that wait for an answer."""

    def __init__(self) -> None:
        self.odd = Oddities()
        self.open: dict[str, PendingCall] = {}
        self.request_numbers: dict[str, int] = {}
        """Every call to its index."""
        self.closed: set[str] = set()
        """Calls that were not answered in time."""
        self.last: frozenset[str] = frozenset()
        """The calls of the last message, while nothing follows it."""

    def take(self, message: Message, section: str, index: int) -> None:
        """Add a message that is no system message."""
        calls = message.calls
        if calls:
            if message.content and self.open:
                self._goes_on(message.agent)
            for call in calls:
                self.open[call.id] = PendingCall(call, message.agent, index)
                self.request_numbers[call.id] = index
            self.last = frozenset([call.id for call in calls])
            return
        self.last = frozenset()
        if message.call_id:
            self._answers(Odd(message, section, index))
        elif self.open and message.role == "user":
            self._close(list(self.open))
        elif self.open and message.role == "assistant":
            self._goes_on(message.agent)

    def _goes_on(self, agent: str | None) -> None:
        """Close the calls of an agent that continues; parallel runs may speak in between."""
        self._close([key for key, request in self.open.items() if request.agent == agent])

    def _close(self, calls: list[str]) -> None:
        for call in calls:
            self.closed.add(call)
            self.odd.unanswered.append(self.open.pop(call))

    def _answers(self, result: Odd) -> None:
        call = result.message.call_id
        if self.open.pop(call, None) is not None:
            self.answered(call, result.position)
        elif call in self.closed:
            return
        elif call in self.request_numbers:
            self.odd.twice.append(result)
        else:
            self.unknown(result)

    def answered(self, call: str, index: int) -> None:
        """Record that a call has its answer."""

    def unknown(self, result: Odd) -> None:
        """Record a result without a call in this walk."""
        self.odd.results.append(result)


class SettledWalk(Walk):
    """The walk through the settled part of a stream; every context takes it further."""

    def __init__(self, stream: StreamView) -> None:
        super().__init__()
        self.stream, self.read = stream, 0
        self._starts: list[int] = []
        """Indices of answered calls, in order."""
        self._reach: list[int] = []
        """For each of them, the last index that answers it or one before it."""

    def read_on(self, part: HistoryView) -> None:
        """Read the new messages up to the last one that a part shows."""
        hi, entries, waiting = part.hi, self.stream.entries, self.open
        for index in range(self.read, hi):
            message = entries[index]
            if message.role == "system":
                if self._is_late(message, index, part.lo):
                    self.odd.late.append(Odd(message, part.section, index))
                continue
            if message.calls or message.call_id or waiting:
                self.take(message, part.section, index)
            if not message.content and is_empty(message):
                self.odd.empty.append(Odd(message, part.section, index))
        self.read = max(self.read, hi)

    def fresh(self) -> Oddities | None:
        """Return the oddities found since the last call, if there are any."""
        odd = self.odd
        if not odd:
            return None
        self.odd = Oddities()
        return odd

    def _is_late(self, message: Message, index: int, lo: int) -> bool:
        """Return whether a system message is late; one within an agent's own run is not."""
        before = (self.stream.entries[at] for at in range(index - 1, lo - 1, -1))
        return message.agent is None and any(message_.role != "system" for message_ in before)

    def answered(self, call: str, index: int) -> None:
        """Record how far answers reach, for windows that begin between a call and its answer."""
        start = self.request_numbers[call]
        at = bisect_left(self._starts, start)
        if at == len(self._starts) or self._starts[at] != start:
            self._starts.insert(at, start)
            self._reach.insert(at, index)
        # Only calls that were made meanwhile come after it.
        for later in range(at, len(self._reach)):
            self._reach[later] = index

    def cut_off(self, part: HistoryView) -> Iterator[Odd]:
        """Yield the results that a part shows without their calls."""
        lo = part.lo
        before = bisect_left(self._starts, lo) - 1
        if before < 0 or self._reach[before] < lo:
            return
        for index in range(lo, min(self._reach[before] + 1, part.hi)):
            message = self.stream.entries[index]
            if message.call_id and self.request_numbers.get(message.call_id, lo) < lo:
                yield Odd(message, part.section, index)


def is_empty(message: Message) -> bool:
    """Return whether a message is empty; a tool may answer with nothing."""
    return not message.content and not message.calls and message.role != "tool"


class _ContextWalk(Walk):
    """A walk through one context: the settled parts of its streams, and the messages after them."""

    def __init__(self, is_planned: bool) -> None:
        """``is_planned``: a recipe has put the sections in this order."""
        super().__init__()
        self._before: list[tuple[SettledWalk, int]] = []
        """The earlier settled parts, and the index at which each begins."""
        self._is_planned = is_planned
        self.has_speech = False
        """Whether any message so far is no system message."""

    def take_made(self, part: InlinePart) -> None:
        """Add a message that was made for this context, or that a driver saw in it."""
        message = part.message
        if message.role != "system":
            self.take_one(message, part.section)
            return
        if self.has_speech and (not self._is_planned or part.section == "instructions"):
            self.odd.late.append(Odd(message, part.section, -1))
        if not message.content:
            self.odd.empty.append(Odd(message, part.section, -1))

    def take_one(self, message: Message, section: str) -> None:
        """Add the next message."""
        if message.role == "system":
            return
        self.has_speech = True
        if message.calls or message.call_id or self.open:
            self.take(message, section, -1)
        if not message.content and is_empty(message):
            self.odd.empty.append(Odd(message, section, -1))

    def take_shown(self, part: HistoryView, settled: SettledWalk) -> None:
        """Add a part of a history; of its settled messages only new ones are read."""
        lo, hi = part.lo, part.hi
        fresh = settled.fresh()
        if fresh is not None:
            self._take_fresh(fresh, settled, lo)
        for result in settled.cut_off(part) if 0 < lo < hi else ():
            self.unknown(result)
        if lo < hi:
            for call, pending_call in settled.open.items():
                if lo <= pending_call.position < hi:
                    self.open[call] = pending_call
            self.last = settled.last
            self._before.append((settled, lo))
            if not self.has_speech:
                entries = settled.stream.entries
                self.has_speech = any(entries[at].role != "system" for at in range(lo, hi))
        for index in range(max(0, lo - hi), len(part.tail)):
            self.take_one(part.tail[index], part.section)

    def _take_fresh(self, fresh: Oddities, settled: SettledWalk, lo: int) -> None:
        odd, pending_calls = self.odd, settled.request_numbers
        for result in fresh.results:
            if result.position >= lo:
                self.unknown(result)
        odd.unanswered += [pair for pair in fresh.unanswered if pair.position >= lo]
        odd.twice += [pair for pair in fresh.twice if pending_calls[pair.message.call_id] >= lo]
        odd.empty += [pair for pair in fresh.empty if pair.position >= lo]
        odd.late += [pair for pair in fresh.late if pair.position >= lo]

    def unknown(self, result: Odd) -> None:
        """Search for a result's call in the earlier settled parts."""
        call = result.message.call_id
        for settled, lo in self._before:
            if settled.request_numbers.get(call, -1) >= lo:
                if call not in settled.closed:
                    self.odd.twice.append(result)
                return
        self.odd.results.append(result)

    def end(self) -> Oddities:
        """Return all oddities.

        Unanswered calls at the end of the context may wait, unless it went to a provider, which
        does not accept them.
        """
        if not self._is_planned:
            self.odd.unanswered += self.open.values()
        elif not self.open.keys() <= self.last:
            self.odd.unanswered += [
                pending_call for call, pending_call in self.open.items() if call not in self.last
            ]
        return self.odd


class _ContextOrder:
    """The walks of a trace, and what the last one found."""

    def __init__(self) -> None:
        self.walks: dict[str, SettledWalk] = {}
        """Stream to the walk through its settled part."""
        self.read_at = -1
        """The number of events up to the context that was read last."""
        self.oddities = Oddities()

    def read(self, context: ContextView, is_planned: bool) -> None:
        """Walk through the messages of a context."""
        walk = _ContextWalk(is_planned)
        for part in context.parts:
            if type(part) is InlinePart:
                walk.take_made(part)
            elif type(part) is HistoryView:
                if part.rendered is not None:
                    walk.take_one(part.rendered, part.section)
                else:
                    settled = self._settled(part.stream)
                    settled.read_on(part)
                    walk.take_shown(part, settled)
        for message in context.own_messages:
            walk.take_one(message, "run")
        self.oddities = walk.end()

    def _settled(self, stream: StreamView) -> SettledWalk:
        settled = self.walks.get(stream.id)
        if settled is None or settled.stream is not stream:
            settled = self.walks[stream.id] = SettledWalk(stream)
        return settled


def oddities_of(event: e.ContextBuilt, facts: Facts) -> Oddities:
    """Return the oddities in the order of the newest context; all lints share one walk."""
    order, view = facts.notes_of(_ContextOrder), facts.view
    if order.read_at != view.hi:
        order.read_at = view.hi
        order.read(view.calls[event.call].context, "sections" in facts.pipeline.observes)
    return order.oddities


def _hit(
    identity: str,
    event: e.ContextBuilt,
    view: View,
    problem: str,
    named: Sequence[str],
    **data: JsonValue,
) -> Hit:
    sentence = f"agent {event.agent!r} is sent {problem} in turn {event.turn}: {first_of(named)}"
    return Hit.at(identity, view.calls[event.call], sentence, **data)


@lint("CTX-01", e.ContextBuilt)
def orphan_result(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-01: every tool result in a context comes after the call that it answers.

    The call is identified by its id. A window that begins between the two, or a filter that drops
    the call alone, leaves an orphan. Each is reported once for each agent. Seen in langgraph#7129,
    #5582 and langchain#33245.
    """
    named = {
        odd.message.call_id: f"{odd.message.call_id} ({odd.message.tool})"
        for odd in oddities_of(event, facts).results
    }
    return _hits_on_calls("CTX-01", event, facts, named, "tool result", "without the call")


@lint("CTX-02", e.ContextBuilt)
def orphan_call(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-02: every tool call in a context is answered once, before the conversation continues.

    It continues when the user, or the agent that asked, says something; agents that run in parallel
    may speak in between. If a recipe built the context, calls at its end may wait if none of them
    is answered: a handoff is a call too, and open while a delegate works. In requests of code to a
    provider they may not, since no provider accepts them. Each is reported once for each agent.
    Seen in langgraph-swarm#105 and #83, langgraph-supervisor#67, pydantic-ai#722.
    """
    odd = oddities_of(event, facts)
    unanswered = {
        pending_call.call.id: f"{pending_call.call.id} ({pending_call.call.name})"
        for pending_call in odd.unanswered
    }
    twice = {
        odd_.message.call_id: f"{odd_.message.call_id} ({odd_.message.tool})" for odd_ in odd.twice
    }
    yield from _hits_on_calls("CTX-02", event, facts, unanswered, "tool call", "without an answer")
    yield from _hits_on_calls("CTX-02", event, facts, twice, "tool call", "with two answers")


def _hits_on_calls(
    identity: str,
    event: e.ContextBuilt,
    facts: Facts,
    named: Mapping[str, str],
    noun: str,
    how: str,
) -> Iterator[Hit]:
    """Yield a hit on the calls that were not reported for the agent before."""
    fresh = [call for call in named if facts.is_new(identity, event.agent, call)]
    if fresh:
        problem = f"{counted(len(fresh), noun)} {how}"
        calls = [named[call] for call in fresh]
        yield _hit(identity, event, facts.view, problem, calls, calls=fresh)


@lint("CTX-12", e.ContextBuilt)
def illegal_sequence(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-12: no message of a context is empty: each has a text, or calls.

    A tool may answer with nothing. Other rules for the order of roles depend on the provider, and
    are checked for the one in use. Each message is reported once for each agent. Seen in
    langgraphjs#2499 and llama_index#19487.
    """
    empty = oddities_of(event, facts).empty
    return _hits_on_messages("CTX-12", event, facts, empty, "empty message", "")


@lint("CTX-15", e.ContextBuilt)
def system_not_first(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-15: instructions, and system messages of a history, come first.

    Other sections that a recipe places after the history (notes, a summary) belong there; without a
    known recipe, every system message counts. System messages within an agent's own run do not.
    Each is reported once for each agent. From providers that accept system messages at the
    beginning only (Anthropic, Gemini).
    """
    late = oddities_of(event, facts).late
    return _hits_on_messages("CTX-15", event, facts, late, "system message", " after what was said")


def _hits_on_messages(
    identity: str, event: e.ContextBuilt, facts: Facts, odds: Iterable[Odd], noun: str, how: str
) -> Iterator[Hit]:
    """Yield a hit on the messages that were not reported for the agent before."""
    fresh: dict[str, str] = {}
    for message, section, _ in odds:
        where = f"section {section}" if section else f"the {message.role} message"
        if facts.is_new(identity, event.agent, message.id or where):
            fresh[f"{message.id} ({where})" if message.id else where] = section
    if fresh:
        problem = f"{counted(len(fresh), noun)}{how}"
        sections = list(fresh.values())
        yield _hit(identity, event, facts.view, problem, list(fresh), sections=sections)
