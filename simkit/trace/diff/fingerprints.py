"""Fingerprints of contexts: two that share a long history are compared in logarithmic time.

A context consists of ranges over streams that only grow. Each stream is hashed once, message by
message, as a polynomial, from which the hash of any range follows (Karp and Rabin, 1987). Texts and
calls count; ids, turns and sections do not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Final

from simkit.core.messages import Message
from simkit.trace.diff.values import key_of, message_fields
from simkit.trace.views import ContextView, MadePart, StreamView

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

    __slots__ = ("_sums", "prints")

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

    __slots__ = ("_pieces", "size", "whole")

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
            if isinstance(part, MadePart):
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
    head = _largest(most, lambda size: left.head(size) == right.head(size))
    return head, _largest(most - head, lambda size: left.tail(size) == right.tail(size))


def _largest(most: int, holds: Callable[[int], bool]) -> int:
    """Return the largest size for which a test holds; it holds for 0, and for all smaller sizes."""
    lo, hi = 0, most
    while lo < hi:
        middle = (lo + hi + 1) // 2
        lo, hi = (middle, hi) if holds(middle) else (lo, middle - 1)
    return lo
