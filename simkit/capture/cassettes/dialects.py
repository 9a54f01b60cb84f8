"""Dialects: the layouts of recorders, from plain data to values.

They are vcrpy's own (also with ``parsed_body``, a JSON value instead of a text, as pydantic-ai
writes it, and with the ``status_code`` and ``content`` of its older httpx recordings), the lists
``requests`` and ``responses`` of langchain-tests, and go-vcr's; vcrpy's lists from before 1.0 go
through its own migration. Additions of simkit are under ``interactions[].simkit``, which all of
them ignore.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from simkit.capture.cassettes.encodings import NotDecodable, decoded
from simkit.capture.cassettes.values import Interaction
from simkit.capture.cassettes.vcrpy import is_old, migrated
from simkit.providers.http import Headers, HttpRequest, HttpResponse, header

_At: TypeAlias = tuple[str | int, ...]

VERSIONS: Final = (1, 2)
"""vcrpy writes 1, go-vcr 1 or 2."""
FRAMING: Final = frozenset(("content-encoding", "content-length", "transfer-encoding"))
"""Headers about the transmission of a body; simkit stores the decoded body."""


class Misfit(Exception):
    """The data at a path is in no recorder's layout: ``args`` are the path and the sentence."""

    def __init__(self, at: _At, problem: str) -> None:
        super().__init__(at, problem)
        self.at, self.problem = at, problem


