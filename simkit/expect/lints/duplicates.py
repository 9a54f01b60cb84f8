"""CTX-07: messages that stand in a context twice."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from simkit import events as e
from simkit.expect.findings import Hit
from simkit.messages import Message
from simkit.views import MadePart, ShownPart, StreamView, View

Pair = tuple[str, str, str, str]
"""The two messages, each by id (empty if it was made) and section."""


def key_of(message: Message) -> Hashable:
    """Returns what two duplicates have in common.

    Author, turn and content; for calls and results their ids too, since two calls of a tool may
    well ask, or answer, the same.
    """
    if message.calls:
        asked = tuple([call.id for call in message.calls])
        return message.agent, message.turn, message.content, asked
    if message.call_id:
        return message.agent, message.turn, message.content, message.call_id
    if not message.content:
        return message.id
    return message.role, message.agent, message.turn, message.content


class _Seen:
    """How far one stream was read, and where each message stands in it last."""

    __slots__ = ("crossed", "ids", "ids_read", "indexed", "keys", "stream")

    def __init__(self, stream: StreamView) -> None:
        self.stream = stream
        self.keys: list[Hashable] = []
        self.indexed: dict[Hashable, int] = {}
        """Key to its last place."""
        self.ids: dict[str, int] = {}
        """Id to its last place; filled only where an agent reads two histories."""
        self.ids_read = 0
        self.crossed: dict[str, int] = {}
        """Other stream to how far this one was compared with it."""


class DuplicateMessage:
    """CTX-07: no two messages of a context are equal, and no id comes twice.

    Equal means: role, author, content and turn are one; tool calls and results are compared with
    their ids. So a user may say "yes" in every turn, and a tool may answer the same twice; but a
    reply that was stored under a second id, a message read through two sections, or a text that
    two sections made, is found. Left to other lints: instructions (CTX-03), and the user's current
    message by its id (CTX-16). A pair is reported once for each agent, when both first stand in
    its window. Seen in agent-framework#4695 and openai-agents#2171.
    """

    id = "CTX-07"
    kinds: tuple[type, ...] = (e.ContextBuilt,)

    def __init__(self) -> None:
        self._streams: dict[str, _Seen] = {}
        self._reported: set[tuple[str, Pair]] = set()

    def look(self, event: e.AnyEvent, view: View) -> Iterable[Hit]:
        """Looks at what is made, at the current turn, and at what is new in the settled part."""
        assert isinstance(event, e.ContextBuilt)
        call = view.calls[event.call]
        turn = view.turns[-1]
        current = turn.message.id if turn.message is not None else ""
        pairs: list[Pair] = []
        here: dict[Hashable, tuple[str, str]] = {}
        shown: list[ShownPart] = []
        for part in call.context.parts:
            if type(part) is MadePart:
                message = part.message
                if not event.base and message.content and part.section != "instructions":
                    self._join(here, message, part.section, pairs)
            else:
                assert isinstance(part, ShownPart)
                shown.append(part)
        if event.base:
            for message in call.context.said:
                self._join(here, message, "run", pairs)
        else:
            several = len(shown) > 1
            for part in shown:
                self._settle(part, pairs)
                if part.tail:
                    self._join_tail(here, part, pairs, several)
            if several:
                self._cross(shown, pairs)
        for part in shown:
            self._against_settled(here, part, pairs)
        return self._hits(pairs, event, call.index, current) if pairs else ()

    def _join(
        self,
        here: dict[Hashable, tuple[str, str]],
        message: Message,
        section: str,
        pairs: list[Pair],
    ) -> None:
        key = key_of(message)
        other = here.get(key)
        if other is None:
            here[key] = (message.id, section)
        else:
            pairs.append((*other, message.id, section))

    def _join_tail(
        self,
        here: dict[Hashable, tuple[str, str]],
        part: ShownPart,
        pairs: list[Pair],
        several: bool,
    ) -> None:
        """Takes the current turn's messages; by their ids too where another history shows them."""
        tail, section = part.tail, part.section
        for place in range(max(0, part.lo - part.hi), len(tail)):
            message = tail[place]
            if several and message.id:
                other = here.get(message.id)
                if other is not None:
                    pairs.append((*other, message.id, section))
                    continue
                here[message.id] = (message.id, section)
            self._join(here, message, section, pairs)

    def _settle(self, part: ShownPart, pairs: list[Pair]) -> None:
        """Reads what is new in the settled part, and finds its pairs."""
        stream = part.stream
        seen = self._streams.get(stream.id)
        if seen is None or seen.stream is not stream:
            seen = self._streams[stream.id] = _Seen(stream)
        keys, indexed, entries = seen.keys, seen.indexed, stream.entries
        for place in range(len(keys), part.hi):
            message = entries[place]
            key = key_of(message)
            keys.append(key)
            before = indexed.get(key)
            if before is not None and before >= part.lo:
                pairs.append((entries[before].id, part.section, message.id, part.section))
            indexed[key] = place

    def _against_settled(
        self, here: dict[Hashable, tuple[str, str]], part: ShownPart, pairs: list[Pair]
    ) -> None:
        seen = self._streams.get(part.stream.id)
        if seen is None:
            return
        indexed, lo = seen.indexed, part.lo
        for key, found in here.items():
            place = indexed.get(key)
            if place is not None and place >= lo:
                pairs.append((part.stream.entries[place].id, part.section, *found))

    def _cross(self, shown: Sequence[ShownPart], pairs: list[Pair]) -> None:
        """Compares the histories of one context with each other, once for each new message."""
        for part in shown:
            seen = self._streams[part.stream.id]
            entries = part.stream.entries
            for place in range(seen.ids_read, part.hi):
                seen.ids[entries[place].id] = place
            seen.ids_read = part.hi
        for part in shown:
            for other in shown:
                if other is not part and other.stream is not part.stream:
                    self._cross_one(part, other, pairs)

    def _cross_one(self, part: ShownPart, other: ShownPart, pairs: list[Pair]) -> None:
        seen, against = self._streams[part.stream.id], self._streams[other.stream.id]
        entries = part.stream.entries
        start = max(seen.crossed.get(other.stream.id, 0), part.lo)
        for place in range(start, part.hi):
            message = entries[place]
            found = against.ids.get(message.id)
            if found is None:
                found = against.indexed.get(seen.keys[place])
            if found is not None and found >= other.lo:
                twin = other.stream.entries[found].id
                pair = (message.id, part.section, twin, other.section)
                pairs.append(pair if pair[:2] <= pair[2:] else (*pair[2:], *pair[:2]))
        seen.crossed[other.stream.id] = part.hi

    def _hits(
        self, pairs: Sequence[Pair], event: e.ContextBuilt, index: int, current: str
    ) -> list[Hit]:
        """One hit for all pairs through the same sections that were not reported yet."""
        fresh: dict[tuple[str, str], list[Pair]] = {}
        for pair in pairs:
            one, in_one, two, in_two = pair
            if (one == two == current and one) or (event.agent, pair) in self._reported:
                continue
            self._reported.add((event.agent, pair))
            fresh.setdefault((in_one, in_two), []).append(pair)
        hits = []
        for sections, found in fresh.items():
            what = f"agent {event.agent!r} is sent {_named(found)} in turn {event.turn}"
            data = {
                "ids": [[one, two] for one, _, two, _ in found],
                "sections": list(sections),
            }
            hits.append(Hit(self.id, what, event.turn, event.agent, index, data=data))
        return hits


def _named(pairs: Sequence[Pair]) -> str:
    """Names what stands twice: ``message m3 twice (section history)``."""
    _, one, _, two = pairs[0]
    through = f"section {one}" if one == two else f"sections {one} and {two}"
    if not pairs[0][0]:
        return f"the same text twice ({through})"
    ids = [a if a == b else f"{a} = {b or 'the text made for this call'}" for a, _, b, _ in pairs]
    if len(ids) == 1:
        return f"message {ids[0]} twice ({through})"
    more = ", …" if len(ids) > 5 else ""
    return f"{len(ids)} messages twice ({through}): {', '.join(ids[:5])}{more}"
