"""Views of contexts: ranges over one log, messages made for a context, dropped messages."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, final

from msgspec.structs import asdict, replace

from simkit.core.messages import Dropped, JsonValue, Message
from simkit.language.matching import Matcher, compile_matcher
from simkit.language.matching.values import ToolName
from simkit.language.paths import as_text
from simkit.trace import events as e
from simkit.trace.events import InlinePart


class StreamView:
    """The result of one agent's filters on a log: the settled part, which grows with every turn."""

    def __init__(self, identity: str) -> None:
        self.id = identity
        self.entries: list[Message] = []
        self.tokens: list[int] = []
        self.cuts: list[e.Omission] = []
        self._sums = [0]
        """The tokens of the first entries together, by their number."""

    def size(self, lo: int, hi: int) -> int:
        """Return the tokens of a range of entries, in constant time beside new ones."""
        for tokens in self.tokens[len(self._sums) - 1 : hi]:
            self._sums.append(self._sums[-1] + tokens)
        return self._sums[hi] - self._sums[lo]


def pieces_of(part: InlinePart) -> Iterator[Message]:
    """Yield the piece of each section that shares a message, as a message of its own."""
    for piece in part.pieces:
        yield replace(part.message, content=piece.content, section=piece.section, data=None)


@final
class HistoryView:
    """A range of a filtered history."""

    def __init__(
        self, part: e.HistoryPart, stream: StreamView, messages: Mapping[int, Message]
    ) -> None:
        self.section, self.stream, self.lo = part.section, stream, part.lo
        self.stream_messages = messages
        self.hi, self.cuts_hi = len(stream.entries), len(stream.cuts)
        self.tail: list[Message] = []
        self.tail_tokens: list[int] = []
        self.tail_cuts = part.tail_cuts
        self.summary, self.summary_tokens = part.summary, part.summary_tokens
        self.rendered, self.rendered_tokens = part.rendered, part.rendered_tokens

    def __len__(self) -> int:
        """Return the number of messages in the context."""
        if self.rendered is not None:
            return 1
        return self.hi + len(self.tail) - self.lo + (self.summary is not None)

    def entry(self, index: int) -> Message:
        """Return the logged message at an index of settled + tail."""
        return self.stream.entries[index] if index < self.hi else self.tail[index - self.hi]

    def entries(self) -> list[Message]:
        """Return the logged messages that it shows one by one, as the log has them."""
        return (
            []
            if self.rendered is not None
            else [*self.stream.entries[self.lo : self.hi], *self.tail]
        )

    def settled(self, index: int) -> Message:
        """Return the settled message at an index of the stream, with its section."""
        return replace(self.stream.entries[index], section=self.section)

    def message(self, index: int) -> Message:
        """Return the message at an index of the context, with its section."""
        if self.rendered is not None:
            return self.rendered
        if self.summary is not None:
            if index == 0:
                return self.summary
            index -= 1
        return replace(self.entry(self.lo + index), section=self.section)

    def tokens_at(self, index: int) -> int:
        """Return the tokens of the message at an index of the context."""
        if self.rendered is not None:
            return self.rendered_tokens
        if self.summary is not None:
            if index == 0:
                return self.summary_tokens
            index -= 1
        at = self.lo + index
        return self.stream.tokens[at] if at < self.hi else self.tail_tokens[at - self.hi]


class Messages(Sequence[Message]):
    """The messages of a context, or of one of its sections, made one by one on access."""

    def __init__(self, parts: Sequence[InlinePart | HistoryView | list[Message]]) -> None:
        self._parts = parts
        self._starts = [0]
        for part in parts:
            size = 1 if isinstance(part, InlinePart) else len(part)
            self._starts.append(self._starts[-1] + size)

    def __len__(self) -> int:
        return self._starts[-1]

    def __iter__(self) -> Iterator[Message]:
        for part in self._parts:
            if isinstance(part, InlinePart):
                yield part.message
            elif isinstance(part, HistoryView):
                yield from map(part.message, range(len(part)))
            else:
                yield from part

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(index)
        position = bisect_left(self._starts, index + 1) - 1
        part = self._parts[position]
        if isinstance(part, InlinePart):
            return part.message
        if isinstance(part, HistoryView):
            return part.message(index - self._starts[position])
        return part[index - self._starts[position]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)


