"""Redaction: replace secrets, found by the name of their key, their value or their pattern.

A key is secret by its exact name, never by a part of it: a rule for all keys that contain ``token``
would remove ``max_tokens`` and ``usage.prompt_tokens``, and break matching and budgets. The
replacement names the rule, ``[redacted:api_key]``, and is the same on every machine. Redacting
twice changes nothing.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final
from urllib.parse import quote, quote_plus

import msgspec

from simkit.core.redact import shapes
from simkit.core.redact.prefilter import (
    DEPTH_MAX,
    Span,
    blocks,
    cut,
    cut_keys,
    cut_spans,
    may_hold_secrets,
    prefixed,
    unescaped,
)

_RULES: Final = (
    "encoded",
    "env",
    "header",
    "parameter",
    *shapes.SHAPES,
    *shapes.PERSONAL,
    *shapes.NAMES,
)
_PLACEHOLDER: Final = rf"\[redacted:(?:{'|'.join(_RULES)})(?:-[0-9]+)?\]"

_NAMED: Final = "|".join(
    name.replace("_", "[-_]?") for name in sorted(shapes.NAMES, key=len, reverse=True)
)
_PAIR: Final = (
    rf"(?P<quoted>(?P<q>\\*[\"'])(?i:{_NAMED})(?P=q)\s*:\s*)(?!\\*[\"'](?:{_PLACEHOLDER}|{shapes.DUMMY_KEY}\\*[\"']))"
    r"(?:(?P<v>\\+[\"']).+?(?<!\\)(?P=v)|\"(?:[^\"\\]|\\.)+\"|'(?:[^'\\]|\\.)+')"
)
"""``"api_key": "…"`` inside a text, at any depth of escaping."""
_ASSIGNED: Final = (
    rf"(?P<assigned>(?<![\w-])(?i:{_NAMED})=(?:\\*[\"'])?|{'|'.join(shapes.IN_TEXT)}"
    rf"|(?i:;\s*name=\"(?:{_NAMED})\")(?:\r?\n[\w-]+:[^\r\n]*)*\r?\n\r?\n)(?!{_PLACEHOLDER})"
    rf"(?!{shapes.DUMMY_KEY}\.?(?:[\s&;,\"'\\<>(){{}}]|\Z))"
    r"[^\s&;,\"'\\<>(){}]+"
)
"""``api_key=…`` as in a query, a form or a shell, the ways of ``IN_TEXT``, and parts of forms."""


_TEXT_PARTS: Final = re.compile(rb'"text"[^\n]*"text"').search
"""The start of a line with several text parts, across which a secret may continue."""


class Redactor:
    """A replacer of secrets in texts, URLs, JSON values and encoded lines."""

    def __init__(
        self,
        environ: Mapping[str, str],
        variables: Iterable[str] = (),
        personal: Iterable[str] = (),
        literals: Iterable[str] = (),
    ) -> None:
        """``environ`` supplies the values of variables with secret names.

        ``variables`` names more variables with secret values. ``personal`` names personal data to
        replace as well: ``email``, ``phone``. ``literals`` are secrets from the user's files.
        """
        named = {value for name in variables if (value := environ.get(name, ""))}
        secrets = named.union(shapes.secrets_of(environ), literals)
        forms = {form for secret in secrets for form in _forms_of(secret)}
        pattern = "|".join(re.escape(form) for form in sorted(forms, key=lambda f: (-len(f), f)))
        patterns = {kind: shapes.PERSONAL[kind] for kind in personal}
        prefixed = (f"(?P<{kind}>{shape})" for kind, (_, shape) in shapes.PREFIXED.items())
        rules = [
            f"(?P<placeholder>{_PLACEHOLDER})",
            *([f"(?P<env>{pattern})"] if pattern else []),
            _PAIR,
            _ASSIGNED,
            *(f"(?P<{kind}>{shape})" for kind, shape in shapes.FREE.items()),
            f"{shapes.EDGE}(?:{'|'.join(prefixed)})",
            *(f"(?P<{kind}>{shape})" for kind, (_, shape) in patterns.items()),
        ]
        self._pattern = "|".join(rules)
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        self._needles = [form.encode("utf-8", "surrogatepass") for form in sorted(forms)]
        self._hints = [re.compile(hint.encode()).search for hint, _ in patterns.values()]
        if not all(secret.isascii() for secret in secrets):
            self._needles.append(b"\\u")

    forms_of = staticmethod(lambda secret: _forms_of(secret))
    """Yields a secret as it appears in a text, in a URL, and in JSON inside a text."""

    def knows(self, value: str) -> bool:
        """Return whether a value is a secret of the environment or of the user's files."""
        return value in self._forms

    @cached_property
    def _rules(self) -> re.Pattern[str]:
        """Return every rule in one pattern.

        It is compiled for the first text that may contain a secret.
        """
        return re.compile(self._pattern, re.ASCII)

    def text(self, text: str) -> str:
        """Return the text with every secret replaced."""
        return self.pieces([text])[0]

    def pieces(self, pieces: Sequence[str]) -> list[str]:
        """Return texts that are read as one, such as a stream's chunks, with every secret replaced.

        The number of texts stays; a replacement is in the text in which the secret begins.
        """
        return self._without(pieces, self._spans)

    def closed_pieces(self, pieces: Sequence[str]) -> list[str]:
        """Return texts that may also be read alone, with every secret replaced.

        A secret that is open at the end of its text is replaced in that text.
        """

        return self._without(
            pieces, lambda text: [span for span in self._spans(text) if not _is_open(span, text)]
        )

    def _without(self, pieces: Sequence[str], spans_of: Callable[[str], list[Span]]) -> list[str]:
        kept_pieces, text = list(pieces), "".join(pieces)
        if not self._may_hold_secrets(_bytes_of(text)):
            return kept_pieces
        # A replacement may be the edge that makes the next secret match.
        while spans := spans_of(text):
            kept_pieces = cut(kept_pieces, spans)
            text = "".join(kept_pieces)
        return kept_pieces

    def _spans(self, text: str) -> list[Span]:
        """Return the places of secrets: plain ones, or else those that are cut or encoded."""
        spans = self._in_text(text) or [*cut_spans(text, self._forms)] or [*cut_keys(text)]
        return spans or self._in_blocks(text) or _within_words(text) or self._escaped(text)

    def _in_text(self, text: str) -> list[Span]:
        spans = filter(None, map(_span, self._rules.finditer(text)))
        return [span for span in spans if text[span.start : span.end] != span.text]

    def _in_blocks(self, text: str) -> list[Span]:
        """Return the places of texts in base64 or hexadecimal digits that hold a secret."""
        # Each character is one byte, so that the places are the text's.
        return [
            Span(start, end, "[redacted:encoded]")
            for start, end, texts in blocks(text.encode("latin-1", "replace"))
            if any(self.text(decoded) != decoded for decoded in texts)
        ]

    def _escaped(self, text: str) -> list[Span]:
        """Return the places of secrets of which characters are escaped."""
        places: list[int] | None = None
        for _ in range(DEPTH_MAX):
            decoded = unescaped(text)
            if decoded is None:
                break
            text, before = decoded
            places = before if places is None else [places[index] for index in before]
            if spans := self._in_text(text) or self._in_blocks(text) or _within_words(text):
                return [Span(places[s.start], places[s.end], s.text) for s in spans]
        return []

    def spans_in(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield the place and the rule of each secret in a text, line by line."""
        start = 0
        for line in text.splitlines(keepends=True):
            if self._may_hold_secrets(_bytes_of(line)):
                for span in self._spans(line):
                    yield start + span.start, span.text[len("[redacted:") : -1]
            start += len(line)

    def url(self, url: str) -> str:
        """Return the URL with every secret replaced, also under ``key``, ``sig``, …."""
        path, mark, query = url.partition("?")
        if not mark:
            return self.text(url)
        return self.text(f"{path}?{'&'.join(map(_parameter, query.split('&')))}")

    def value(self, json: Any) -> Any:
        """Return the JSON value with every secret in keys and texts replaced."""
        return self._item(json, "")

    def line(self, encoded_json: bytes) -> bytes:
        """Return one encoded JSON value, without its line end, with every secret replaced.

        A line without secrets is returned unchanged. A line that is not JSON is redacted as text.
        """
        if not self._may_hold_secrets(encoded_json) and _TEXT_PARTS(encoded_json) is None:
            return encoded_json
        try:
            value = msgspec.json.decode(encoded_json)
        except (ValueError, RecursionError):
            return self._foreign_line(encoded_json)
        if isinstance(value, (int, float)):  # Hexadecimal digits may be a number.
            return self._text_line(encoded_json)
        try:
            redacted = self.value(value)
        except RecursionError:  # It is nested too deeply.
            return self._text_line(encoded_json)
        return encoded_json if redacted == value else msgspec.json.encode(redacted)

    def lines(self, encoded_lines: bytes) -> bytes:
        """Return lines of encoded JSON, each as `line` returns it; without secrets, the same.

        Many are searched together, which takes a fraction of the time for short ones. A pattern
        finds in them all that it finds in each alone, since a line break is an edge.
        """
        parts = _parts_of(encoded_lines)
        without = [self._together(part) for part in parts]
        is_same = all(map(operator.is_, parts, without))
        return encoded_lines if is_same else b"".join(without)

    def _together(self, encoded_lines: bytes) -> bytes:
        if self._may_hold_secrets(encoded_lines):
            suspects = encoded_lines.splitlines()
        elif _TEXT_PARTS(encoded_lines) is None:
            return encoded_lines
        else:
            suspects = [line for line in encoded_lines.splitlines() if _TEXT_PARTS(line)]
        changed = {line: without for line in suspects if (without := self.line(line)) != line}
        if not changed:
            return encoded_lines
        return b"".join(changed.get(line, line) + b"\n" for line in encoded_lines.splitlines())

    def _may_hold_secrets(self, line: bytes) -> bool:
        return may_hold_secrets(line, self._shows_own)

    def _shows_own(self, line: bytes) -> bool:
        """Return whether a text has a secret that only this redactor knows."""
        return any(needle in line for needle in self._needles) or any(
            search(line) for search in self._hints
        )

    def _foreign_line(self, line: bytes) -> bytes:
        """Redact a line that msgspec cannot decode: half surrogates, ``NaN``, or no JSON at all."""
        try:
            value = self.value(json.loads(line))
            return json.dumps(value, separators=(",", ":")).encode()
        except (ValueError, RecursionError):
            return self._text_line(line)

    def _text_line(self, line: bytes) -> bytes:
        return self.text(line.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def texts(self, json: Any) -> Any:
        """Return the JSON value with every secret in its texts replaced; keys are ignored."""
        if isinstance(json, str):
            return self.text(json)
        if isinstance(json, Mapping):
            return {key: self.texts(below) for key, below in json.items()}
        return [self.texts(below) for below in json] if isinstance(json, (list, tuple)) else json

    def _item(self, item: Any, kind: str) -> Any:
        """Redact one item; ``kind`` is the secret's name if the item is under a secret key."""
        if isinstance(item, str):
            if not kind:
                return self.text(item)
            is_open = not item or item == shapes.DUMMY_KEY or _is_placeholder(item)
            return item if is_open else f"[redacted:{kind}]"
        if isinstance(item, Mapping):
            return {self.text(key): self._below(key, below, kind) for key, below in item.items()}
        if isinstance(item, (list, tuple)):
            return [self._item(below, kind) for below in self._parts(item)]
        if kind and isinstance(item, (int, float)) and not isinstance(item, bool):
            return f"[redacted:{kind}]"
        return item

    def _parts(self, items: Sequence[Any]) -> Sequence[Any]:
        """Replace secrets that continue across the text parts of one message."""
        indices = [
            index
            for index, item in enumerate(items)
            if isinstance(item, Mapping) and isinstance(item.get("text"), str)
        ]
        if len(indices) < 2:
            return items
        before = [items[index]["text"] for index in indices]
        after = self.closed_pieces(before)
        if after == before:
            return items
        parts = list(items)
        for index, text in zip(indices, after, strict=True):
            parts[index] = {**items[index], "text": text}
        return parts

    def _below(self, key: str, item: Any, kind: str) -> Any:
        if not kind and key == "properties" and isinstance(item, Mapping):
            # A JSON Schema describes a `password`; the description is no secret.
            return {
                self.text(name): self._item(
                    below, "" if isinstance(below, Mapping) else shapes.kind_of(name)
                )
                for name, below in item.items()
            }
        kind = kind or shapes.kind_of(key)
        if not kind and isinstance(item, str) and shapes.is_variable(key):
            kind = "" if item == shapes.NO_KEY or shapes.is_guessable(item) else "secret"
        return self._item(item, kind)


_TOGETHER: Final = 250_000
"""The number of bytes that are searched together: the processor's cache holds them, and a line that
may hold a secret has only its neighbours searched one by one."""


def _parts_of(encoded_lines: bytes) -> list[bytes]:
    """Return whole lines together, in parts."""
    parts, start = [], 0
    while len(encoded_lines) - start > _TOGETHER:
        end = encoded_lines.find(b"\n", start + _TOGETHER) + 1 or len(encoded_lines)
        parts.append(encoded_lines[start:end])
        start = end
    return [*parts, encoded_lines[start:]]


def _within_words(text: str) -> list[Span]:
    """Return the places of keys that begin within a word."""
    spans = list[Span]()
    for span in sorted(prefixed(text.encode("latin-1", "replace")), key=lambda span: span.start):
        if not spans or span.start >= spans[-1].end:
            spans.append(span)
    return spans


def _is_placeholder(text: str) -> bool:
    return re.fullmatch(_PLACEHOLDER, text) is not None


@lru_cache(maxsize=8)
def redactor_of(secrets: frozenset[str], personal: tuple[str, ...] = ()) -> Redactor:
    """Return what replaces these secrets, and what of people is to go; made once for the same."""
    return Redactor({}, personal=personal, literals=secrets)


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _parameter(pair: str) -> str:
    name, _, value = pair.partition("=")
    if not shapes.is_secret_parameter(name) or not value or _is_placeholder(value):
        return pair
    return f"{name}=[redacted:parameter]"


def _span(match: re.Match[str]) -> Span | None:
    """Return the place of the secret without its name and quotes."""
    if match.lastgroup == "placeholder":
        return None
    start, end = match.span()
    start += len(match["quoted"] or match["assigned"] or "")
    if match["quoted"]:
        mark = len(match["v"] or "'")
        start, end = start + mark, end - mark
    return Span(start, end, f"[redacted:{_rule_of(match)}]")


def _is_open(span: Span, text: str) -> bool:
    """Return whether a secret goes on to the end of the text because its end is missing."""
    return span.text == "[redacted:private_key]" and not text[: span.end].endswith("-----")


def _rule_of(match: re.Match[str]) -> str:
    """Return the name of the rule that matched, for the replacement."""
    start = match["quoted"] or match["assigned"]
    if not start:
        return str(match.lastgroup)
    name = re.search(_NAMED, start, re.IGNORECASE)
    return shapes.kind_of(name.group()) if name is not None else "secret"


def _forms_of(secret: str) -> Iterator[str]:
    """Yield the secret as it appears in a text, in a URL, and in JSON inside a text."""
    yield from (secret, quote_plus(secret, errors="replace"), quote(secret, "", errors="replace"))
    for is_ascii in (False, True):
        once = json.dumps(secret, ensure_ascii=is_ascii)[1:-1]
        yield from (once, json.dumps(once, ensure_ascii=is_ascii)[1:-1], once.replace("/", "\\/"))
