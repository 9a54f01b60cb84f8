"""vcrpy's layout, from plain data to values.

Additions of simkit stand under ``interactions[].simkit``, which vcrpy ignores. Layouts of other
recorders are rearranged as vcrpy's first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec

from simkit.capture.cassettes.values import (
    BODY_BYTES_MAX,
    Interaction,
    NotDecodable,
    Origin,
    decoded,
    origin_of,
)
from simkit.providers.http import Headers, HttpRequest, HttpResponse, header

_At: TypeAlias = tuple[str | int, ...]

VERSION: Final = 1
"""The version of its layout that vcrpy writes."""
FRAMING: Final = frozenset(("content-encoding", "content-length", "transfer-encoding"))
"""Headers about the transmission of a body; simkit stores the decoded body."""


class Misfit(Exception):
    """The data at a path is not in the layout: ``args`` are the path and the sentence."""

    def __init__(self, at: _At, problem: str) -> None:
        super().__init__(at, problem)
        self.at, self.problem = at, problem


class Extra(Origin, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The fields under ``simkit``, in this order; unknown ones are ignored."""

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
    """Yield the interactions in a file's data; raise Misfit for another layout."""
    top = _mapping(tree, ())
    if "interactions" not in top:
        raise Misfit((), "this is no cassette: it has no `interactions`")
    if "version" not in top:
        # Recorders write it last: a file that was cut off between two interactions has none.
        raise Misfit((), "it has no `version`: its end is missing")
    if top["version"] != VERSION or isinstance(top["version"], bool):
        raise Misfit(("version",), f"version {top['version']!r} is not known")
    for number, data in enumerate(_list(top["interactions"], ("interactions",))):
        at: _At = ("interactions", number)
        item = _mapping(data, at)
        for part in ("request", "response"):
            if part not in item:
                raise Misfit(at, f"it has no `{part}`")
        extra = _extra(item.get("simkit"), (*at, "simkit"))
        request_at, response_at = (*at, "request"), (*at, "response")
        yield Interaction(
            request=_request(_mapping(item["request"], request_at), request_at),
            response=_response(_mapping(item["response"], response_at), response_at, extra),
            recorded_at=extra.recorded_at,
            **origin_of(extra),
        )


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
    for text in (*origin_of(extra).values(), extra.key, extra.recorded_at):
        if isinstance(text, str):
            _sound(text, at)
    return extra


def _request(data: dict[str, Any], at: _At) -> HttpRequest:
    for key in ("method", "uri"):
        if not isinstance(data.get(key), str) or not data[key]:
            raise Misfit((*at, key) if key in data else at, f"it needs a text under `{key}`")
        _sound(data[key], (*at, key))
    headers = _headers(data.get("headers"), (*at, "headers"))
    body = _plain_body(_body(data, at), headers, (*at, "body"))
    return HttpRequest(data["method"].upper(), data["uri"], _unframed(headers), body)


def _response(data: dict[str, Any], at: _At, extra: Extra) -> HttpResponse:
    headers = _headers(data.get("headers"), (*at, "headers"))
    body = _plain_body(_body(data, at), headers, (*at, "body"))
    chunks, waits = _cut(body, extra)
    return HttpResponse(_status(data, at), _unframed(headers), chunks, extra.ends, waits)


def _status(data: dict[str, Any], at: _At) -> int:
    status = data.get("status")
    code = status.get("code") if isinstance(status, dict) else None
    if not isinstance(code, int) or isinstance(code, bool) or not 100 <= code <= 599:
        where = (*at, "status") if "status" in data else at
        raise Misfit(where, "it needs an HTTP status under `code`: a number from 100 to 599")
    return code


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
    """Return a text or bytes as in the file; vcrpy writes data that a client sent as a value."""
    foreign = next((key for key in ("parsed_body", "content") if key in data), None)
    if foreign is not None and "body" not in data:
        raise Misfit((*at, foreign), "vcrpy keeps a body under `body`")
    body, where = data.get("body"), (*at, "body")
    if isinstance(body, dict):
        if body and "string" not in body:
            return json_text(body, where)
        body, where = body.get("string"), (*where, "string")
    if body is None:
        return b""
    if not isinstance(body, str | bytes):
        raise Misfit(where, f"a body is a text, not {_kind(body)}")
    return body


