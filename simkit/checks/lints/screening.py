"""A first look at messages and contexts: most are so plain that several lints can skip them.

It reads events alone. A lint that skips a context misses nothing: streams only grow, so it reads
their messages when it next looks at one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from simkit.checks.findings import Hit
from simkit.checks.lints.runner import reads
from simkit.core.messages import Message
from simkit.trace import events as e
from simkit.trace.views import View


def key_of(message: Message) -> Hashable:
    """Return the key that two duplicates share.

    It consists of author, turn and content; for calls and results also of their ids, since two
    calls of a tool may ask, or answer, the same.
    """
    if message.calls:
        call_ids = tuple([call.id for call in message.calls])
        return message.agent, message.turn, message.content, call_ids
    if message.call_id:
        return message.agent, message.turn, message.content, message.call_id
    if not message.content:
        return (message.id,)
    return message.role, message.agent, message.turn, message.content


class Screen:
    """A reader for the lints that find nothing in plain contexts.

    It proves that a context is plain, or puts it into a container, for which the lints wait.
    """

    def __init__(self) -> None:
        self.odd: list[e.ContextBuilt] = []
        """The last context, unless its messages are plain texts in their usual places."""
        self.repetitive: list[e.ContextBuilt] = []
        """The last context, unless no two messages of it are equal, or the same."""
        self.writers: dict[int, str] = {}
        """Message to the run that wrote it."""
        self._odd: dict[int, bool] = {}
        """Messages that are no plain text."""
        self._keys: dict[Hashable, int] = {}
        """Key to the last message with it."""
        self._twins: dict[int, bool] = {}
        """Messages that equal an earlier one."""
        self._newest: dict[str, int] = {}
        """Stream to its newest settled message; 0 if it has none."""
        self._odd_streams: dict[str, bool] = {}
        """Streams with a message that is no plain text."""
        self._twin_streams: dict[str, bool] = {}
        """Streams with two messages that may be equal, or the same."""
        self._latest = 0
        self._latest_at: dict[str, int] = {}
        """Model call to the newest message of all at that time."""

    @reads(e.MessageAdded)
    def hear(self, event: e.MessageAdded, view: View) -> Iterable[Hit]:
        """Note what is not plain about a message."""
        message = event.message
        number = message.number
        key: Hashable = message.role, message.agent, message.turn, message.content
        if (
            message.calls
            or message.call_id
            or message.role == "system"
            or not (message.content and number)
        ):
            self._odd[number] = True
            key = key_of(message)
        if key in self._keys or number in self.writers:
            self._twins[number] = True
        if number > self._latest:
            self._latest = number
        self._keys[key] = number
        self.writers[number] = event.run
        return ()

    @reads(e.ContextBuilt)
    def look(self, event: e.ContextBuilt, view: View) -> Iterable[Hit]:
        """Decide whether a context is plain."""
        if self.odd:
            self.odd.clear()
        if self.repetitive:
            self.repetitive.clear()
        self._latest_at[event.call] = self._latest
        for part in event.parts:
            if type(part) is e.Shown:
                if part.kept or part.cuts or part.restarts or part.stream not in self._newest:
                    self._settle(part)
            elif type(part) is e.Made:
                for inner in part.shown:
                    self._settle(inner)
        if not self._is_plain(event, "sections" in view.pipeline.observes):
            self.odd.append(event)
        if self._may_repeat(event):
            self.repetitive.append(event)
        return ()

    def _settle(self, part: e.Shown) -> None:
        """Note what is not plain about messages that a stream settles."""
        stream = part.stream
        newest = 0
        if stream in self._newest and not part.restarts:
            newest = self._newest[stream]
        elif part.restarts:
            self._odd_streams.pop(stream, None)
            self._twin_streams.pop(stream, None)
        for number in part.kept:
            if number in self._odd:
                self._odd_streams[stream] = True
            if number in self._twins or number <= newest:
                self._twin_streams[stream] = True
            if number > newest:
                newest = number
        self._newest[stream] = newest
        if part.cuts and _have_edits(part.cuts):
            self._odd_streams[stream] = self._twin_streams[stream] = True

    def _is_plain(self, event: e.ContextBuilt, is_planned: bool) -> bool:
        """Return whether all messages are plain texts, and system messages come first."""
        if event.base:
            return False  # Its parts are those of an earlier context.
        odd = self._odd
        has_speech = False
        for part in event.parts:
            if type(part) is e.Made:
                message = part.message
                if not message.content or message.calls or message.call_id:
                    return False
                if message.role != "system":
                    has_speech = True
                elif has_speech and (not is_planned or part.section == "instructions"):
                    return False
                continue
            has_speech = True
            rendered = part.rendered
            if rendered is not None and (
                not rendered.content or rendered.calls or rendered.call_id
            ):
                return False
            if part.stream in self._odd_streams or (part.tail_cuts and _have_edits(part.tail_cuts)):
                return False
            if part.tail and odd and not odd.keys().isdisjoint(part.tail):
                return False
        return not event.said or odd.keys().isdisjoint(event.said)

    def _may_repeat(self, event: e.ContextBuilt) -> bool:
        """Return whether messages may be equal, or the same message come twice."""
        keys, twins = self._keys, self._twins
        newest = 0
        if event.base:
            # The run's own messages are newer than its first context.
            newest = self._latest_at.get(event.base, self._latest)
        numbers: dict[int, bool] = {}
        """Logged messages that were made for this context, as the user's current one is."""
        texts: dict[str, bool] = {}
        tail: tuple[int, ...] = ()
        for part in event.parts:
            if type(part) is e.Shown:
                if newest or tail or part.stream in self._twin_streams:
                    return True
                if part.tail_cuts and _have_edits(part.tail_cuts):
                    return True
                tail, newest = part.tail, self._newest[part.stream]
            if type(part) is not e.Made:
                continue
            message = part.message
            content = message.content
            number = part.of or (message.number if message.id else 0)
            if number:
                if number in numbers or number in twins:
                    return True
                if message.id and message.number != number:
                    return True
                numbers[number] = True
            if part.section == "instructions" or not content:
                continue
            key = message.role, message.agent, message.turn, content
            if message.calls or message.call_id or content in texts:
                return True
            if key in keys and keys[key] != number:
                return True
            texts[content] = True
        for number in numbers:
            if number <= newest or number in tail:
                return True
        for number in tail or event.said:
            if number in twins or number <= newest:
                return True
            newest = number
        return bool(tail and event.said)


def _have_edits(cuts: Iterable[e.Cut]) -> bool:
    """Return whether cuts change messages; most drop them."""
    for cut in cuts:  # noqa: SIM110 - a plain loop, because most contexts have cuts.
        if cut.what != "message":
            return True
    return False
