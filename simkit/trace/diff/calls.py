"""Diffs of two model calls: their contexts, message by message, and their replies. Fingerprints."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from simkit.core.messages import ABSENT, Message
from simkit.language.matching.values import ToolName
from simkit.trace.diff.values import Edit, aligned, edits, key_of, message_fields, plain
from simkit.trace.views import CallView, ContextView, InlinePart, StreamView, TurnView

# Fingerprints of contexts: two that share a long history are compared in logarithmic time
#
# A context consists of ranges over streams that only grow. Each stream is hashed once, message by
# message, as a polynomial, from which the hash of any range follows (Karp and Rabin, 1987). Texts
# and calls count; ids, turns and sections do not.


_PRIME: Final = (1 << 127) - 1
_BASE: Final = 0x5DEECE66D_2545F4914F6CDD1D
_POWERS: Final = [1]


def fingerprint(message: Message) -> int:
    """Return a number that is equal for messages with equal content."""
    return int.from_bytes(hashlib.blake2b(key_of(message_fields(message)), digest_size=15).digest())


def _power(number: int) -> int:
    """Return a power of the base; each is computed once."""
    while len(_POWERS) <= number:
        _POWERS.append(_POWERS[-1] * _BASE % _PRIME)
    return _POWERS[number]


class Chain:
    """The hashes of a list of messages and of all its ranges."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.prints = [fingerprint(message) for message in messages]
        self._sums = [0]
        for number in self.prints:
            self._sums.append((self._sums[-1] * _BASE + number) % _PRIME)

    def range(self, lo: int, hi: int) -> int:
        """Return the hash of the messages from ``lo`` up to ``hi``."""
        return (self._sums[hi] - self._sums[lo] * _power(hi - lo)) % _PRIME


class ContextPrint:
    """The hashes of the prefixes and suffixes of one context."""

    def __init__(self, pieces: Iterable[tuple[Chain, int, int]]) -> None:
        """``pieces`` are consecutive ranges."""
        self._pieces = [piece for piece in pieces if piece[1] < piece[2]]
        self.size = sum(hi - lo for _, lo, hi in self._pieces)
        self.whole = self.head(self.size)

    def head(self, size: int) -> int:
        """Return the hash of the first messages."""
        total = 0
        for chain, lo, hi in self._pieces:
            length = min(hi - lo, size)
            total = (total * _power(length) + chain.range(lo, lo + length)) % _PRIME
            size -= length
            if not size:
                break
        return total

    def tail(self, size: int) -> int:
        """Return the hash of the last messages."""
        before = self.head(self.size - size)
        return (self.whole - before * _power(size)) % _PRIME

    def prints(self, lo: int, hi: int) -> list[int]:
        """Return the fingerprints of the messages from ``lo`` up to ``hi``."""
        prints: list[int] = []
        for chain, first, end in self._pieces:
            size = end - first
            prints += chain.prints[first + max(lo, 0) : first + max(min(hi, size), 0)]
            lo, hi = lo - size, hi - size
        return prints


class Fingerprints:
    """The fingerprints of one run's contexts; each stream is hashed once."""

    def __init__(self) -> None:
        self._streams: dict[int, tuple[StreamView, Chain]] = {}

    def of(self, context: ContextView) -> ContextPrint:
        """Return the fingerprint of a context of a finished run."""
        pieces: list[tuple[Chain, int, int]] = []
        for part in context.parts:
            if isinstance(part, InlinePart):
                pieces.append(_whole(part.message))
            elif part.rendered is not None:
                pieces.append(_whole(part.rendered))
            else:
                if part.summary is not None:
                    pieces.append(_whole(part.summary))
                pieces.append((self._chain(part.stream), part.lo, part.hi))
                lo = max(part.lo - part.hi, 0)
                pieces.append((Chain(part.tail), lo, len(part.tail)))
        pieces.append((Chain(context.own_messages), 0, len(context.own_messages)))
        return ContextPrint(pieces)

    def _chain(self, stream: StreamView) -> Chain:
        if id(stream) not in self._streams:
            # The stream is kept with its chain, so that no other object gets its id.
            self._streams[id(stream)] = stream, Chain(stream.entries)
        return self._streams[id(stream)][1]