class UnshownView:
    """Items that sections read and did not show; they are looked up on access."""

    def __init__(self, facts: Sequence[e.Unshown] = (), state: Mapping[str, Any] = {}) -> None:
        """``state`` is the state that the run received."""
        self._facts, self._state = facts, state

    def __len__(self) -> int:
        """Return the number of entries."""
        return sum(
            sum(end - first for first, end in fact.places) if isinstance(fact, e.LeftOut) else 1
            for fact in self._facts
        )

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the entries by section, then by channel, whose items come first in order."""
        by_source: dict[tuple[str, str], list[e.Unshown]] = {}
        for fact in self._facts:
            by_source.setdefault((fact.section, fact.channel), []).append(fact)
        for (section, channel), facts in by_source.items():
            yield from self._items(section, channel, facts)
            for fact in facts:
                if isinstance(fact, e.Shortened):
                    yield _cut_short(fact)

    def by(self, section: str) -> dict[tuple[str, str], int]:
        """Return the number of left-out or cut items of a section, by reason and channel."""
        counts: dict[tuple[str, str], int] = {}
        for fact in self._facts:
            if fact.section == section:
                key, size = (fact.by, fact.channel), len(UnshownView((fact,)))
                counts[key] = counts.get(key, 0) + size
        return counts

    def _items(
        self, section: str, channel: str, facts: Sequence[e.Unshown]
    ) -> Iterator[dict[str, Any]]:
        value = self._state.get(channel)
        items = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
        ranges = sorted(
            (*span, fact.by)
            for fact in facts
            if isinstance(fact, e.LeftOut)
            for span in fact.places
        )
        for first, end, by in ranges:
            for index in range(first, end):
                fields = _fields_of(items[index])
                yield {"section": section, "channel": channel, **fields, "by": by}


def _fields_of(item: Any) -> Mapping[str, Any]:
    """Return an item's fields, except those by which an entry gives place and reason."""
    if isinstance(item, Message):
        return {"text": item.content, "agent": item.agent}
    if not isinstance(item, Mapping):
        return {"text": as_text(item)}
    return {key: value for key, value in item.items() if key not in ("section", "channel", "by")}


def _cut_short(fact: e.Shortened) -> dict[str, Any]:
    entry = {key: value for key, value in asdict(fact).items() if value}
    return {**entry, "path": fact.path} if fact.items or fact.characters else entry


ALL_SHOWN: Final = UnshownView()


class ContextView:
    """All that one model call received."""

    def __init__(
        self,
        event: e.ContextBuilt,
        parts: list[InlinePart | HistoryView],
        inner: Mapping[int, Sequence[HistoryView]],
        unshown: UnshownView,
        definitions: Mapping[int, ToolName],
    ) -> None:
        """``definitions`` are those of the trace so far, by number."""
        self.before: ContextView | None = None
        """The context of the agent's call before in this session; None for its first call."""
        self.parts, self.inner = parts, inner
        """``inner`` has the histories that are rendered in the pieces of a part, by its index."""
        self.named: Callable[[Sequence[Message]], list[Message]] | None = None
        """Assigns messages to sections, if the driver did not; else None."""
        self.unshown = unshown
        self.own_messages: list[Message] = []
        self.said_tokens: list[int] = []
        self.tools, self.settings = event.tools, event.settings
        self.offers: Sequence[str] = event.tools
        if event.definitions:
            self.offers = [definitions[number] for number in event.definitions]
        """The tools offered: names, each with its definition if the trace has it."""
        self.hidden, self.marks, self.at = event.hidden, event.marks, event.at
        self.handoffs = event.handoffs
        """The agents that it may pass control to; None if not known."""
        self.handoff_tools = dict(event.handoff_tools)
        """For code: the offered tools that pass control, each with its target agent."""
        self.tokens, self.budget = event.tokens, event.budget

    @property
    def messages(self) -> Messages:
        """Return all messages in order."""
        return Messages([*self.parts, [replace(m, section="run") for m in self.own_messages]])

    def sectioned(self) -> Sequence[Message]:
        """Return all messages in order, each with its section."""
        return self.messages if self.named is None else self.named(self.messages)

    @property
    def sections(self) -> list[str]:
        """Return the names of the non-empty sections in order, each once."""
        names: dict[str, None] = {}
        if self.named is not None:
            return list(dict.fromkeys(m.section for m in self.sectioned()))
        for part in self.parts:
            if isinstance(part, InlinePart):
                for piece in part.pieces:
                    names[piece.section] = None
                if not part.pieces:
                    names[part.section] = None
            elif len(part):
                names[part.section] = None
        if self.own_messages:
            names["run"] = None
        return list(names)

    def section(self, name: str) -> Messages:
        """Return the messages of one section; of a shared message, its own piece."""
        parts: list[InlinePart | HistoryView | list[Message]] = []
        if self.named is not None:
            return Messages([[m for m in self.sectioned() if m.section == name]])
        for part in self.parts:
            if isinstance(part, HistoryView):
                if part.section == name:
                    parts.append(part)
            elif part.pieces:
                parts += [[message] for message in pieces_of(part) if message.section == name]
            elif part.section == name:
                parts.append(part)
        if name == "run" and self.own_messages:
            parts.append([replace(m, section="run") for m in self.own_messages])
        return Messages(parts)

    def dropped(self) -> list[Dropped]:
        """Return the messages that history sections read and dropped, in order."""
        out: list[tuple[int, int, Dropped]] = []
        for part in self.histories():
            originals = part.stream_messages
            cuts = [*part.stream.cuts[: part.cuts_hi], *part.tail_cuts]
            cut_messages = {cut.message for cut in cuts if cut.what == "message"}
            for order, cut in enumerate(cuts):
                message = originals[cut.message]
                out.append((cut.message, order, Dropped(message, cut.what, cut.by)))
            for index in range(min(part.lo, part.hi + len(part.tail))):
                part_entry = part.entry(index)
                number = part_entry.number
                if number not in cut_messages:
                    entry = Dropped(originals[number], "message", "window")
                    out.append((number, len(cuts), entry))
        return [entry for _, _, entry in sorted(out, key=lambda row: row[:2])]

    def left_out(self) -> list[dict[str, Any]]:
        """Return the items that other sections read and left out, with the reason."""
        return list(self.unshown)

    def histories(self) -> Iterator[HistoryView]:
        """Yield the parts of histories, also those that are rendered in a shared message."""
        for index, part in enumerate(self.parts):
            if type(part) is HistoryView:
                yield part
            else:
                yield from self.inner.get(index, ())

    def weights(self) -> Iterator[tuple[str, str | None, int]]:
        """Yield (section, agent, tokens) of every message; linear in the context."""
        for part in self.parts:
            if isinstance(part, InlinePart):
                if part.pieces:
                    for piece in part.pieces:
                        yield piece.section, None, piece.tokens
                else:
                    yield part.section, part.message.agent, part.tokens
            elif part.rendered is not None:
                yield part.section, None, part.rendered_tokens
            else:
                if part.summary is not None:
                    yield part.section, part.summary.agent, part.summary_tokens
                for index in range(part.lo, part.hi):
                    message = part.stream.entries[index]
                    yield part.section, message.agent, part.stream.tokens[index]
                for message, tokens in zip(part.tail, part.tail_tokens, strict=True):
                    yield part.section, message.agent, tokens
        for message, tokens in zip(self.own_messages, self.said_tokens, strict=True):
            yield "run", message.agent, tokens

    def shares(self) -> dict[str, float]:
        """Return the share of the tokens by section and by agent; the user is ``user``.

        A message that renders a history counts for its section only.
        """
        sections_read = {"current_message", "run"} | {
            part.section
            for part in self.parts
            if isinstance(part, HistoryView) and part.rendered is None
        }
        sizes: dict[str, int] = {}
        total = 0
        for section, agent, tokens in self.weights():
            total += tokens
            sizes[section] = sizes.get(section, 0) + tokens
            speaker = agent or ("user" if section in sections_read else "")
            if speaker and speaker != section:
                sizes[speaker] = sizes.get(speaker, 0) + tokens
        return {name: size / total for name, size in sizes.items()} if total else {}


