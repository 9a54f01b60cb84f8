"""Redaction of interactions: their headers and bodies, and the secrets that servers issue.

The same functions run on a recording, before its key is computed and before it is written, and on a
request in replay before its lookup, so that both get the same key.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias
from zlib import crc32

import msgspec

from simkit.capture.cassettes.values import Interaction, NotDecodable, decoded, with_body
from simkit.capture.cassettes.vcrpy_layout import FRAMING
from simkit.core.redact import Redactor
from simkit.core.redact.prefilter import utf16_of
from simkit.core.redact.shapes import is_guessable, kind_of
from simkit.providers.http import Headers, HttpRequest, HttpResponse, header
from simkit.providers.streams import frames_of, is_framed, is_stream, rewritten

SET_COOKIE: Final = "set-cookie"
_SESSION: Final = re.compile(r".*(?:session-?id|session|-token|-secret)")
"""Headers of responses with a secret, beside those with the name of a key."""
_OPAQUE: Final = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[\w+/=.~:-]{16,}")
"""A value that may be a secret under a name that nobody knows."""
_HARMLESS: Final = re.compile(
    r"(?:access-control-|content-|retry-after|x-ratelimit-|ratelimit-|anthropic-ratelimit-).*"
    r"|etag|last-modified|link|location|operation-location|azure-asyncoperation|expires|server|vary"
    r"|www-authenticate|x-should-retry|request-id|x-request-id|x-powered-by|cache-control|.*-version"
)
_COOKIE: Final = re.compile(r"(\s*(?:[^=;\s]+\s*=\s*)?\"?)([^;\"]*)")
_MARK: Final = "[redacted:"
_GZIP: Final = b"\x1f\x8b"


def secret_in(name: str, value: str) -> tuple[str, str]:
    """Return the kind and the text of the secret that a response's header holds; or nothing."""
    name = name.lower()
    if name == SET_COOKIE:
        cookie = _COOKIE.match(value)
        kind, value = "set_cookie", cookie[2].strip() if cookie is not None else ""
    else:
        kind = kind_of(name) or ("session_token" if _SESSION.fullmatch(name) else "")
        if not kind and _OPAQUE.fullmatch(value) and not _HARMLESS.fullmatch(name):
            kind = "header"
    if not kind or is_guessable(value) or _MARK in value:
        return "", ""
    return kind, value


class Issued:
    """The secrets of a recording's responses, each with its placeholder."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._placeholders: dict[str, str] = {}
        self._counts: Counter[str] = Counter()

    def learn(self, response: HttpResponse, requests: Iterable[HttpRequest]) -> None:
        """Learn the secrets of a response, but those that an earlier request held already."""
        for kind, value in _secrets_of(response):
            if value in self._placeholders or self._redactor.knows(value):
                continue
            if any(_holds(request, value) for request in requests):
                continue
            self._counts[kind] += 1
            number = self._counts[kind]
            self._placeholders[value] = f"{_MARK}{kind}{f'-{number}' if number > 1 else ''}]"

    def request(self, request: HttpRequest) -> HttpRequest:
        """Return a request with the placeholders of known secrets."""
        if not self._placeholders:
            return request
        url, body = self._text(request.url), self._bytes(request.body)
        return HttpRequest(request.method, url, self._headers(request.headers), body)

    def response(self, response: HttpResponse) -> HttpResponse:
        """Return a response with the placeholders of known secrets."""
        if not self._placeholders:
            return response
        response = msgspec.structs.replace(response, headers=self._headers(response.headers))
        return with_body(response, rewritten(response, self._bytes))

    def _headers(self, headers: Headers) -> Headers:
        return tuple((name, self._text(value)) for name, value in headers)

    def _text(self, text: str) -> str:
        for form, placeholder in self._forms():
            text = text.replace(form, placeholder)
        return text

    def _bytes(self, body: bytes) -> bytes:
        for form, placeholder in self._forms():
            body = body.replace(form.encode("utf-8", "surrogatepass"), placeholder.encode())
        return body

    def _forms(self) -> Iterator[tuple[str, str]]:
        """Yield each secret as it is written in texts, URLs and JSON; the longest first."""
        for value in sorted(self._placeholders, key=len, reverse=True):
            for form in dict.fromkeys(Redactor.forms_of(value)):
                yield form, self._placeholders[value]


def _secrets_of(response: HttpResponse) -> Iterator[tuple[str, str]]:
    for name, value in response.headers:
        kind, secret = secret_in(name, value)
        if secret:
            yield kind, secret
    try:
        body = msgspec.json.decode(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    yield from _named(body)


def _named(body: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts under secret names in a JSON value."""
    below = [body]
    while below:
        item = below.pop()
        if isinstance(item, Mapping):
            for name, value in item.items():
                kind = kind_of(name)
                if kind and isinstance(value, str) and not is_guessable(value):
                    yield kind, value
            below += item.values()
        elif isinstance(item, list):
            below += item