def _whole(message: Message) -> tuple[Chain, int, int]:
    return Chain((message,)), 0, 1


def common_ends(left: ContextPrint, right: ContextPrint) -> tuple[int, int]:
    """Return the number of equal messages at the beginning and at the end of two contexts."""
    most = min(left.size, right.size)
    head = largest(most, lambda size: left.head(size) == right.head(size))
    return head, largest(most - head, lambda size: left.tail(size) == right.tail(size))


def largest(most: int, holds: Callable[[int], bool]) -> int:
    """Return the largest size for which a test holds; it holds for 0, and for all smaller sizes."""
    lo, hi = 0, most
    while lo < hi:
        middle = (lo + hi + 1) // 2
        lo, hi = (middle, hi) if holds(middle) else (lo, middle - 1)
    return lo


# Calls


_Printed: TypeAlias = tuple[bytes, CallView, ContextPrint]
"""A call under a key that is equal for equal calls, and its context's fingerprint."""

EXPLAINED_MAX: Final = 100
"""The number of calls for which the diff finds out what dropped a message of only one context."""
_DEFINITIONS: Final = "definitions"
"""The key of what a call's model is sent of tools beside their names."""
COMPARED_MAX: Final = 300_000
"""The number of messages that are compared one by one; calls beyond it only count as different."""


class Same(msgspec.Struct, frozen=True, gc=False, tag="same", tag_field="what"):
    """Consecutive messages that both contexts contain."""

    count: int


class Added(msgspec.Struct, frozen=True, gc=False, tag="came", tag_field="what"):
    """A message that only the second context contains."""

    at: int
    """Its index in the context."""
    message: Message
    dropped_by: str = ""
    """The filter, or ``window``, that dropped it from the other context; empty if none did."""


class Removed(msgspec.Struct, frozen=True, gc=False, tag="went", tag_field="what"):
    """A message that only the first context contains."""

    at: int
    message: Message
    dropped_by: str = ""


class Changed(msgspec.Struct, frozen=True, gc=False, tag="changed", tag_field="what"):
    """A message with other content at the same place; ``at`` is its index in the second context."""

    at: int
    left: Message
    right: Message


MessageEdit: TypeAlias = Same | Added | Removed | Changed


class CallDiff(msgspec.Struct, frozen=True, gc=False):
    """The diff of one model call, its context and reply; or a call of one run only."""

    agent: str
    turn: int
    """The turn's number, in the second run if the call is in both."""
    call: int
    """The index of the call among the agent's calls in the turn, in the second run if the call
    is in both."""
    sizes: tuple[int | None, int | None]
    """The number of messages in each context; None if the run has no such call."""
    tokens: tuple[int | None, int | None]
    messages: tuple[MessageEdit, ...] = ()
    edits: tuple[Edit, ...] = ()
    """Differences in offered tools, settings, the reply or its error."""
    again: tuple[tuple[int, int], ...] = ()
    """Later calls of the agent with the same changes: turn and call."""

    @property
    def changes(self) -> Iterator[Added | Removed | Changed]:
        """Yield the messages that were added, removed or changed."""
        return (edit for edit in self.messages if not isinstance(edit, Same))


