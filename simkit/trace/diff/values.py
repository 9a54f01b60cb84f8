"""Diffs of two values: the paths at which they differ.

Lists are aligned, messages compared by content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from simkit.core.messages import ABSENT, Message
from simkit.trace.diff.aligning import aligned

_SERVED_ID: Final = re.compile(r"\b[a-z]+_(?=\d{24}\b)0*(\d+)")
"""A call id as a provider writes it in a text; the id in the trace is only the number."""
_ENCODE: Final = msgspec.json.Encoder(order="deterministic").encode


class Edit(msgspec.Struct, frozen=True, gc=False):
    """A path at which two values differ; a missing side is ABSENT."""

    at: str
    """``payload.km``, ``messages[2]``; for a removed item, its index in the first list."""
    left: Any
    right: Any


class ItemEdit(msgspec.Struct, frozen=True, gc=False):
    """A list item that was added (``left`` is None), removed (``right`` is None) or changed."""

    left: Mapping[str, Any] | None
    right: Mapping[str, Any] | None
    edits: tuple[Edit, ...] = ()


def in_own_ids(text: str) -> str:
    """Return a text in which the ids of calls are the trace's, not as a provider writes them."""
    return _SERVED_ID.sub(r"call\1", text)


def message_fields(message: Message) -> dict[str, Any]:
    """Return the content of a message, without its ids, its turn and its section."""
    fields: dict[str, Any] = {"role": message.role, "content": in_own_ids(message.content)}
    if message.agent and message.role != "system":  # Instructions have no speaker.
        fields["agent"] = message.agent
    if message.tool:
        fields["tool"] = message.tool
    if message.calls:
        fields["calls"] = [{call.name: plain(call.args)} for call in message.calls]
    return fields


def plain(value: Any) -> Any:
    """Return a value as JSON; messages become their content."""
    if isinstance(value, Message):
        return message_fields(value)
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [plain(inner) for inner in value]
    return value


def key_of(value: Any) -> bytes:
    """Return bytes that are equal for equal plain values, whatever the order of their keys."""
    return _ENCODE(value)


def edits(left: Any, right: Any, at: str = "") -> Iterator[Edit]:
    """Yield the paths at which two plain values differ."""
    if left is ABSENT or right is ABSENT:
        if left is not right:
            yield Edit(at, left, right)
    elif isinstance(left, dict) and isinstance(right, dict) and (left or right):
        for key in dict.fromkeys([*left, *right]):
            below = f"{at}.{key}" if at else str(key)
            yield from edits(left.get(key, ABSENT), right.get(key, ABSENT), below)
    elif isinstance(left, list) and isinstance(right, list):
        yield from _list_edits(left, right, at)
    elif key_of(left) != key_of(right):
        yield Edit(at, left, right)


def _list_edits(left: list[Any], right: list[Any], at: str) -> Iterator[Edit]:
    for span in aligned([key_of(item) for item in left], [key_of(item) for item in right]):
        if span.is_equal:
            continue
        pairs = min(span.hi - span.lo, span.other_hi - span.other_lo)
        for step in range(pairs):
            place = span.other_lo + step
            yield from edits(left[span.lo + step], right[place], f"{at}[{place}]")
        for place in range(span.lo + pairs, span.hi):
            yield Edit(f"{at}[{place}]", left[place], ABSENT)
        for place in range(span.other_lo + pairs, span.other_hi):
            yield Edit(f"{at}[{place}]", ABSENT, right[place])


def item_edits(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], same_by: Sequence[str]
) -> Iterator[ItemEdit]:
    """Yield the items of two lists that were added, removed or changed.

    Two items at the same place with equal values under the keys ``same_by`` are one changed item.
    """
    for span in aligned([key_of(item) for item in before], [key_of(item) for item in after]):
        if span.is_equal:
            continue
        mine, its = before[span.lo : span.hi], after[span.other_lo : span.other_hi]
        kind, its_kind = (
            [key_of([item.get(key) for key in same_by]) for item in row] for row in (mine, its)
        )
        for part in aligned(kind, its_kind):
            left, right = mine[part.lo : part.hi], its[part.other_lo : part.other_hi]
            if part.is_equal:
                for old, new in zip(left, right, strict=True):
                    yield ItemEdit(old, new, tuple(edits(dict(old), dict(new))))
            else:
                yield from (ItemEdit(old, None) for old in left)
                yield from (ItemEdit(None, new) for new in right)
