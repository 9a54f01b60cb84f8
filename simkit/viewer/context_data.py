"""Contexts as ranges of streams: linear in the run, as the trace has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from simkit.core.messages import Message
from simkit.language.paths import as_text
from simkit.trace import events as e
from simkit.trace.store import canonical
from simkit.trace.views import CallView, ContextView, MadePart, RunView, ShownPart, View
from simkit.viewer.document import CallData, CutData, LeftOutData, PartData, StreamData, copied
from simkit.viewer.tables import Tables

ITEMS_MAX: Final = 20
"""The number of left-out items of one reason that a call shows; the rest are counted."""


class Contexts:
    """Makes the data of calls; a stream's entries are added once, however many calls show them."""

    def __init__(self, view: View, tables: Tables) -> None:
        self._view, self._tables = view, tables
        self.streams: list[StreamData] = []
        self._stream_places: dict[int, int] = {}
        self.places: dict[str, int] = {}
        """Call to its index."""

    def call_of(self, event: e.ContextBuilt) -> CallData:
        """Return the data of a call; the calls before it have been asked for."""
        call, tables = self._view.calls[event.call], self._tables
        context = call.context
        reply = call.reply
        self.places[event.call] = len(self.places)
        return CallData(
            **copied(call, "id", "agent", "run", "turn", "at"),
            **copied(context, "tokens", "budget", "hidden"),
            base=self.places.get(event.base, -1),
            parts=() if event.base else tuple(self._parts(context)),
            own=tuple(tables.message(message) for message in context.own_messages),
            own_tokens=tuple(context.said_tokens),
            named=() if context.named is None else tuple(_named(context)),
            tools=tables.toolset(tuple(context.tools)),
            settings=tables.value(context.settings),
            left_out=() if event.base else tuple(self._left_out(event, call)),
            handoffs=tuple(context.handoffs or ()),
            reply=-1 if reply is None else tables.message(reply),
            error="" if call.error is None else call.error.error,
        )

    def _parts(self, context: ContextView) -> Iterable[PartData]:
        for index, part in enumerate(context.parts):
            if isinstance(part, ShownPart):
                yield self._history(part)
                continue
            assert isinstance(part, MadePart)
            yield PartData(
                section=part.section,
                message=self._tables.message(part.message),
                tokens=part.tokens,
                pieces=tuple(
                    (piece.section, self._tables.text(piece.content), piece.tokens)
                    for piece in part.pieces
                ),
                inner=tuple(self._history(inner) for inner in context.inner.get(index, ())),
            )

    def _history(self, part: ShownPart) -> PartData:
        tables, stream = self._tables, part.stream
        index = self._stream_places.get(id(stream))
        if index is None:
            index = self._stream_places[id(stream)] = len(self.streams)
            self.streams.append(StreamData(stream.id, [], [], []))
        data = self.streams[index]
        # Cuts first: they refer to messages as they were written, of which others are edits.
        data.cuts.extend(self._cuts(stream.cuts[len(data.cuts) :]))
        tail_cuts = tuple(self._cuts(part.tail_cuts))
        first_new = len(data.entries)
        data.entries.extend(map(tables.message, stream.entries[first_new:]))
        data.tokens.extend(stream.tokens[first_new:])
        return PartData(
            section=part.section,
            stream=index,
            lo=part.lo,
            hi=part.hi,
            cuts=part.cuts_hi,
            tail=tuple(tables.message(message) for message in part.tail),
            tail_tokens=tuple(part.tail_tokens),
            tail_cuts=tail_cuts,
            summary=-1 if part.summary is None else tables.message(part.summary),
            summary_tokens=part.summary_tokens,
            rendered=-1 if part.rendered is None else tables.message(part.rendered),
            tokens=part.rendered_tokens,
        )

    def _cuts(self, cuts: Sequence[e.Cut]) -> list[CutData]:
        messages, tables = self._view.messages, self._tables
        return [CutData(tables.message(messages[cut.message]), cut.by, cut.what) for cut in cuts]

    def _left_out(self, event: e.ContextBuilt, call: CallView) -> Iterable[LeftOutData]:
        if not event.left_out:
            return
        run = self._view.runs.get(call.run)
        received = run.received if run is not None else {}
        for fact in event.left_out:
            if isinstance(fact, e.Shortened):
                cut_off = f"{fact.items} items" if fact.items else f"{fact.characters} characters"
                where = f" at {fact.path}" if fact.path else ""
                yield LeftOutData(
                    fact.section, fact.by, fact.channel, 1, (), f"{cut_off} cut off{where}"
                )
                continue
            count = sum(end - first for first, end in fact.places)
            items = self._items(received, fact)
            yield LeftOutData(fact.section, fact.by, fact.channel, count, tuple(items))

    def _items(self, received: Any, fact: e.LeftOut) -> list[int]:
        value = received.get(fact.channel) if hasattr(received, "get") else None
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        items: Sequence[Any] = value if is_list and value is not None else (value,)
        indices = [index for first, end in fact.places for index in range(first, end)][:ITEMS_MAX]
        chosen = [items[index] for index in indices if index < len(items)]
        return [self._tables.text(_item_text(item)) for item in chosen if item is not None]


def _item_text(item: Any) -> str:
    if isinstance(item, Message):
        return item.content
    return item if isinstance(item, str) else as_text(canonical(item))


def _named(context: ContextView) -> Iterable[tuple[str, int]]:
    """Yield the sections of all messages in order, each with the number of messages in a row."""
    section, count = "", 0
    for message in context.sectioned():
        if count and message.section != section:
            yield section, count
            count = 0
        section, count = message.section, count + 1
    if count:
        yield section, count


def run_input(run: RunView) -> Any:
    """Return what a run was given, unless it is the user's message, which its turn shows."""
    return None if isinstance(run.input, Message) else run.input
