"""The key of a request: equal for requests that ask the same, without what differs each time."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from simkit.capture.cassettes.redacting import WIRE, redacted_body
from simkit.core.errors import ReferenceInvalid
from simkit.core.redact import Redactor
from simkit.language import paths
from simkit.language.expressions import Expression
from simkit.providers import a2a
from simkit.providers.http import HttpRequest
from simkit.providers.protocols import protocol_of

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
    if "jsonrpc" in body:
        a2a.drop_ids(body)
    for family, names in WIRE.dropped.items():
        if protocol.startswith(family):
            for name in names:
                body.pop(name, None)
            _ordinals(_SLOTS[family](body))
            if family in ("anthropic", "bedrock"):
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


def _bedrock_slots(body: dict[str, Any]) -> Iterator[Slot]:
    for message in _mappings(body.get("messages")):
        for block in _mappings(message.get("content")):
            for word in ("toolUse", "toolResult"):
                if isinstance(block.get(word), dict):
                    yield block[word], "toolUseId"


_SLOTS: Final[Mapping[str, Callable[[dict[str, Any]], Iterator[Slot]]]] = {
    "openai": _openai_slots,
    "anthropic": _anthropic_slots,
    "bedrock": _bedrock_slots,
    "cohere": _openai_slots,
    "gemini": _gemini_slots,
    "ollama": _openai_slots,
}


def _uncached(body: dict[str, Any]) -> None:
    """Remove the marks of blocks that the provider should cache."""
    config = body.get("toolConfig")
    lists = [body.get("system"), body.get("tools")]
    lists += [config.get("tools")] if isinstance(config, dict) else []
    lists += [message.get("content") for message in _mappings(body.get("messages"))]
    for blocks in lists:
        for block in _mappings(blocks):
            block.pop("cache_control", None)
        if isinstance(blocks, list):  # Bedrock's marks are blocks of their own.
            blocks[:] = [b for b in blocks if not (isinstance(b, dict) and "cachePoint" in b)]


def _mappings(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


_DECODE: Final = msgspec.json.Decoder(float_hook=_number).decode


# Keys: equal for requests that ask the same


BLANK: Final = "…"
"""The replacement for a volatile part."""
EVERY: Final = "*"
"""In a volatile path: every key, or every index of a list."""


class Question(msgspec.Struct, frozen=True, gc=False):
    """One request in canonical form, and its captured values."""

    method: str
    address: str
    body: bytes
    """Canonical JSON, or the body as it is if it is no JSON."""
    captured: Mapping[str, tuple[str, ...]] = {}
    """The values that each rule found, in order, each once."""

    def key(self, agent: str) -> str:
        """Return the key of this request from an agent."""
        head = canonical([agent, self.method, self.address])
        return hashlib.blake2b(head + b"\n" + self.body, digest_size=16).hexdigest()

    def is_like(self, other: Question) -> bool:
        """Return whether both ask the same, whatever their agents and captured values."""
        return (self.method, self.address, self.body) == (other.method, other.address, other.body)


class Keying:
    """The function from requests to keys, shared by recording and replay."""

    def __init__(
        self,
        redactor: Redactor,
        volatile: Iterable[str] = (),
        capture: Mapping[str, str] | None = None,
    ) -> None:
        """``volatile`` are paths into the body (``messages.*.name``) or ``/patterns/`` of text.

        ``capture`` are patterns, by name, of values that differ each time but mean the same; the
        value is a pattern's first group, or its whole match. Raise ReferenceInvalid for an invalid
        path or pattern.
        """
        self.redactor = redactor
        # A run sends many requests to few addresses.
        self._address = lru_cache(maxsize=256)(lambda url: address(redactor.url(url)))
        words = tuple(volatile)
        self._paths = [paths.parse(word) for word in words if not _is_pattern(word)]
        self._volatile = [_compiled(word[1:-1]) for word in words if _is_pattern(word)]
        self._capture = {name: _compiled(word) for name, word in (capture or {}).items()}

    def question(self, request: HttpRequest) -> Question:
        """Return a request in canonical form."""
        captured: dict[str, dict[str, str]] = {name: {} for name in self._capture}
        normalized = partial(self._normalized, captured=captured)
        url = self._address(request.url)
        body = redacted_body(request, self.redactor)
        if self._capture or self._volatile:
            url = normalized(url)
        return Question(
            request.method,
            url,
            self._body(body, request, normalized),
            {name: tuple(values) for name, values in captured.items() if values},
        )

    def _body(self, body: bytes, request: HttpRequest, normalized: Callable[[str], str]) -> bytes:
        """Return the canonical form of a body without secrets."""
        try:
            value = json_of(body)
        except ValueError:
            return body
        try:
            protocol = protocol_of(request)
            value = without_circumstance(value, protocol.name if protocol else "")
            for path in self._paths:
                _blank(value, path)
            if self._capture or self._volatile:
                value = paths.with_inner_texts(value, normalized)
            return canonical(value)
        except RecursionError:
            return body

    def _normalized(self, text: str, captured: dict[str, dict[str, str]]) -> str:
        for name, pattern in self._capture.items():
            text = pattern.sub(partial(_token, name=name, known=captured[name]), text)
        for pattern in self._volatile:
            text = pattern.sub(BLANK, text)
        return text


def _token(match: re.Match[str], name: str, known: dict[str, str]) -> str:
    """Return the match with the value replaced by its number."""
    group = 1 if match.re.groups else 0
    value = match[group]
    if not value:
        return match[0]
    token = known.setdefault(value, f"<{name}:{len(known) + 1}>")
    start, end = (position - match.start() for position in match.span(group))
    return match[0][:start] + token + match[0][end:]


def _blank(value: Any, path: Sequence[str | int]) -> None:
    """Replace the value at a path, if there is one."""
    step, *rest = path
    steps: Iterable[Any] = (step,)
    if step == EVERY:
        steps = list(value) if isinstance(value, dict) else range(_length(value))
    for key in steps:
        known = value if isinstance(value, dict) else range(_length(value))
        if key not in known:
            continue
        if rest:
            _blank(value[key], rest)
        else:
            value[key] = BLANK


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0


def _is_pattern(word: str) -> bool:
    return len(word) > 2 and word.startswith("/") and word.endswith("/")


def _compiled(word: str) -> Expression:
    try:
        return Expression(word)
    except re.error as error:
        raise ReferenceInvalid(f"the pattern `{word}` cannot be read: {error}") from None