class Extra(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields under ``simkit``, in this order; unknown ones are ignored."""

    agent: str = ""
    turn: int = 0
    call: int = 0
    session: str = ""
    scenario: str = ""
    protocol: str = ""
    key: str = ""
    """The key, for readers and for `git diff`; simkit computes it again from the request."""
    recorded_at: str = ""
    chunks: tuple[int, ...] = ()
    """The sizes in bytes of the response's pieces; empty for one piece."""
    offsets_ms: tuple[int, ...] = ()
    """When each piece came, in milliseconds from the request."""
    ends: str = ""
    """The end of the response, as in `HttpResponse.ends`."""


def interactions_of(tree: Any) -> Iterator[Interaction]:
    """Yield the interactions in a file's data; raise Misfit for an unknown layout."""
    if is_old(tree):
        try:
            tree = migrated(tree)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problem_text = (
                f"vcrpy's migration from its layout before 1.0 does not read this: {error!r}"
            )
            raise Misfit((), problem_text) from None
    top = _mapping(tree, ())
    if "requests" in top and "responses" in top:
        requests, answered = (_list(top[key], (key,)) for key in ("requests", "responses"))
        if len(requests) != len(answered):
            problem_text = f"there are {len(requests)} requests, but {len(answered)} responses"
            raise Misfit(("responses",), problem_text)
        for number, (request, response) in enumerate(zip(requests, answered, strict=True)):
            yield _interaction(
                request, ("requests", number), response, ("responses", number), Extra()
            )
        return
    if "interactions" not in top:
        raise Misfit((), "this is no cassette: it has no `interactions`")
    if "version" not in top and not _is_versionless(top["interactions"]):
        # Recorders write it last: a file that was cut off between two interactions has none.
        raise Misfit((), "it has no `version`: its end is missing")
    version = top.get("version", 1)
    if version not in VERSIONS or isinstance(version, bool):
        raise Misfit(("version",), f"version {version!r} is not known")
    for number, found_item in enumerate(_list(top["interactions"], ("interactions",))):
        at: _At = ("interactions", number)
        item = _mapping(found_item, at)
        for part in ("request", "response"):
            if part not in item:
                raise Misfit(at, f"it has no `{part}`")
        yield _interaction(
            item["request"],
            (*at, "request"),
            item["response"],
            (*at, "response"),
            _extra(item.get("simkit"), (*at, "simkit")),
        )


def _is_versionless(data: Any) -> bool:
    """Return whether these are pydantic-ai's interactions, which may lack a version."""
    items = [item for item in data if isinstance(item, dict)] if isinstance(data, list) else []
    parts = (item.get(part) for item in items for part in ("request", "response"))
    is_theirs = any(isinstance(part, dict) and "parsed_body" in part for part in parts)
    return is_theirs and not any("simkit" in item for item in items)


def _extra(data: Any, at: _At) -> Extra:
    if data is None:
        return Extra()
    try:
        extra = msgspec.convert(data, Extra)
    except msgspec.ValidationError as error:
        raise Misfit(at, f"this is not what simkit writes: {error}") from None
    except UnicodeEncodeError:  # In a key, or in another type, msgspec rejects it.
        raise Misfit(at, "half a surrogate is no character") from None
    if extra.ends not in ("", "cut", "timeout"):
        raise Misfit((*at, "ends"), f"{extra.ends!r} is not known; known: cut, timeout")
    if min((*extra.chunks, *extra.offsets_ms, extra.turn, extra.call), default=0) < 0:
        raise Misfit(at, "numbers here cannot be negative")
    for text in (
        extra.agent,
        extra.session,
        extra.scenario,
        extra.protocol,
        extra.key,
        extra.recorded_at,
    ):
        _sound(text, at)
    return extra


def _interaction(
    request: Any, request_at: _At, response: Any, response_at: _At, extra: Extra
) -> Interaction:
    return Interaction(
        request=_request(_mapping(request, request_at), request_at),
        response=_response(_mapping(response, response_at), response_at, extra),
        agent=extra.agent,
        turn=extra.turn,
        call=extra.call,
        session=extra.session,
        scenario=extra.scenario,
        protocol=extra.protocol,
        recorded_at=extra.recorded_at,
    )


def _request(data: dict[str, Any], at: _At) -> HttpRequest:
    word = "uri" if "uri" in data or "url" not in data else "url"
    for key in ("method", word):
        if not isinstance(data.get(key), str) or not data[key]:
            raise Misfit((*at, key) if key in data else at, f"it needs a text under `{key}`")
        _sound(data[key], (*at, key))
    headers = _headers(data.get("headers"), (*at, "headers"))
    body = _plain_body(_body(data, at), headers, (*at, "body"))
    return HttpRequest(data["method"].upper(), data[word], _unframed(headers), body)


def _response(data: dict[str, Any], at: _At, extra: Extra) -> HttpResponse:
    headers = _headers(data.get("headers"), (*at, "headers"))
    body = _plain_body(_body(data, at), headers, (*at, "body"))
    chunks, waits = _cut(body, extra)
    return HttpResponse(_status(data, at), _unframed(headers), chunks, extra.ends, waits)


def _status(data: dict[str, Any], at: _At) -> int:
    status, key = data.get("status"), "status"
    if isinstance(status, dict):
        status = status.get("code")
    for other in ("status_code", "code"):
        if other in data:
            status, key = data[other], other
    if not isinstance(status, int) or isinstance(status, bool) or not 100 <= status <= 599:
        where = (*at, key) if key in data else at
        raise Misfit(where, "it needs an HTTP status: a number from 100 to 599")
    return status


def _cut(body: bytes, extra: Extra) -> tuple[tuple[bytes, ...], tuple[int, ...]]:
    """Return the pieces of the body, and the delay before each.

    A body that was edited by hand does not fit the sizes: it comes in one piece.
    """
    sizes = extra.chunks or (len(body),)
    waits: tuple[int, ...] = ()
    if len(extra.offsets_ms) == len(sizes):
        befores = (0, *extra.offsets_ms)
        waits = tuple(max(b - a, 0) for a, b in zip(befores, extra.offsets_ms, strict=False))
    if sum(sizes) != len(body):
        return (body,), ((sum(waits),) if waits else ())
    chunks, start = [], 0
    for size in sizes:
        chunks.append(body[start : start + size])
        start += size
    return tuple(chunks), waits


def _body(data: dict[str, Any], at: _At) -> str | bytes:
    """Return a text or bytes as in the file, or a JSON value as its text."""
    if "parsed_body" in data:
        return _json(data["parsed_body"], (*at, "parsed_body"))
    key = "content" if "content" in data and "body" not in data else "body"
    body, where = data.get(key), (*at, key)
    if isinstance(body, dict):
        if body and "string" not in body:
            return _json(body, where)
        body, where = body.get("string"), (*where, "string")
    if body is None:
        return b""
    if not isinstance(body, str | bytes):
        raise Misfit(where, f"a body is a text, not {_kind(body)}")
    return body


def _json(value: Any, at: _At) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        raise Misfit(at, "this is no JSON value") from None


def _plain_body(body: str | bytes, headers: Headers, at: _At) -> bytes:
    """Return a body's uncompressed bytes."""
    encoding = header(headers, "content-encoding")
    if isinstance(body, str):
        # Recorders that decompress sometimes keep the header; a text is not compressed.
        try:
            return body.encode()
        except UnicodeEncodeError:
            return body.encode("utf-8", "surrogatepass")
    if not encoding or _is_plain(body, encoding):
        return body
    try:
        return decoded([body], encoding, is_whole=True)[0]
    except NotDecodable as error:
        raise Misfit(at, f"this body cannot be decompressed: {error}") from None


def _is_plain(body: bytes, encoding: str) -> bool:
    """Return whether bytes are text although a header says that they are compressed."""
    if encoding.strip().lower() in ("gzip", "x-gzip"):
        return not body.startswith(b"\x1f\x8b") and _is_text(body)
    return body[:1] in (b"{", b"[", b"<", b'"') and _is_text(body)


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _unframed(headers: Headers) -> Headers:
    return tuple(pair for pair in headers if pair[0].lower() not in FRAMING)


def _headers(data: Any, at: _At) -> Headers:
    """Return headers from a mapping, with one or several values each, or from pairs."""
    if data is None:
        return ()
    if isinstance(data, list):
        pairs: Iterable[tuple[Any, Any, _At]] = (
            (*_pair(pair, (*at, number)), (*at, number)) for number, pair in enumerate(data)
        )
    else:
        pairs = ((name, value, (*at, name)) for name, value in _mapping(data, at).items())
    return tuple(
        (_header_text(name, where), _header_text(value_, where))
        for name, values, where in pairs
        for value_ in (values if isinstance(values, list) else [values])
    )


def _pair(data: Any, at: _At) -> tuple[Any, Any]:
    if not isinstance(data, list) or len(data) != 2:
        raise Misfit(at, "a header is a name and a value")
    return data[0], data[1]


def _header_text(data: Any, at: _At) -> str:
    if isinstance(data, bytes):
        return data.decode("latin-1")
    if isinstance(data, str):
        return _sound(data, at)
    if isinstance(data, int | float) and not isinstance(data, bool):
        return str(data)
    raise Misfit(at, f"a header's value is a text, not {_kind(data)}")


def _sound(text: str, at: _At) -> str:
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise Misfit(at, "half a surrogate is no character")
    return text


def _mapping(data: Any, at: _At) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise Misfit(at, f"this must be a mapping, not {_kind(data)}")
    return data


def _list(data: Any, at: _At) -> list[Any]:
    if not isinstance(data, list):
        raise Misfit(at, f"this must be a list, not {_kind(data)}")
    return data


def _kind(data: Any) -> str:
    if data is None:
        return "nothing"
    kinds = {
        bool: "a truth value",
        dict: "a mapping",
        list: "a list",
        str: "a text",
        bytes: "bytes",
    }
    return next((kind for type, kind in kinds.items() if isinstance(data, type)), "a number")
