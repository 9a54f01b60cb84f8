"""Tables of a run's texts and messages, in which each stands once; contexts and states by them.

Contexts are ranges of streams and states are changes, as the trace has them: linear in the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from simkit.checks.findings import Finding
from simkit.checks.provenance import left_out_text
from simkit.core.messages import JsonValue, Message
from simkit.language.matching.values import ToolName
from simkit.language.paths import as_text
from simkit.language.yaml import Document
from simkit.language.yaml.syntax import SourcePath
from simkit.report.results import Result
from simkit.trace import events as e
from simkit.trace.diff.values import plain
from simkit.trace.reducers import Appended, Keyed
from simkit.trace.store import canonical
from simkit.trace.views import CallView, ContextView, InlinePart, TurnView, View, prefix_of
from simkit.trace.views.contexts import HistoryView, UnshownView
from simkit.viewer import document
from simkit.viewer.document import ClaimLine, difference_data

_encode: Final = msgspec.json.Encoder().encode


class Tables:
    """Texts, messages, offered tools and lists of these, each with its index."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.messages: list[document.MessageData] = []
        self.toolsets: list[list[int]] = []
        self.offers: list[document.OfferData] = []
        self._text_places: dict[str, int] = {}
        self._message_places: dict[bytes, int] = {}
        self._toolset_places: dict[tuple[int, ...], int] = {}
        self._offer_places: dict[bytes, int] = {}
        self._logged: dict[int, tuple[Message, int]] = {}
        """The id of a message object to the object, which keeps the id taken, and its index."""

    def text(self, text: str) -> int:
        """Return the index of a text; -1 for an empty one."""
        if not text:
            return -1
        index = self._text_places.get(text)
        if index is None:
            index = self._text_places[text] = len(self.texts)
            self.texts.append(text)
        return index

    def value(self, value: Any) -> int:
        """Return the index of a value as text: JSON, unless it is a text; -1 for None."""
        return -1 if value is None else self.text(value_text(value))

    def message(self, message: Message) -> int:
        """Return the index of a message; its section belongs to the context's part."""
        cached = self._logged.get(id(message))
        if cached is not None:
            return cached[1]
        data = document.MessageData(
            role=message.role,
            text=self.text(message.content),
            id=message.id,
            agent=message.agent or "",
            turn=message.turn,
            tool=message.tool,
            call_id=message.call_id,
            calls=tuple(
                document.CallLine(call.id, call.name, canonical(call.args), call.target)
                for call in message.calls
            ),
        )
        encoded = _encode(data)
        index = self._message_places.get(encoded)
        if index is None:
            index = self._message_places[encoded] = len(self.messages)
            self.messages.append(data)
        self._logged[id(message)] = message, index
        return index

    def toolset(self, tools: Sequence[str]) -> int:
        """Return the index of a list of offered tools; -1 for an empty one."""
        if not tools:
            return -1
        places = tuple(map(self._offer, tools))
        if places not in self._toolset_places:
            self._toolset_places[places] = len(self.toolsets)
            self.toolsets.append(list(places))
        return self._toolset_places[places]

    def _offer(self, tool: str) -> int:
        data = document.OfferData(str(tool))
        if isinstance(tool, ToolName):
            parameters = self.value(tool.parameters)
            data = document.OfferData(str(tool), tool.description, parameters, tool.strict)
        encoded = _encode(data)
        index = self._offer_places.get(encoded)
        if index is None:
            index = self._offer_places[encoded] = len(self.offers)
            self.offers.append(data)
        return index


def value_text(value: Any) -> str:
    """Return a value as a person reads it: a text as it is, anything else as indented JSON.

    Messages are shown by their number, author and text.
    """
    readable: JsonValue = canonical(plain(value, _message_text))
    if isinstance(readable, str):
        return readable
    return msgspec.json.format(_encode(readable), indent=2).decode()


def _message_text(message: Message) -> str:
    calls = "".join(f" → {call.name}(…)" for call in message.calls)
    author = message.agent or message.tool or message.role
    return f"{message.id} {author}: {message.content}{calls}".lstrip()


ITEMS_MAX: Final = 20
"""The number of left-out items of one reason that a call shows; the rest are counted."""


