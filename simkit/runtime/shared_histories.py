"""Shared histories: what straight runs show of one source, read once for all agents.

Most agents of a pipeline read the same messages: those of the turns since their last run, and those
of the turn so far. Which these are, and their tokens, depends on the source and the filters alone.
A history that shows a part only, or has filters of its own, is read for each agent; so is a channel
that does more than append, and filtered messages once one of them has calls, or comes into the
conversation later than in its turn.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final, TypeAlias

from simkit.core.messages import Message
from simkit.runtime.context.history import HistoryReader, Sizes
from simkit.runtime.conversation import Conversation
from simkit.runtime.state import State
from simkit.runtime.turn import Turn
from simkit.trace.events import Cut, Shown
from simkit.trace.reducers import Appended

Kind: TypeAlias = tuple[str, tuple[str, ...], bool]
"""The source, the filters, and whether the user's message is left out."""
Show: TypeAlias = Callable[[Turn], tuple[Shown, int]]
"""Returns what a history shows, and its tokens."""

_id_of: Final = attrgetter("id")
_calls_of: Final = attrgetter("calls")
_role_of: Final = attrgetter("role")
_number_of: Final = itemgetter(0)
_tokens_of: Final = itemgetter(1)
_CUT: Final = (0, 0)
"""The number and the tokens of a message that filters cut."""


def history_of(reader: HistoryReader, agent: str, omits: bool) -> Show:
    """Return the function that shows an agent's history.

    ``omits``: its contexts show the user's message elsewhere.
    """
    stream, alone = (agent, reader.section), _alone(reader, agent, omits)
    if reader.filters is None:
        return alone
    kind: Kind = reader.channel, reader.filters, omits

    def show(turn: Turn) -> tuple[Shown, int]:
        shared = turn.conversation.shared
        if kind not in shared:
            shared[kind] = SharedHistory(*kind)
        return shared[kind].show(turn, stream) or alone(turn)

    return show


def _alone(reader: HistoryReader, agent: str, omits: bool) -> Show:
    """Return the function that reads a history for one agent."""
    channel = reader.channel

    def show(turn: Turn) -> tuple[Shown, int]:
        conversation = turn.conversation
        source: Any = conversation.log if channel == "log" else conversation.values[channel]
        source = () if source is None else source
        stream = conversation.stream(agent, reader.section, source)
        history = reader.read(
            stream,
            source,
            conversation.starts[channel],
            turn.user[0].id if omits else "",
            turn.state.committed,
            conversation.sizes,
            conversation.first_turn,
        )
        stream.numbers_kept, stream.cuts, stream.restarts = [], [], False
        return history.shown_part, history.tokens

    return show