def _holds(request: HttpRequest, value: str) -> bool:
    if value in request.url or value.encode("utf-8", "surrogatepass") in request.body:
        return True
    return any(value in text for _, text in request.headers)


# Secrets in the pieces of a stream


_NAMING: Final = (
    "index",
    "output_index",
    "content_index",
    "summary_index",
    "contentBlockIndex",
    "item_id",
    "type",
)
"""Keys that say to which part of the answer an event belongs."""
_OPENING: Final = (b"{", b"[")

_Place: TypeAlias = tuple[Any, ...]
_Holder: TypeAlias = dict[str, Any] | list[Any]


def redacted_events(body: bytes, redactor: Redactor) -> bytes:
    """Return server-sent events with every secret replaced, also split ones.

    The number of lines stays. A line without secrets is unchanged.
    """
    lines = [_Line(line) for line in body.split(b"\n")]
    _join(lines, redactor)
    return b"\n".join(line.redacted(redactor) for line in lines)


def redacted_lines(body: bytes, redactor: Redactor) -> bytes:
    """Return a body with every secret replaced, for JSON lines or a list of objects."""
    if body.lstrip()[:1] == b"[" and (items := _decoded(body)) is not None:
        if isinstance(items, list) and _join_values(items, redactor):
            body = msgspec.json.encode(items)
    elif b"\n{" in body.strip():
        lines = [_Line(line) for line in body.split(b"\n")]
        if all(line.is_json or not line.value for line in lines):
            _join(lines, redactor)
            body = b"\n".join(line.redacted(redactor) for line in lines)
    return redactor.line(body)


def redacted_frames(response: HttpResponse, redactor: Redactor) -> bytes:
    """Return Amazon's frames with every secret replaced, also split ones; their number stays."""
    lines = [_Line(frame.content) for frame in frames_of(response)]
    _join(lines, redactor)
    rest = iter(lines)

    def write(content: bytes) -> bytes:
        line = next(rest, None) or _Line(content)  # The last one may be an incomplete frame.
        return redacted_lines(line.redacted(redactor), redactor)

    return rewritten(response, write)


class _Line:
    """One line of a stream: a field's name, and its value."""

    def __init__(self, line: bytes) -> None:
        self._line = line
        name, mark, value = line.partition(b":")
        if not mark or line[:1] in _OPENING:
            name, mark, value = b"", b"", line
        self.value = self._value = value.strip()
        self._lead = name + mark + value[: len(value) - len(value.lstrip())]
        self._end = value[len(value.rstrip()) :] if self.value else b""
        self.is_data = name == b"data" or not name
        self.json = _decoded(self.value) if self.value[:1] in _OPENING else None
        self.is_json = self.json is not None
        self.is_changed = False

    def redacted(self, redactor: Redactor) -> bytes:
        """Return the line without the secrets that it contains alone."""
        value = _encoded(self.json) if self.is_changed and self.is_json else self.value
        text = redactor.line(value)
        return self._line if text == self._value else self._lead + text + self._end


def _join(lines: list[_Line], redactor: Redactor) -> None:
    """Replace the secrets that continue over several events."""
    events = [line for line in lines if line.is_data and line.is_json]
    for number in _join_values([line.json for line in events], redactor):
        events[number].is_changed = True
    # Lines of text may contain a secret together, for example a key in PEM.
    text_lines = [line for line in lines if line.is_data and line.value and not line.is_json]
    texts = [line.value.decode("utf-8", "surrogateescape") for line in text_lines]
    for line, text in zip(text_lines, redactor.pieces(texts), strict=True):
        line.value = text.encode("utf-8", "surrogateescape")


def _join_values(events: list[Any], redactor: Redactor) -> set[int]:
    """Replace, in place, the secrets that continue over events; return the changed ones."""
    texts_by_path: dict[_Place, list[tuple[int, _Holder, Any]]] = {}
    for number, event in enumerate(events):
        # An event that is nested too deeply is redacted as one line.
        with suppress(RecursionError):
            for path, holder, key in _texts(event, ()):
                texts_by_path.setdefault(path, []).append((number, holder, key))
    changed = set()
    for each_place in texts_by_path.values():
        before = [holder[key] for _, holder, key in each_place]
        if len(set(before)) < 2:
            # A value that every event repeats, such as the model's name, is no split text.
            continue
        for (number, holder, key), old, new in zip(
            each_place, before, _redacted(before, redactor), strict=True
        ):
            if old != new:
                holder[key] = new
                changed.add(number)
    return changed


def _redacted(pieces: list[str], redactor: Redactor) -> list[str]:
    parts_redacted = redactor.pieces(pieces)
    whole = "".join(parts_redacted)
    if whole[:1] not in ("{", "["):
        return parts_redacted
    # JSON in arguments of a tool may escape a secret, so that its text does not show it.
    line = whole.encode("utf-8", "surrogatepass")
    redacted = redactor.line(line)
    if redacted == line:
        return parts_redacted
    return [redacted.decode("utf-8", "surrogatepass"), *[""] * (len(parts_redacted) - 1)]