# Sections of contexts that code built, assigned by the matchers of the pipeline's file
#
# A declared pipeline knows which section made each message. For code, the first section whose
# matcher fits takes the message. The run's own messages are `run`. Of the rest, leading system
# messages are `instructions`, the last user message that this turn brought is `current_message`,
# and all others are `history`.


RUN: Final = "run"
INSTRUCTIONS: Final = "instructions"
HISTORY: Final = "history"
CURRENT: Final = "current_message"
"""A section of one message: the last that fits."""


class Naming:
    """The assignment of sections for one agent's contexts."""

    def __init__(self, sections: Mapping[str, JsonValue]) -> None:
        self._names = frozenset(sections)
        self._matchers: list[tuple[str, Matcher]] = [
            (name, compile_matcher(matcher)) for name, matcher in sections.items()
        ]

    def named(self, messages: Sequence[Message], own: Collection[int], first: int) -> list[Message]:
        """Return a context's messages with their sections.

        ``own`` are the numbers of the run's messages, ``first`` is the number of the turn's first
        message.
        """
        named_messages: list[Message] = []
        is_front, is_current_found = True, False
        for message in reversed(messages):
            is_said = message.role in ("assistant", "tool") and bool(message.id)
            is_own = is_said and message.number in own
            name = RUN if is_own else self._section_of(message, is_current_found)
            is_current_found = is_current_found or name == CURRENT
            named_messages.append(replace(message, section=name))
        if not is_current_found and CURRENT not in self._names:
            _name_current(named_messages, first)
        named_messages.reverse()
        for index, message in enumerate(named_messages):
            is_front = is_front and message.role == "system"
            if not message.section:
                section = INSTRUCTIONS if is_front else HISTORY
                named_messages[index] = replace(message, section=section)
        return named_messages

    def _section_of(self, message: Message, is_current_found: bool) -> str:
        """Return the first section whose matcher fits a message; empty if none does."""
        for section, matcher in self._matchers:
            if not (section == CURRENT and is_current_found) and matcher.holds(message):
                return section
        return ""


def _name_current(latest_first: list[Message], first: int) -> None:
    """Name the last user message, if this turn brought it and it has no other section."""
    for index, message in enumerate(latest_first):
        if message.role == "user":
            if not message.section and message.id and message.number >= first:
                latest_first[index] = replace(message, section=CURRENT)
            return
