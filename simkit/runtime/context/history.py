"""The history section: one append-only log, filtered once, shown as ranges.

A stream is the result of one recipe's filters on a session's log (or on a channel). Finished turns
are filtered once; only the current turn is filtered again for each context. So the contexts of a
session are linear in the log, not quadratic.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from simkit.core.errors import FunctionFailed
from simkit.core.messages import HANDOFF_PREFIX, Message
from simkit.language.matching import compile_matcher
from simkit.runtime.context.rendering import Counter, tokens_of
from simkit.spec.pipeline import recipe
from simkit.trace.events import HistoryPart, Omission

# Filters: pure functions of one message, named in the trace if they drop or edit it


Filtered: TypeAlias = Message | None
"""The message, an edited one, or None if it is dropped."""

FilterFunction: TypeAlias = Callable[[Message, Container[str]], Filtered]
"""Gets a message and the ids of the conversation's messages."""

TECHNICAL: Final[tuple[str, ...]] = ("tool_messages", "tool_calls", "intermediate_ai")


def tool_messages(message: Message, _committed: Container[str]) -> Filtered:
    """Drop tool results."""
    return None if message.role == "tool" else message


def tool_calls(message: Message, _committed: Container[str]) -> Filtered:
    """Remove the calls of assistant messages."""
    return replace(message, calls=()) if message.calls else message


def intermediate_ai(message: Message, committed: Container[str]) -> Filtered:
    """Drop assistant messages that are not in the conversation."""
    return None if message.role == "assistant" and message.id not in committed else message


def handoffs(message: Message, _committed: Container[str]) -> Filtered:
    """Remove transfer calls, and drop their results."""
    if message.role == "tool":
        return None if message.tool.startswith(HANDOFF_PREFIX) else message
    if any(call.is_handoff for call in message.calls):
        return replace(message, calls=tuple(c for c in message.calls if not c.is_handoff))
    return message


NAMED_FILTERS: Final[dict[str, FilterFunction]] = {
    "tool_messages": tool_messages,
    "tool_calls": tool_calls,
    "intermediate_ai": intermediate_ai,
    "handoffs": handoffs,
}


def filter_named(spec: recipe.Filter) -> tuple[str, FilterFunction]:
    """Return a filter's name and function.

    ``module:function`` and ``older_than`` read a whole history, and are not handled here.
    """
    if isinstance(spec, str):
        return spec, NAMED_FILTERS[spec]
    if spec.agents is not None:
        return "agents", _by_agent(spec.agents)
    return "drop", _by_matcher(spec.drop)


def of_older(options: recipe.OlderThan) -> list[tuple[str, FilterFunction]]:
    """Return the filters for older messages: without filters of its own, all are dropped."""
    if options.filters is None:
        return [("older_than", lambda _message, _committed: None)]
    return [filter_named(filter) for filter in options.filters]


def _by_matcher(source: Any) -> FilterFunction:
    matcher = compile_matcher(source)

    def drop(message: Message, _committed: Container[str]) -> Filtered:
        return None if matcher.holds(message) else message

    return drop


def _by_agent(options: recipe.AgentFilter) -> FilterFunction:
    only, unwanted = options.only, options.not_ or ()

    def agents(message: Message, _committed: Container[str]) -> Filtered:
        if message.agent is None and message.role != "assistant":
            return message
        if message.agent in unwanted or (only is not None and message.agent not in only):
            return None
        return message

    return agents


# Histories: a filtered log, settled once its turns are over


Entries: TypeAlias = list[tuple[Message, int]]
"""Messages with their token counts."""
Named: TypeAlias = tuple[str, FilterFunction]
Sizes: TypeAlias = Mapping[str, tuple[int, int]]
"""A logged message's id to its number and its token count."""


class Stream:
    """The settled part of one filtered history."""

    def __init__(self, identity: str, anchor: Any, restarts: bool = False) -> None:
        self.id = identity
        self.anchor = anchor
        """The list that it was read from, kept so that no other list gets its id."""
        self.entries: Entries = []
        self.tokens = 0
        self.sums: list[int] = [0]
        """For windows: the tokens before each index."""
        self.rounds: list[int] = []
        """For windows: indices of user messages."""
        self.read_to = 0
        """The index up to which the source was read."""
        self.numbers_kept: list[int] = []
        self.cuts: list[Omission] = []
        """With ``keep_new``: settled parts that no event has reported yet."""
        self.restarts = restarts
        """Whether an older stream with this name was reported, and must be discarded."""

    def measure(self) -> None:
        """Bring ``sums`` and ``rounds`` up to date."""
        for index in range(len(self.sums) - 1, len(self.entries)):
            message, tokens = self.entries[index]
            if message.role == "user":
                self.rounds.append(index)
            self.sums.append(self.sums[-1] + tokens)