def json_text(value: Any, at: _At) -> str:
    """Return a value as JSON; raise Misfit if it is none, or aliases make it too large."""
    encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
    parts, size = list[str](), 0
    try:
        for part in encoder.iterencode(value):
            parts.append(part)
            size += len(part)
            if size > BODY_BYTES_MAX:
                raise Misfit(at, f"aliases expand it to more than {BODY_BYTES_MAX:,} bytes")
    except (TypeError, ValueError, RecursionError):
        raise Misfit(at, "this is no JSON value") from None
    return "".join(parts)


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
    """Return headers from a mapping, with one or several values each."""
    values = {} if data is None else _mapping(data, at)
    return tuple(
        (_header_text(name, (*at, name)), _header_text(value, (*at, name)))
        for name, several in values.items()
        for value in (several if isinstance(several, list) else [several])
    )


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


# Layouts of other recorders, for `simkit cassettes import` and for scans
#
# They are the list of dictionaries `requests` and `responses` of langchain-tests, pydantic-ai's
# `parsed_body` (a JSON value in place of a text), go-vcr's, and what vcrpy before 6 wrote for httpx
# (`content` and `status_code`). Replay reads none of them.


BEFORE_1_0: Final = "vcrpy before 1.0"
_OLD: Final = ("protocol", "host", "port", "path")
"""The keys of a URL in the layout of vcrpy before 1.0."""
_KEYS: Final = {"parsed_body": "pydantic-ai", "status_code": "vcrpy before 6", "url": "go-vcr"}
"""Keys of requests and responses that vcrpy does not write, and their recorders."""


def recorder_of(tree: Any) -> str:
    """Return the name of the recorder that writes such data; empty for vcrpy, and for no layout."""
    if isinstance(tree, list):
        return BEFORE_1_0 if any(part.keys() >= {*_OLD} for part in _parts_of(tree)) else ""
    if not isinstance(tree, dict):
        return ""
    if "requests" in tree and "responses" in tree:
        return "langchain-tests"
    keys = {key for part in _parts_of(tree.get("interactions")) for key in part}
    return next((recorder for key, recorder in _KEYS.items() if key in keys), "")


def _parts_of(interactions: Any) -> Iterator[dict[Any, Any]]:
    """Yield the requests and responses among interactions, in whatever layout."""
    for item in interactions if isinstance(interactions, list) else ():
        if isinstance(item, dict):
            parts = (item.get("request"), item.get("response"))
            yield from (part for part in parts if isinstance(part, dict))


def advice(recorder: str, path: object) -> str:
    """Return what a user does with a file of another recorder."""
    if recorder == BEFORE_1_0:
        return f"`python -m vcr.migration {path}` rewrites it in today's layout"
    return f"`simkit cassettes import {path} NEW.yaml` writes one that is"


def in_vcrpy_layout(tree: Any) -> Any:
    """Return data in vcrpy's layout, without its errors; raise Misfit where that is impossible."""
    recorder = recorder_of(tree)
    if recorder in ("", BEFORE_1_0):
        return tree
    if recorder == "langchain-tests":
        requests, responses = tree["requests"], tree["responses"]
        if not isinstance(requests, list) or not isinstance(responses, list):
            raise Misfit((), "`requests` and `responses` must be lists")
        if len(requests) != len(responses):
            problem = f"there are {len(requests)} requests, but {len(responses)} responses"
            raise Misfit(("responses",), problem)
        pairs = zip(requests, responses, strict=True)
        items = [{"request": request, "response": response} for request, response in pairs]
    else:
        items = tree["interactions"]
    rearranged = [
        {key: _part(value, ("interactions", number, key)) for key, value in item.items()}
        if isinstance(item, dict)
        else item
        for number, item in enumerate(items)
    ]
    return {"interactions": rearranged, "version": VERSION}


def _part(data: Any, at: tuple[str | int, ...]) -> Any:
    """Return a request or a response in vcrpy's layout."""
    if not isinstance(data, dict):
        return data
    part = dict(data)
    if "parsed_body" in part:
        part["body"] = {"string": json_text(part.pop("parsed_body"), (*at, "parsed_body"))}
    for key, other in (("body", "content"), ("uri", "url")):
        if key not in part and other in part:
            part[key] = part[other]
    for key in ("status_code", "code"):
        if key in part:
            part["status"] = {"code": part[key]}
    if isinstance(part.get("headers"), list):
        part["headers"] = _by_name(part["headers"], (*at, "headers"))
    return part


def _by_name(pairs: list[Any], at: tuple[str | int, ...]) -> dict[Any, list[Any]]:
    headers: dict[Any, list[Any]] = {}
    for number, pair in enumerate(pairs):
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str | bytes):
            raise Misfit((*at, number), "a header is a name and a value")
        headers.setdefault(pair[0], []).append(pair[1])
    return headers
