"""vcrpy's requests as simkit's: the question of each, computed once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec
from vcr.request import Request

from simkit.capture.cassettes import Keying, Question
from simkit.providers.http import HttpRequest
from simkit.providers.protocols import protocol_of

_KNOWN_MAX: Final = 512
"""The number of requests that are cached by content: vcrpy copies each several times."""


class RequestParts(msgspec.Struct, frozen=True, gc=False):
    """One request of vcrpy, with its question."""

    request: HttpRequest
    is_model_call: bool
    question: Question
    key: str


class Knowing:
    """A cache of requests' questions, each computed once."""

    def __init__(self, keying: Keying) -> None:
        self.keying = keying
        self._by_request: WeakKeyDictionary[Request, RequestParts] = WeakKeyDictionary()
        self._by_content = lru_cache(maxsize=_KNOWN_MAX)(self._known)

    def __call__(self, request: Request) -> RequestParts:
        """Return a request with its question."""
        request_parts = self._by_request.get(request)
        if request_parts is None:
            request_parts = self._by_content(request.method, request.uri, body_of(request))
            self._by_request[request] = request_parts
        return request_parts

    def _known(self, method: str, url: str, body: bytes) -> RequestParts:
        request = HttpRequest(method.upper(), url, (), body)
        question = self.keying.question(request)
        return RequestParts(request, protocol_of(request) is not None, question, question.key(""))


def body_of(request: Request) -> bytes:
    """Return the bytes of a request's body, in any form that clients pass to vcrpy."""
    body: Any = request.body
    if body is None or isinstance(body, bytes | bytearray | str):
        return _bytes(body or b"")
    if hasattr(body, "read"):
        return _bytes(body.read())
    if isinstance(body, dict):
        # aiohttp's `json=` and `data=`.
        return json.dumps(body, separators=(",", ":"), default=str).encode()
    if isinstance(body, Iterable):
        return b"".join(_bytes(part) for part in body)
    return b""


def _bytes(part: Any) -> bytes:
    if isinstance(part, str):
        return part.encode("utf-8", "surrogatepass")
    return bytes((part,)) if isinstance(part, int) else bytes(part)