class Slice(msgspec.Struct, frozen=True, gc=False):
    """The messages that a history section shows in one context."""

    shown_part: HistoryPart
    tokens: int
    stream: Stream
    tail: Entries
    settled: int
    """The index of the first message in the source that is not settled."""

    def message(self, index: int) -> Message:
        """Return the message at an index of settled + tail."""
        settled = self.stream.entries
        size = len(settled)
        return (settled[index] if index < size else self.tail[index - size])[0]

    def messages(self) -> list[Message]:
        """Return the messages from the start of the window on."""
        start, settled = self.shown_part.lo, self.stream.entries
        entries = [*settled[start:], *self.tail[max(0, start - len(settled)) :]]
        return [message for message, _ in entries]


class HistoryReader:
    """The reader of one history section of one recipe."""

    def __init__(
        self,
        section: str,
        channel: str,
        options: recipe.History,
        before: Sequence[recipe.Filter],
        count: Counter,
        function: Callable[[str], Callable[..., Any]],
    ) -> None:
        """``channel`` is the source, or ``log``.

        ``before`` are filters of a handoff's contract; they come first.
        """
        self._filters: list[Named] = []
        self._later: list[tuple[_OfAll, list[Named]]] = []
        following = self._filters
        for spec in [*before, *options.filters]:
            of_all: _OfAll | None = None
            if isinstance(spec, str) and ":" in spec:
                of_all = _UsersFilter(spec, function(spec))
            elif isinstance(spec, recipe.FilterSpec) and spec.older_than is not None:
                of_all = _AgeFilter(spec.older_than, of_older(spec.older_than))
            if of_all is None:
                following.append(filter_named(spec))
            else:
                following = []
                self._later.append((of_all, following))
        self.section, self.channel = section, channel
        self._window, self._count = options.window, count
        self._summarises = options.summary is not None
        self._reads_part = self._window is not None or self._summarises

    def read(
        self,
        stream: Stream,
        source: Sequence[Message],
        settled: int,
        omit: str,
        committed: Container[str],
        sizes: Sizes,
        first_turn: int,
    ) -> Slice:
        """Return the slice of ``source``; its first ``settled`` messages will not change.

        Messages since ``first_turn``, the turn of the user's last message, are not settled.
        ``omit`` is the id of the message that the recipe shows elsewhere; ``committed`` are the ids
        of the conversation's messages; ``sizes`` has every logged message's number and tokens.
        """
        read_to = stream.read_to
        fresh: Sequence[Message] = source[read_to:]
        if read_to < settled:
            settled = min(settled, read_to + len(fresh))
            # A channel that keeps only its last items has moved to the left since the turn began.
            while read_to < settled and fresh[settled - read_to - 1].turn >= first_turn:
                settled -= 1
            if not self._later and read_to < settled:
                messages, fresh = fresh[: settled - read_to], fresh[settled - read_to :]
                stream.tokens += self._keep_new(
                    messages, committed, sizes, stream.entries, stream.numbers_kept, stream.cuts
                )
                stream.read_to = settled
        numbers: list[int] = []
        tail_cuts: list[Omission] = []
        tail: Entries = []
        lo, tokens = 0, stream.tokens
        if fresh:
            tokens += self._keep_new(fresh, committed, sizes, tail, numbers, tail_cuts, omit)
        if self._later:
            tail, numbers = self._filtered_later(tail, committed, sizes, tail_cuts)
        if self._reads_part:
            lo, tokens = self._part(stream, tail)
        elif self._later:
            tokens = stream.tokens + sum(size for _, size in tail)
        history_part = HistoryPart(
            self.section,
            stream.id,
            lo,
            tuple(stream.numbers_kept) if stream.numbers_kept else (),
            tuple(stream.cuts) if stream.cuts else (),
            tuple(numbers) if numbers else (),
            tuple(tail_cuts) if tail_cuts else (),
            stream.restarts,
        )
        return Slice(history_part, tokens, stream, tail, settled)

    def _keep_new(
        self,
        messages: Sequence[Message],
        committed: Container[str],
        sizes: Sizes,
        entries: Entries,
        numbers: list[int],
        cuts: list[Omission],
        omit: str = "",
    ) -> int:
        """Add what filters keep of messages to entries and numbers; return its tokens."""
        filters, total = self._filters, 0
        for message in messages:
            if message.id == omit:
                continue
            number, tokens = sizes[message.id]
            entry: tuple[Message, int] | None = message, tokens
            if filters:
                entry = self._filter(filters, message, tokens, number, committed, cuts)
            if entry is not None:
                numbers.append(number)
                entries.append(entry)
                total += entry[1]
        return total

    def _filtered_later(
        self, tail: Entries, committed: Container[str], sizes: Sizes, cuts: list[Omission]
    ) -> tuple[Entries, list[int]]:
        """Return what the filters of the whole history keep, and the numbers of that."""
        for of_all, filters in self._later:
            if isinstance(of_all, _UsersFilter):
                tail = _filtered_by_user(of_all, tail, cuts, self._count)
            else:
                split = _newest(of_all.span, Stream("", None), tail)
                older = self._filtered(of_all.filters, tail[:split], committed, sizes, cuts)
                tail = [*older, *tail[split:]]
            tail = self._filtered(filters, tail, committed, sizes, cuts)
        return tail, [sizes[message.id][0] for message, _ in tail]

    def _part(self, stream: Stream, tail: Entries) -> tuple[int, int]:
        """Return the index at which the window begins, and the tokens from there on."""
        stream.measure()
        lo, size = self._start(stream, tail), len(stream.entries)
        tokens = stream.tokens - stream.sums[lo] if lo <= size else 0
        after = tail if lo <= size else tail[lo - size :]
        return lo, tokens + sum(tokens_after for _, tokens_after in after)

    def _filtered(
        self,
        filters: Sequence[Named],
        candidates: Entries,
        committed: Container[str],
        sizes: Sizes,
        cuts: list[Omission],
    ) -> Entries:
        """Return the result of filters; record the cuts."""
        filtered = [
            self._filter(filters, message, tokens, sizes[message.id][0], committed, cuts)
            for message, tokens in candidates
        ]
        return [entry for entry in filtered if entry is not None]

    def _filter(
        self,
        filters: Sequence[Named],
        message: Message,
        tokens: int,
        number: int,
        committed: Container[str],
        cuts: list[Omission],
    ) -> tuple[Message, int] | None:
        """Return a message as filters leave it, with its tokens; None if they drop it."""
        edited_by = ""
        for name, function in filters:
            after = function(message, committed)
            if after is message:
                continue
            if after is None:
                cuts.append(Omission(number, name))
                return None
            message, edited_by = after, name
            size = tokens_of(after, self._count)
            becomes = after if after.calls else None
            cuts.append(Omission(number, name, "tool_calls", tokens - size, becomes))
            tokens = size
        if edited_by and not message.content and not message.calls:
            cuts.append(Omission(number, edited_by))
            return None
        return message, tokens

    def _start(self, stream: Stream, tail: Entries) -> int:
        """Return the index in settled + tail at which the window begins."""
        if self._window is None:
            return len(stream.entries) + len(tail) if self._summarises else 0
        return _newest(self._window, stream, tail)


