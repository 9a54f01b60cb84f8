"""Order of contexts, read once for all lints about it.

Of the settled part of a history only new messages are read, so that a context costs what is new in
it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from simkit.checks.lints.walks import Odd, Oddities, SettledWalk, Walk, is_empty
from simkit.core.messages import Message
from simkit.trace import events as e
from simkit.trace.views import ContextView, MadePart, ShownPart, StreamView, View

NOTHING: Final = Oddities()


class _ContextWalk(Walk):
    """A walk through one context: the settled parts of its streams, and the messages after them."""

    __slots__ = ("_before", "_is_planned", "has_speech")

    def __init__(self, is_planned: bool) -> None:
        """``is_planned``: a recipe has put the sections in this order."""
        super().__init__()
        self._before: list[tuple[SettledWalk, int]] = []
        """The earlier settled parts, and the index at which each begins."""
        self._is_planned = is_planned
        self.has_speech = False
        """Whether any message so far is no system message."""

    def take_made(self, part: MadePart) -> None:
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

    def take_shown(self, part: ShownPart, settled: SettledWalk) -> None:
        """Add a part of a history; of its settled messages only new ones are read."""
        lo, hi = part.lo, part.hi
        fresh = settled.fresh()
        if fresh is not None:
            self._take_fresh(fresh, settled, lo)
        for result in settled.cut_off(part) if 0 < lo < hi else ():
            self.unknown(result)
        if lo < hi:
            for call, pending_call in settled.open.items():
                if lo <= pending_call.place < hi:
                    self.open[call] = pending_call
            self.last = settled.last
            self._before.append((settled, lo))
            if not self.has_speech:
                entries = settled.stream.entries
                self.has_speech = any(entries[at].role != "system" for at in range(lo, hi))
        for place in range(max(0, lo - hi), len(part.tail)):
            self.take_one(part.tail[place], part.section)

    def _take_fresh(self, fresh: Oddities, settled: SettledWalk, lo: int) -> None:
        odd, pending_calls = self.odd, settled.request_numbers
        for result in fresh.results:
            if result.place >= lo:
                self.unknown(result)
        odd.unanswered += [pair for pair in fresh.unanswered if pair.place >= lo]
        odd.twice += [pair for pair in fresh.twice if pending_calls[pair.message.call_id] >= lo]
        odd.empty += [pair for pair in fresh.empty if pair.place >= lo]
        odd.late += [pair for pair in fresh.late if pair.place >= lo]

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


class Pairing:
    """A reader of contexts for all lints about their order; each context is read once."""

    def __init__(self) -> None:
        self._streams: dict[str, SettledWalk] = {}
        self._last: tuple[e.ContextBuilt, Oddities] | None = None

    def read(self, event: e.ContextBuilt, view: View) -> Oddities:
        """Return the oddities in the order of a context's messages."""
        if self._last is None or self._last[0] is not event:
            self._last = event, self._walked(event, view)
        return self._last[1]

    def _walked(self, event: e.ContextBuilt, view: View) -> Oddities:
        context = view.calls[event.call].context
        is_planned = "sections" in view.pipeline.observes
        if self._is_plain(context, is_planned):
            return NOTHING
        walk = _ContextWalk(is_planned)
        for part in context.parts:
            if type(part) is MadePart:
                walk.take_made(part)
            elif type(part) is ShownPart:
                if part.rendered is not None:
                    walk.take_one(part.rendered, part.section)
                else:
                    walk.take_shown(part, self._settled(part.stream))
        for message in context.own_messages:
            walk.take_one(message, "run")
        return walk.end()

    def _is_plain(self, context: ContextView, is_planned: bool) -> bool:
        """Read on in the streams, and return whether a walk could find nothing.

        Most contexts contain no tool traffic, which is quick to see.
        """
        is_plain, has_speech = True, False
        for part in context.parts:
            if type(part) is MadePart:
                message = part.message
                if not message.content or message.calls or message.call_id:
                    is_plain = False
                elif message.role != "system":
                    has_speech = True
                elif has_speech and (not is_planned or part.section == "instructions"):
                    is_plain = False
            elif type(part) is ShownPart and part.rendered is None:
                settled = self._settled(part.stream)
                settled.read_on(part)
                has_speech = has_speech or part.hi > part.lo or bool(part.tail)
                if is_plain and not (settled.is_plain(part.lo) and _are_plain(part.tail)):
                    is_plain = False
            else:
                has_speech = True
        return is_plain and _are_plain(context.own_messages)

    def _settled(self, stream: StreamView) -> SettledWalk:
        settled = self._streams.get(stream.id)
        if settled is None or settled.stream is not stream:
            settled = self._streams[stream.id] = SettledWalk(stream)
        return settled


def _are_plain(messages: Iterable[Message]) -> bool:
    """Return whether messages have a text, and no tool traffic."""
    for message in messages:
        if message.calls or message.call_id or not message.content:
            return False
    return True
