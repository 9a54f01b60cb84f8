"""Keys: equal for requests that ask the same.

A key is the hash of the canonical JSON of agent, method, path and body, after redaction and without
the parts that the scenario declares as volatile or captured.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final

import msgspec

from simkit.capture.cassettes.normalising import address, canonical, json_of, without_circumstance
from simkit.capture.cassettes.redacting import redacted_body
from simkit.core.errors import ReferenceInvalid
from simkit.core.redact import Redactor
from simkit.language import paths
from simkit.language.expressions import Expression
from simkit.providers.http import HttpRequest
from simkit.providers.protocols import protocol_of

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
        plain = partial(self._plain, captured=captured)
        url = self._address(request.url)
        body = redacted_body(request.body, self.redactor)
        if self._capture or self._volatile:
            url = plain(url)
        return Question(
            request.method,
            url,
            self._body(body, request, plain),
            {name: tuple(values) for name, values in captured.items() if values},
        )

    def _body(self, body: bytes, request: HttpRequest, plain: Callable[[str], str]) -> bytes:
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
                value = _texts(value, plain)
            return canonical(value)
        except RecursionError:
            return body

    def _plain(self, text: str, captured: dict[str, dict[str, str]]) -> str:
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
    start, end = (place - match.start() for place in match.span(group))
    return match[0][:start] + token + match[0][end:]


def _blank(value: Any, path: Sequence[str | int]) -> None:
    """Replace the value at a path, if there is one."""
    step, *rest = path
    steps: Iterable[Any] = (step,)
    if step == EVERY:
        steps = list(value) if isinstance(value, dict) else range(_length(value))
    for place in steps:
        known = value if isinstance(value, dict) else range(_length(value))
        if place not in known:
            continue
        if rest:
            _blank(value[place], rest)
        else:
            value[place] = BLANK


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0


def _texts(value: Any, plain: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {key: _texts(below, plain) for key, below in value.items()}
    if isinstance(value, list):
        return [_texts(below, plain) for below in value]
    return value


def _is_pattern(word: str) -> bool:
    return len(word) > 2 and word.startswith("/") and word.endswith("/")


def _compiled(word: str) -> Expression:
    try:
        return Expression(word)
    except re.error as error:
        raise ReferenceInvalid(f"the pattern `{word}` cannot be read: {error}") from None