class SharedHistory:
    """One source with its filters, as the contexts of a conversation show it."""

    __slots__ = ("_channel", "_cut_at", "_cuts", "_doubtful", "_drops", "_is_filtered", "_is_log",
                 "_omits", "_rows", "_settled_tokens", "_source", "_start", "_tail", "_tail_cuts",
                 "_tokens", "_turn")  # fmt: skip

    def __init__(self, channel: str, filters: tuple[str, ...], omits: bool) -> None:
        """``channel`` is the source, or ``log``; ``filters`` are named ones."""
        self._channel, self._is_log, self._omits = channel, channel == "log", omits
        self._is_filtered, self._drops = bool(filters), "intermediate_ai" in filters
        self._source: Any = None
        """The source, as it was when it began."""
        self._rows: list[tuple[int, int]] = []
        """The number and the tokens of each of its messages; zeros for one that was cut."""
        self._cuts: list[Cut] = []
        self._cut_at: list[int] = []
        """The indices of the messages that were cut."""
        self._doubtful: list[str] = []
        """The ids of messages that were cut, and may become part of the conversation yet."""
        self._turn = self._start = 0
        """The current turn, and the index at which its messages begin."""
        self._settled_tokens = self._tokens = 0
        """Those of the messages before it, and of all that a context shows."""
        self._tail: tuple[int, ...] = ()
        self._tail_cuts: tuple[Cut, ...] = ()

    def show(self, turn: Turn, name: tuple[str, str]) -> tuple[Shown, int] | None:
        """Return what an agent's section shows, and its tokens; None if it must be read alone.

        ``name`` is that of its stream: agent and section.
        """
        if self._drops and turn.state.commits_late:
            return None
        conversation, rows = turn.conversation, self._rows
        source: Any
        fresh: Sequence[Message] | None
        if self._is_log:
            source = conversation.log
            fresh = source[len(rows) :]
        else:
            source = conversation.values[self._channel]
            fresh = source.since(self._source, len(rows)) if type(source) is Appended else None
        if fresh is None or fresh or self._turn != conversation.first_turn or self._doubtful:
            if not self._read(turn, source, fresh):
                return None
            rows = self._rows
        streams = conversation.streams
        stream = streams.get(name)
        if stream is None or stream.anchor is not self._source:
            stream = conversation.stream(*name, source)
            stream.anchor = self._source
        numbers: tuple[int, ...] = ()
        cuts: tuple[Cut, ...] = ()
        settled, start = stream.read_to, self._start
        if settled != start:
            numbers = tuple(filter(None, map(_number_of, rows[settled:start])))
            cuts = self._cuts_in(settled, start) if self._cuts else ()
            stream.read_to = start
            if stream.unread is None:
                stream.unread = rows, settled
        part = Shown(
            name[1], stream.id, 0, numbers, cuts, self._tail, self._tail_cuts, stream.restarts
        )
        stream.restarts = False
        return part, self._tokens

    def _read(self, turn: Turn, source: Any, fresh: Sequence[Message] | None) -> bool:
        """Read new messages; return whether the history can be shared."""
        conversation, state = turn.conversation, turn.state
        if self._source is None or fresh is None:
            if not self._begin(conversation, source):
                return False
            fresh = source[:]
        if self._doubtful and not state.committed.isdisjoint(self._doubtful):
            fresh = self._turn_again(source)
        is_new = self._turn != conversation.first_turn
        if is_new:
            self._doubtful = []
        rows, sizes = self._rows, conversation.sizes
        if self._is_filtered:
            if not self._cut(fresh, state, sizes):
                return False
        else:
            rows += map(sizes.__getitem__, map(_id_of, fresh))
        if is_new:
            start, self._turn = self._start, conversation.first_turn
            self._start = conversation.starts[self._channel]
            self._settled_tokens += sum(map(_tokens_of, rows[start : self._start]))
        tail = rows[self._start :]
        if self._omits:
            users = sizes[turn.user[0].id]
            if users in tail:
                # A write of a channel's own messages has them there twice.
                tail = [row for row in tail if row != users]
        self._tail = tuple(filter(None, map(_number_of, tail)))
        self._tokens = self._settled_tokens + sum(map(_tokens_of, tail))
        self._tail_cuts = self._cuts_in(self._start, len(rows)) if self._cuts else ()
        return True

    def _begin(self, conversation: Conversation, source: Any) -> bool:
        """Begin with another source; return whether it can be shared."""
        self._source = None
        if type(source) is Appended:
            start = conversation.starts[self._channel]
            # A source that the turn has replaced may have fewer messages from before it.
            if start > len(source) or (start and source[start - 1].turn >= conversation.first_turn):
                return False
        elif not self._is_log:
            return False
        self._source, self._rows, self._cuts, self._cut_at = source, [], [], []
        self._turn = self._start = self._settled_tokens = 0
        self._doubtful = []
        return True

    def _turn_again(self, source: Sequence[Message]) -> Sequence[Message]:
        """Forget the turn's messages, and return them."""
        start = self._start
        place = bisect_left(self._cut_at, start)
        del self._rows[start:], self._cut_at[place:], self._cuts[place:]
        self._doubtful = []
        return source[start:]

    def _cut(self, fresh: Sequence[Message], state: State, sizes: Sizes) -> bool:
        """Read new messages through the filters; return whether these know them by their kind."""
        if any(map(_calls_of, fresh)) or "tool" in map(_role_of, fresh):
            return False
        rows, committed = self._rows, state.committed
        first = len(rows)
        identities = [*map(_id_of, fresh)]
        rows += map(sizes.__getitem__, identities)
        if self._drops and not committed.issuperset(identities):
            for place, message in enumerate(fresh):
                if message.id not in committed and message.role == "assistant":
                    self._cuts += (Cut(rows[first + place][0], "intermediate_ai"),)
                    self._cut_at += (first + place,)
                    self._doubtful += (message.id,)
                    rows[first + place] = _CUT
        return True

    def _cuts_in(self, lo: int, hi: int) -> tuple[Cut, ...]:
        """Return the cuts of messages from one index to another."""
        places = self._cut_at
        return tuple(self._cuts[bisect_left(places, lo) : bisect_left(places, hi)])