def _texts(value: Any, path: _Place) -> Iterator[tuple[_Place, _Holder, Any]]:
    """Yield each text of an event: its place, and its container."""
    if isinstance(value, dict):
        named = tuple(value[key] for key in _NAMING if isinstance(value.get(key), int | str))
        items: Iterator[tuple[Any, Any]] = iter(value.items())
        path = (*path, named)
    elif isinstance(value, list):
        items = iter(enumerate(value))
    else:
        return
    for key, below in items:
        if isinstance(below, str):
            yield (*path, key), value, key
        else:
            is_numbered = isinstance(below, Mapping) and "index" in below
            yield from _texts(below, path if is_numbered else (*path, key))


def _decoded(value: bytes) -> Any:
    for decode in (msgspec.json.decode, json.loads):
        try:
            return decode(value)
        except (ValueError, RecursionError):
            continue
    return None


def _encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (ValueError, UnicodeEncodeError):
        return json.dumps(value, separators=(",", ":")).encode()


# Interactions: which headers are kept, and bodies with every secret replaced


class _Wire(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tables in wire.yaml."""

    dropped: dict[str, tuple[str, ...]]
    request_headers: frozenset[str]
    addresses: frozenset[str]
    hop: frozenset[str]


WIRE: Final = msgspec.yaml.decode(Path(__file__).with_name("wire.yaml").read_bytes(), type=_Wire)


def redacted(interaction: Interaction, redactor: Redactor) -> Interaction:
    """Return the interaction as it may be written."""
    return msgspec.structs.replace(
        interaction,
        request=redacted_request(interaction.request, redactor),
        response=redacted_response(interaction.response, redactor),
        agent=redactor.text(interaction.agent),
        session=redactor.text(interaction.session),
        scenario=redactor.text(interaction.scenario),
    )


def redacted_request(request: HttpRequest, redactor: Redactor) -> HttpRequest:
    """Return the request with the recorded headers and without secrets."""
    return HttpRequest(
        request.method,
        redactor.url(request.url),
        _visible_headers(
            [pair for pair in request.headers if pair[0].lower() in WIRE.request_headers], redactor
        ),
        redacted_body(request, redactor),
    )


def redacted_response(response: HttpResponse, redactor: Redactor) -> HttpResponse:
    """Return the response with the recorded headers and without secrets."""
    pairs = [pair for pair in response.headers if pair[0].lower() not in WIRE.hop]
    headers = _visible_headers(pairs, redactor)
    redacted = msgspec.structs.replace(response, headers=headers)
    return with_body(redacted, redacted_answer(response, redactor))


def redacted_answer(response: HttpResponse, redactor: Redactor) -> bytes:
    """Return a response's body with every secret replaced, also one that is split over events."""
    if is_framed(response):
        return redacted_frames(response, redactor)
    redact = redacted_events if is_stream(response) else redacted_lines
    return _as_utf8(response.body, redactor, redact)


def redacted_body(request: HttpRequest, redactor: Redactor) -> bytes:
    """Return a request's body without its encoding, with every secret replaced.

    Of bytes that nothing here can decode, the encoding's name and a checksum are returned, so that
    two requests have two keys.
    """
    body, named = request.body, header(request.headers, "content-encoding")
    encodings = named or ("gzip" if body.startswith(_GZIP) else "")
    try:
        (body,) = decoded([body], encodings, is_whole=True)
    except NotDecodable:
        if body.decode(errors="replace").encode() != body:
            return f"{_MARK}{encodings}_{crc32(body):08x}]".encode()
    return _as_utf8(body, redactor, lambda body, redactor: redactor.line(body))


def _as_utf8(body: bytes, redactor: Redactor, redact: Callable[[bytes, Redactor], bytes]) -> bytes:
    """Return a body without secrets, also one in UTF-16."""
    if not (codec := utf16_of(body)):
        return redact(body, redactor)
    text = body.decode(codec, "surrogatepass").encode("utf-8", "surrogatepass")
    redacted = redact(text, redactor)
    return body if redacted == text else redacted.decode("utf-8", "surrogatepass").encode(codec)


def redacted_header(name: str, value: str, redactor: Redactor) -> str:
    """Return a header's value with every secret replaced; a cookie keeps its name."""
    if name.lower() in WIRE.addresses:
        return redactor.url(value)
    kind, secret = secret_in(name, value)
    return redactor.text(value.replace(secret, f"[redacted:{kind}]") if secret else value)


def _visible_headers(headers: Iterable[tuple[str, str]], redactor: Redactor) -> Headers:
    return tuple(
        (name.lower(), redacted_header(name, value, redactor))
        for name, value in headers
        if name.lower() not in FRAMING
    )