class Contexts:
    """Makes the data of calls; a stream's entries are added once, however many calls show them."""

    def __init__(self, view: View, tables: Tables) -> None:
        self._view, self._tables = view, tables
        self.streams: list[document.StreamData] = []
        self._stream_places: dict[int, int] = {}
        self.places: dict[str, int] = {}
        """Call to its index."""

    def call_of(self, event: e.ContextBuilt) -> document.CallData:
        """Return the data of a call; the calls before it have been asked for."""
        call, tables = self._view.calls[event.call], self._tables
        context = call.context
        reply = call.reply
        self.places[event.call] = len(self.places)
        return document.CallData(
            **document.copied(call, "id", "agent", "run", "turn", "at"),
            **document.copied(context, "tokens", "budget", "hidden"),
            base=self.places.get(event.base, -1),
            prefix=_prefix_data(context),
            parts=() if event.base else tuple(self._parts(context)),
            own=tuple(tables.message(message) for message in context.own_messages),
            own_tokens=tuple(context.said_tokens),
            named=() if context.named is None else tuple(_named(context)),
            tools=tables.toolset(context.offers),
            settings=tables.value(context.settings),
            left_out=() if event.base else tuple(self._left_out(event, call)),
            handoffs=tuple(context.handoffs or ()),
            reply=-1 if reply is None else tables.message(reply),
            error="" if call.error is None else call.error.error,
        )

    def _parts(self, context: ContextView) -> Iterable[document.PartData]:
        for index, part in enumerate(context.parts):
            if isinstance(part, HistoryView):
                yield self._history(part)
                continue
            assert isinstance(part, InlinePart)
            yield document.PartData(
                section=part.section,
                message=self._tables.message(part.message),
                tokens=part.tokens,
                pieces=tuple(
                    (piece.section, self._tables.text(piece.content), piece.tokens)
                    for piece in part.pieces
                ),
                inner=tuple(self._history(inner) for inner in context.inner.get(index, ())),
            )

    def _history(self, part: HistoryView) -> document.PartData:
        tables, stream = self._tables, part.stream
        index = self._stream_places.get(id(stream))
        if index is None:
            index = self._stream_places[id(stream)] = len(self.streams)
            self.streams.append(document.StreamData(stream.id, [], [], []))
        data = self.streams[index]
        # Cuts first: they refer to messages as they were written, of which others are edits.
        data.cuts.extend(self._cuts(stream.cuts[len(data.cuts) :]))
        tail_cuts = tuple(self._cuts(part.tail_cuts))
        first_new = len(data.entries)
        data.entries.extend(map(tables.message, stream.entries[first_new:]))
        data.tokens.extend(stream.tokens[first_new:])
        return document.PartData(
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

    def _cuts(self, cuts: Sequence[e.Omission]) -> list[document.CutData]:
        messages, tables = self._view.messages, self._tables
        return [
            document.CutData(tables.message(messages[cut.message]), cut.by, cut.what)
            for cut in cuts
        ]

    def _left_out(self, event: e.ContextBuilt, call: CallView) -> Iterable[document.LeftOutData]:
        if not event.left_out:
            return
        run = self._view.runs.get(call.run)
        received = run.received if run is not None else {}
        for fact in event.left_out:
            if isinstance(fact, e.Shortened):
                words = left_out_text(next(iter(UnshownView((fact,)))), 0)
                yield document.LeftOutData(fact.section, fact.by, fact.channel, 1, (), words)
                continue
            count = sum(end - first for first, end in fact.places)
            items = self._items(received, fact)
            yield document.LeftOutData(fact.section, fact.by, fact.channel, count, tuple(items))

    def _items(self, received: Any, fact: e.LeftOut) -> list[int]:
        value = received.get(fact.channel) if hasattr(received, "get") else None
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        items: Sequence[Any] = value if is_list and value is not None else (value,)
        indices = [index for first, end in fact.places for index in range(first, end)][:ITEMS_MAX]
        chosen = [items[index] for index in indices if index < len(items)]
        return [self._tables.text(_item_text(item)) for item in chosen if item is not None]


def _prefix_data(context: ContextView) -> document.PrefixData | None:
    prefix = prefix_of(context)
    if prefix is None:
        return None
    where = prefix.where if prefix.place else ""
    fields = document.copied(prefix, "messages", "tokens", "total", "before", "after")
    return document.PrefixData(where=where, **fields)


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


SET, MORE, WITH = "=", "+", "~"
_NOTHING: Final[Mapping[str, Any]] = {}


class StateChanges:
    """Says how the state of each session goes on."""

    def __init__(self) -> None:
        self._last: dict[str, Mapping[str, Any]] = {}

    def of(self, turn: TurnView) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
        """Return the changes before a turn, since the session's last one, and those of the turn."""
        last = self._last.get(turn.session, _NOTHING)
        before, after = turn.state_before, turn.state
        if not turn.finished:
            after = before
        self._last[turn.session] = after
        return changes(last, before), changes(before, after)


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return each channel that differs, with its change."""
    out: dict[str, JsonValue] = {}
    for name in new:
        before, after = old.get(name), new[name]
        if name in old and (before is after or _is_equal(before, after)):
            continue
        out[name] = change_of(before, after)
    return out


def change_of(old: Any, new: Any) -> JsonValue:
    """Return how a value comes from another one: ``=`` a new one, ``+`` items, ``~`` keys."""
    if type(new) is Appended and type(old) is Appended and new.family == old.family:
        cut, more = new.start - old.start, len(new) + new.start - (len(old) + old.start)
        if cut >= 0 and 0 <= more <= len(new):
            return [MORE, [canonical(item) for item in new[len(new) - more :]], cut]
    are_mappings = isinstance(old, (dict, Keyed)) and isinstance(new, (dict, Keyed))
    if are_mappings and 0 < len(old) <= len(new) and all(key in new for key in old):
        return [WITH, changes(old, new)]
    return [SET, canonical(new)]


def _is_equal(old: Any, new: Any) -> bool:
    if type(old) is Appended and type(new) is Appended and old.family == new.family:
        return old.start == new.start and len(old) == len(new)
    return type(old) is type(new) and bool(old == new)


# The claims of a file, with what came of each


EXPECT: Final = "expect"
DEPTH: Final = 3
"""How far claims are separated: ``context``, its agent, its operator."""
NOT_RUN: Final = "the turn did not run"


def claim_lines(document: Document, result: Result) -> list[ClaimLine]:
    """Return the claims in the order of the file; those of a run that did not end are left out."""
    failing = _by_claim(result.findings)
    skipped = _by_claim(result.passed_over)
    lines: dict[tuple[int, str], ClaimLine] = {}
    for path in _claims(document.data):
        findings, state = _at(path, failing), "failing"
        if not findings:
            findings = _at(path, skipped)
            state = "skipped" if findings else "held"
        differences = tuple(chain.from_iterable(map(difference_data, findings)))
        reason = findings[0].what if findings else ""
        if not findings and _turn_of(path) > result.turns:
            state, reason = "skipped", NOT_RUN
        words = ".".join(map(str, path))
        # The line of the claim's own key, below which its value may stand.
        number = int(document.position(path, key=True).rsplit(":", 2)[1])
        line = ClaimLine(number, state, words, differences, reason)
        lines[line.line, words] = line
    if result.outcome in ("skipped", "broken"):
        return [line for line in lines.values() if line.state == "failing"]
    return sorted(lines.values(), key=lambda line: line.line)


def _by_claim(findings: Sequence[Finding]) -> dict[SourcePath, Finding]:
    """Return the findings of claims by path; a lint's finding at a turn is of no claim."""
    by_path = {finding.path: finding for finding in reversed(findings) if EXPECT in finding.path}
    return dict(reversed(by_path.items()))


def _turn_of(path: SourcePath) -> int:
    """Return the number of a claim's turn, from 1; 0 for claims on the run."""
    index = path[1] if path[0] == "turns" else -1
    assert isinstance(index, int)
    return index + 1


def _claims(data: Mapping[str, Any]) -> Iterator[SourcePath]:
    turns = data.get("turns")
    for index, turn in enumerate(turns if isinstance(turns, Sequence) else ()):
        if isinstance(turn, Mapping) and isinstance(turn.get("expect"), Mapping):
            yield from _parts(turn["expect"], ("turns", index, "expect"), DEPTH)
    if isinstance(data.get("expect"), Mapping):
        yield from _parts(data["expect"], ("expect",), DEPTH)


def _parts(value: Mapping[str, Any], path: SourcePath, depth: int) -> Iterator[SourcePath]:
    for key, part in value.items():
        inner = (*path, key)
        if isinstance(part, Mapping) and part and depth > 1:
            yield from _parts(part, inner, depth - 1)
        else:
            yield inner


def _at(path: SourcePath, findings: Mapping[SourcePath, Finding]) -> list[Finding]:
    """Return the findings of a claim: at its path, below it, or at what it is a part of."""
    return [
        finding
        for other, finding in findings.items()
        if other and (other[: len(path)] == path or path[: len(other)] == other)
    ]