class Calls:
    """The comparison of two runs' model calls, turn by turn; it reports a change only once."""

    def __init__(self, has_handoff_tools: bool, are_alike: bool) -> None:
        """``has_handoff_tools``: in both pipelines, models are offered tools that pass control.

        Otherwise only the possible target agents are compared. ``are_alike``: both are declared,
        or both are code. Otherwise tools are compared by name: a design says less of them.
        """
        self._has_handoff_tools, self._are_alike = has_handoff_tools, are_alike
        self._left_prints, self._right_prints = Fingerprints(), Fingerprints()
        self._diff_places: dict[bytes, int] = {}
        """A change, and the index of the call that reported it."""
        self._again: dict[int, list[tuple[int, int]]] = {}
        self._diffs: list[CallDiff] = []
        self._left = COMPARED_MAX
        self.more = 0
        """The number of different calls that were not compared message by message."""

    def call_diffs(self) -> tuple[CallDiff, ...]:
        """Return the calls that differ, by agent, in the order of their first difference."""
        calls = [
            msgspec.structs.replace(call, again=tuple(self._again.get(index, ())))
            for index, call in enumerate(self._diffs)
        ]
        order = {agent: index for index, agent in enumerate(dict.fromkeys(c.agent for c in calls))}
        return tuple(sorted(calls, key=lambda call: order[call.agent]))

    def compare(self, left: TurnView, right: TurnView) -> None:
        """Add a turn of each run."""
        for agent in dict.fromkeys([*left.calls_by_agent, *right.calls_by_agent]):
            mine = [self._printed(c, self._left_prints) for c in left.calls_by_agent.get(agent, ())]
            its = [
                self._printed(c, self._right_prints) for c in right.calls_by_agent.get(agent, ())
            ]
            for span in aligned([key for key, _, _ in mine], [key for key, _, _ in its]):
                if not span.is_equal:
                    self._span(mine[span.lo : span.hi], its[span.other_lo : span.other_hi])

    def _span(self, mine: Sequence[_Printed], its: Sequence[_Printed]) -> None:
        for (_, old, old_print), (_, new, new_print) in zip(mine, its, strict=False):
            messages = self._messages(old, old_print, new, new_print)
            if messages is None:
                self.more += 1
                continue
            call = CallDiff(
                new.agent,
                new.turn,
                new.index,
                (old_print.size, new_print.size),
                (old.context.tokens, new.context.tokens),
                messages,
                self._edits(old, new),
            )
            key = key_of([call.agent, _changed(call)])
            index = self._diff_places.setdefault(key, len(self._diffs))
            if index < len(self._diffs):
                self._again.setdefault(index, []).append((call.turn, call.call))
                continue
            if index < EXPLAINED_MAX:
                explained = _explained(messages, old.context, new.context)
                call = msgspec.structs.replace(call, messages=tuple(explained))
            self._diffs.append(call)
        for _, old, old_print in mine[len(its) :]:
            sizes, tokens = (old_print.size, None), (old.context.tokens, None)
            self._diffs.append(CallDiff(old.agent, old.turn, old.index, sizes, tokens))
        for _, new, new_print in its[len(mine) :]:
            new_tokens, cost = (None, new_print.size), (None, new.context.tokens)
            self._diffs.append(CallDiff(new.agent, new.turn, new.index, new_tokens, cost))

    def _messages(
        self, old: CallView, old_print: ContextPrint, new: CallView, new_print: ContextPrint
    ) -> tuple[MessageEdit, ...] | None:
        """Return the changes between two contexts; None if too much was compared already."""
        head, tail = common_ends(old_print, new_print)
        hi, end = old_print.size - tail, new_print.size - tail
        self._left -= hi + end - 2 * head
        if self._left < 0:
            return None
        middle = _edited(
            _Stretch(old.context.messages, old_print.prints(head, hi), head),
            _Stretch(new.context.messages, new_print.prints(head, end), head),
        )
        return tuple(_folded([Same(head), *middle, Same(tail)]))

    def _printed(self, call: CallView, prints: Fingerprints) -> _Printed:
        context_print = prints.of(call.context)
        return (
            key_of([str(context_print.whole), context_print.size, self._around(call)]),
            call,
            context_print,
        )

    def _edits(self, old: CallView, new: CallView) -> tuple[Edit, ...]:
        """Return the differences beside messages; of a tool of one context alone its name."""
        left, right = self._around(old), self._around(new)
        mine, its = left.pop(_DEFINITIONS, {}), right.pop(_DEFINITIONS, {})
        if common := [tool for tool in mine if tool in its]:
            left[_DEFINITIONS] = {tool: mine[tool] for tool in common}
            right[_DEFINITIONS] = {tool: its[tool] for tool in common}
        return tuple(edits(left, right))

    def _around(self, call: CallView) -> dict[str, Any]:
        """Return the fields of a call beside its messages; missing ones have no key."""
        context = call.context
        handoff_tools = {} if self._has_handoff_tools else context.handoff_tools
        fields: dict[str, Any] = {
            "tools": [tool for tool in context.tools if tool not in handoff_tools]
        }
        definitions = {
            str(tool): tool.definition
            for tool in context.offers
            if isinstance(tool, ToolName) and tool not in handoff_tools
        }
        if definitions and self._are_alike:
            fields[_DEFINITIONS] = definitions
        if context.handoffs != ():
            fields["handoffs"] = None if context.handoffs is None else list(context.handoffs)
        if context.settings:
            fields["settings"] = plain(context.settings)
        if call.reply is not None:
            answer = plain(call.reply)
            fields["answer"] = answer if "calls" in answer else answer["content"]
        if call.error is not None:
            fields["failed with"] = {"error": call.error.error, "message": call.error.message}
        return fields


