"""Normalization: the request without the parts that differ each time.

One function serves recording, lookup and differences. If the recorder's function differed from the
matcher's, recordings would not be found again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

_OPENAI: Final = ("metadata", "prompt_cache_key", "prompt_cache_retention", "safety_identifier",
                  "service_tier", "store", "stream_options", "user")  # fmt: skip
DROPPED: Final[Mapping[str, tuple[str, ...]]] = {
    "openai": _OPENAI,
    "anthropic": ("cache_control", "metadata", "service_tier"),
    "gemini": ("labels",),
}
"""Body fields that are no part of the question, by prefix of the protocol's name: users,
storage, metadata. Model, tools and parameters are part of it."""

_ENCODE: Final = msgspec.json.Encoder(order="sorted").encode

Slot: TypeAlias = tuple[dict[str, Any], str]
"""A mapping, and its key that holds an id."""


def address(url: str) -> str:
    """Return the path and the sorted parameters of a URL.

    The host is not part of it, so that a recording from one host is found for another; nor is the
    project in a cloud's paths.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    steps = parts.path.split("/")
    for number, step in enumerate(steps[:-1]):
        if step in ("projects", "locations"):
            steps[number + 1] = "*"
    pairs = sorted(
        pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != "key"
    )
    return "/".join(steps) + (f"?{urlencode(pairs)}" if pairs else "")


def json_of(body: bytes) -> Any:
    """Return the JSON value of a body; raise ValueError for invalid JSON.

    Whole numbers are equal however they are written: ``0`` and ``0.0`` ask the same.
    """
    try:
        return _DECODE(body)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return json.loads(body, parse_float=_number)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def canonical(value: Any) -> bytes:
    """Return the bytes of a JSON value; they ignore the order of keys."""
    try:
        return _ENCODE(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return json.dumps(value, sort_keys=True).encode()


def without_circumstance(body: Any, protocol: str) -> Any:
    """Return the question in a body; ids of tool calls become numbers in order of appearance.

    ``body`` belongs to the caller, and is changed.
    """
    if not isinstance(body, dict):
        return body
    for family, names in DROPPED.items():
        if protocol.startswith(family):
            for name in names:
                body.pop(name, None)
            _ordinals(_SLOTS[family](body))
            if family == "anthropic":
                _uncached(body)
    return body


def _ordinals(slots: Iterable[Slot]) -> None:
    numbers: dict[str, str] = {}
    for holder, key in slots:
        name = holder.get(key)
        if isinstance(name, str):
            holder[key] = numbers.setdefault(name, f"#{len(numbers) + 1}")


def _openai_slots(body: dict[str, Any]) -> Iterator[Slot]:
    """Yield the id fields of chat's messages and of Responses' items.

    An item's own id is not the call's.
    """
    for message in _mappings(body.get("messages")):
        yield message, "tool_call_id"
        for call in _mappings(message.get("tool_calls")):
            yield call, "id"
    for item in _mappings(body.get("input")):
        # A reference consists of its id: another id is another question.
        if item.get("type") != "item_reference":
            yield item, "id"
            yield item, "call_id"


def _anthropic_slots(body: dict[str, Any]) -> Iterator[Slot]:
    for message in _mappings(body.get("messages")):
        for block in _mappings(message.get("content")):
            yield block, "id"
            yield block, "tool_use_id"


def _gemini_slots(body: dict[str, Any]) -> Iterator[Slot]:
    for content in _mappings(body.get("contents")):
        for part in _mappings(content.get("parts")):
            for word in ("functionCall", "functionResponse", "function_call", "function_response"):
                if isinstance(part.get(word), dict):
                    yield part[word], "id"


_SLOTS: Final[Mapping[str, Callable[[dict[str, Any]], Iterator[Slot]]]] = {
    "openai": _openai_slots,
    "anthropic": _anthropic_slots,
    "gemini": _gemini_slots,
}


def _uncached(body: dict[str, Any]) -> None:
    """Remove the marks of blocks that the provider should cache."""
    blocks = [*_mappings(body.get("system")), *_mappings(body.get("tools"))]
    for message in _mappings(body.get("messages")):
        blocks += _mappings(message.get("content"))
    for block in blocks:
        block.pop("cache_control", None)


def _mappings(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


_DECODE: Final = msgspec.json.Decoder(float_hook=_number).decode
