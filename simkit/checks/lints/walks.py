"""Walks through messages in their order: calls and answers, and what else is odd where it stands.

What a stream has settled is walked through once, when it settles.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from simkit.core.messages import Message, ToolCall
from simkit.trace.views import ShownPart, StreamView


class PendingCall(NamedTuple):
    """A call that stands in a context, and who asked for it."""

    call: ToolCall
    agent: str | None
    place: int
    """Its message's place in the stream; -1 outside the settled part."""


class Odd(NamedTuple):
    """A message that is odd where it stands."""

    message: Message
    section: str
    place: int
    """Its place in the stream; -1 outside the settled part."""


class Oddities:
    """What is odd in the order of a context; of the settled part only what is new."""

    __slots__ = ("empty", "late", "results", "twice", "unanswered")

    def __init__(self) -> None:
        self.results: list[Odd] = []
        """Results whose calls do not stand before them."""
        self.unanswered: list[PendingCall] = []
        """Calls without a result before the user, or the agent that asked, goes on."""
        self.twice: list[Odd] = []
        """Results of calls that have one already."""
        self.empty: list[Odd] = []
        """Messages without text and calls."""
        self.late: list[Odd] = []
        """System messages after something that was said."""

    def __bool__(self) -> bool:
        return bool(self.results or self.unanswered or self.twice or self.empty or self.late)


class Walk:
    """Goes through messages in their order, and remembers the calls that wait for an answer."""

    __slots__ = ("closed", "last", "odd", "open", "request_numbers")

    def __init__(self) -> None:
        self.odd = Oddities()
        self.open: dict[str, PendingCall] = {}
        self.request_numbers: dict[str, int] = {}
        """Every call to its place."""
        self.closed: set[str] = set()
        """Calls that were not answered in time."""
        self.last: frozenset[str] = frozenset()
        """The calls of the last message, as long as nothing follows it."""

    def take(self, message: Message, section: str, place: int) -> None:
        """Take a message that is no system message."""
        calls = message.calls
        if calls:
            if message.content and self.open:
                self._goes_on(message.agent)
            for call in calls:
                self.open[call.id] = PendingCall(call, message.agent, place)
                self.request_numbers[call.id] = place
            self.last = frozenset([call.id for call in calls])
            return
        self.last = frozenset()
        if message.call_id:
            self._answers(Odd(message, section, place))
        elif self.open and message.role == "user":
            self._close(list(self.open))
        elif self.open and message.role == "assistant":
            self._goes_on(message.agent)

    def _goes_on(self, agent: str | None) -> None:
        """Close what an agent asked for; run in parallel may speak in between."""
        self._close([key for key, request in self.open.items() if request.agent == agent])

    def _close(self, calls: list[str]) -> None:
        for call in calls:
            self.closed.add(call)
            self.odd.unanswered.append(self.open.pop(call))

    def _answers(self, result: Odd) -> None:
        call = result.message.call_id
        if self.open.pop(call, None) is not None:
            self.answered(call, result.place)
        elif call in self.closed:
            return
        elif call in self.request_numbers:
            self.odd.twice.append(result)
        else:
            self.unknown(result)

    def answered(self, call: str, place: int) -> None:
        """Record that a call has its answer."""

    def unknown(self, result: Odd) -> None:
        """Record that no call of this walk asked for a result."""
        self.odd.results.append(result)


class SettledWalk(Walk):
    """The walk through what one stream has settled; every context takes it further."""

    __slots__ = ("_reach", "_starts", "read", "stream")

    def __init__(self, stream: StreamView) -> None:
        super().__init__()
        self.stream, self.read = stream, 0
        self._starts: list[int] = []
        """Places of answered calls, in order."""
        self._reach: list[int] = []
        """For each of them the last place that answers it or one before it."""

    def read_on(self, part: ShownPart) -> None:
        """Read what is new up to where a part shows it."""
        hi, entries, waiting = part.hi, self.stream.entries, self.open
        for place in range(self.read, hi):
            message = entries[place]
            if message.role == "system":
                if self._is_late(message, place, part.lo):
                    self.odd.late.append(Odd(message, part.section, place))
                continue
            if message.calls or message.call_id or waiting:
                self.take(message, part.section, place)
            if not message.content and is_empty(message):
                self.odd.empty.append(Odd(message, part.section, place))
        if hi > self.read:
            self.read = hi

    def fresh(self) -> Oddities | None:
        """Return what is odd in what was read since it was asked last, if anything is."""
        odd = self.odd
        if not odd:
            return None
        self.odd = Oddities()
        return odd

    def is_plain(self, lo: int) -> bool:
        """Return whether nothing is odd from a place on, and no call waits there for its answer."""
        if self.open or self.odd:
            return False
        before = bisect_left(self._starts, lo) - 1 if lo and self._starts else -1
        return before < 0 or self._reach[before] < lo

    def _is_late(self, message: Message, place: int, lo: int) -> bool:
        """Return what an agent was told in its own run is no system message of the conversation."""
        before = (self.stream.entries[at] for at in range(place - 1, lo - 1, -1))
        return message.agent is None and any(message_.role != "system" for message_ in before)

    def answered(self, call: str, place: int) -> None:
        """Keep how far answers reach, for windows that begin between a call and its answer."""
        start = self.request_numbers[call]
        at = bisect_left(self._starts, start)
        if at == len(self._starts) or self._starts[at] != start:
            self._starts.insert(at, start)
            self._reach.insert(at, place)
        # Only calls that were made meanwhile stand behind it.
        for later in range(at, len(self._reach)):
            self._reach[later] = place

    def cut_off(self, part: ShownPart) -> Iterator[Odd]:
        """Yield the results that a part shows, but whose calls stand before it."""
        lo = part.lo
        before = bisect_left(self._starts, lo) - 1
        if before < 0 or self._reach[before] < lo:
            return
        for place in range(lo, min(self._reach[before] + 1, part.hi)):
            message = self.stream.entries[place]
            if message.call_id and self.request_numbers.get(message.call_id, lo) < lo:
                yield Odd(message, part.section, place)


def is_empty(message: Message) -> bool:
    """Return whether a message says nothing; a tool may well answer with nothing."""
    return not message.content and not message.calls and message.role != "tool"