class _Stretch(msgspec.Struct, frozen=True, gc=False):
    """A range of a context."""

    context: Sequence[Message]
    prints: list[int]
    start: int

    def cut(self, lo: int, hi: int) -> list[Message]:
        """Return the messages from one index up to another."""
        return list(self.context[self.start + lo : self.start + hi])


def _edited(left: _Stretch, right: _Stretch) -> Iterator[MessageEdit]:
    """Yield the edits from one range of messages to the other."""
    for span in aligned(left.prints, right.prints):
        if span.is_equal:
            yield Same(span.hi - span.lo)
            continue
        mine, its = left.cut(span.lo, span.hi), right.cut(span.other_lo, span.other_hi)
        at, other_at = left.start + span.lo, right.start + span.other_lo
        # Messages are paired with messages of the same kind: same speaker, same section.
        for part in aligned([_kind(message) for message in mine], [_kind(m) for m in its]):
            places = range(part.other_lo, part.other_hi)
            if part.is_equal:
                for index, old in zip(places, mine[part.lo : part.hi], strict=True):
                    yield Changed(other_at + index, old, its[index])
                continue
            yield from (Removed(at + index, mine[index]) for index in range(part.lo, part.hi))
            yield from (Added(other_at + index, its[index]) for index in places)


def _explained(
    edits: Sequence[MessageEdit], left: ContextView, right: ContextView
) -> Iterator[MessageEdit]:
    """Yield the same changes, with the reason why one context lacks a message."""
    has_cause = any(isinstance(edit, Added | Removed) for edit in edits)
    by_print, by_other_print = (_dropped(view) if has_cause else {} for view in (left, right))
    for edit in edits:
        if isinstance(edit, Added | Removed):
            lacking = by_print if isinstance(edit, Added) else by_other_print
            yield msgspec.structs.replace(
                edit, dropped_by=lacking.get(fingerprint(edit.message), "")
            )
        else:
            yield edit


def _dropped(context: ContextView) -> dict[int, str]:
    drops = context.dropped()
    return {fingerprint(drop.message): drop.by for drop in drops if drop.what == "message"}


def _kind(message: Message) -> tuple[str, str, str]:
    speaker = message.agent if message.role != "system" else None
    return message.role, speaker or "", message.section


def _folded(edits: Sequence[MessageEdit]) -> Iterator[MessageEdit]:
    """Yield the same changes with equal messages counted together."""
    same = 0
    for edit in edits:
        if isinstance(edit, Same):
            same += edit.count
            continue
        if same:
            yield Same(same)
            same = 0
        yield edit
    if same:
        yield Same(same)


def _changed(call: CallDiff) -> list[Any]:
    """Return the changes without places: equal for calls that are reported once."""
    changes: list[Any] = []
    for edit in call.changes:
        if isinstance(edit, Changed):
            changes.append([str(fingerprint(edit.left)), str(fingerprint(edit.right))])
        else:
            changes.append([edit.__struct_config__.tag, str(fingerprint(edit.message))])
    around = [
        [edit.at, _reported_value(edit.left), _reported_value(edit.right)] for edit in call.edits
    ]
    return [changes, around]


def _reported_value(value: Any) -> Any:
    return None if value is ABSENT else [value]