class _UsersFilter(NamedTuple):
    """A user's function of the whole history."""

    name: str
    function: Callable[..., Any]


class _AgeFilter(NamedTuple):
    """A filter for the messages before the newest part, whose start changes with each turn."""

    span: recipe.Span
    filters: list[Named]


_OfAll: TypeAlias = _UsersFilter | _AgeFilter


def _newest(span: recipe.Span | recipe.Window, stream: Stream, tail: Entries) -> int:
    """Return the index in settled + tail at which the newest part begins."""
    size = len(stream.entries) + len(tail)
    lo = 0
    if span.messages:
        lo = max(lo, size - span.messages)
    if span.rounds:
        lo = max(lo, _round_start(stream, tail, span.rounds))
    if span.tokens:
        lo = max(lo, _token_start(stream, tail, span.tokens))
    return lo


def _round_start(stream: Stream, tail: Entries, rounds: int) -> int:
    size = len(stream.entries)
    in_tail = [size + index for index, (message, _) in enumerate(tail) if message.role == "user"]
    if rounds <= len(in_tail):
        return in_tail[-rounds]
    missing = rounds - len(in_tail)
    return stream.rounds[-missing] if missing <= len(stream.rounds) else 0


def _token_start(stream: Stream, tail: Entries, budget: int) -> int:
    size = len(stream.entries)
    used = 0
    for index in range(len(tail) - 1, -1, -1):
        used += tail[index][1]
        if used > budget:
            return size + index + 1
    return bisect_left(stream.sums, stream.sums[-1] + used - budget)


def _filtered_by_user(
    users: _UsersFilter, tail: Entries, cuts: list[Omission], count: Counter
) -> Entries:
    """Apply the user's filter: a function of the list of messages that returns those to keep."""
    name, function = users
    messages_in = [message for message, _ in tail]
    returned = _kept_by_user(function(list(messages_in)), name, messages_in)
    after: Entries = []
    for message, tokens in tail:
        message_back = returned.get(message.id)
        number = message.number
        if message_back is None:
            cuts.append(Omission(number, name))
        elif message_back == message:
            after.append((message, tokens))
        else:
            size = tokens_of(message_back, count)
            cuts.append(Omission(number, name, "content", tokens - size, message_back))
            after.append((message_back, size))
    return after


def _kept_by_user(returned: Any, name: str, messages_in: Sequence[Message]) -> dict[str, Message]:
    """Return a user filter's messages by id; raise FunctionFailed if the result is not valid."""
    messages_back = list(returned) if isinstance(returned, Iterable) else [returned]
    ids = {message.id for message in messages_in}
    for item in messages_back:
        if not isinstance(item, Message) or item.id not in ids:
            item_text = f"message {item.id!r}" if isinstance(item, Message) else type(item).__name__
            raise FunctionFailed(
                f"`{name}` is a history filter, so it must return some of the messages that it "
                f"is given, as they are or edited; it returned {item_text}"
            )
    return {message.id: message for message in messages_back}
