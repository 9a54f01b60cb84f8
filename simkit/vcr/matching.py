"""Matchers for vcrpy: model requests by their meaning, all others as vcrpy does.

vcrpy compares a request with one recording after the other, and asks its matchers for a text each
time. So the question of a request is computed once, two are compared by their keys, and differences
are described only where somebody reads them: for the first compared recording, and for the nearest
one when the same question comes again after nothing matched it, as it does for vcrpy's error.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final
from weakref import ReferenceType, ref

import msgspec
from vcr import matchers
from vcr.request import Request

from simkit.capture.cassettes import Keying, Question
from simkit.capture.cassettes.missing import difference_lines, differences, nearest_of
from simkit.providers.http import HttpRequest
from simkit.providers.protocols import protocol_of

# vcrpy's requests as simkit's: the question of each, computed once


_KNOWN_MAX: Final = 512
"""The number of requests that are cached by content: vcrpy copies each several times."""


class RequestParts(msgspec.Struct, frozen=True, gc=False):
    """One request of vcrpy, with its question."""

    request: HttpRequest
    is_model_call: bool
    question: Question
    key: str


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


# Matchers


PLAIN: Final = ("method", "scheme", "host", "port", "path", "query")
"""vcrpy's default matchers."""
_SEARCHES_MAX: Final = 1_024
"""The number of questions for which it is known whether a recording matched."""


class Matching:
    """The matchers of one configuration; any number of threads may call them."""

    def __init__(self, keying: Keying) -> None:
        self._keying = keying
        self._parts_of = lru_cache(maxsize=_KNOWN_MAX)(self._read)
        self._searches: OrderedDict[str, _Search] = OrderedDict()
        self._lock = threading.RLock()  # Finalizers may call this again.

    def matches_model_request(self, request: Request, recorded: Request) -> None:
        """Raise AssertionError with the differences unless both requests ask the same.

        The question of a model call is in its body; the order of keys, headers and the host do not
        count. Other requests are compared as vcrpy does by default: without their bodies.
        """
        search = self._search(request)
        if self._is_same(request, recorded):
            search.is_found = True
            return
        is_first = not search.missed
        search.missed.append(ref(recorded))
        nearest = search.nearest
        is_read = nearest() is recorded if nearest is not None else is_first
        raise AssertionError(
            self._difference_text(request, recorded) if is_read else "it asks something else"
        )

    def is_nearest_recording(self, request: Request, recorded: Request) -> bool:
        """Return whether no other recording is known to be nearer to an unanswered request.

        vcrpy's error shows the recordings for which most matchers hold: with this one, the nearest.
        It decides no match: if one recording answers, this holds for it.
        """
        nearest = self._search(request).nearest
        return nearest is None or nearest() is recorded or self._is_same(request, recorded)

    def _read(self, method: str, url: str, body: bytes) -> RequestParts:
        request = HttpRequest(method.upper(), url, (), body)
        question = self._keying.question(request)
        return RequestParts(request, protocol_of(request) is not None, question, question.key(""))

    def _known(self, request: Request) -> RequestParts:
        """Return a request with its question, which is computed once."""
        return self._parts_of(request.method, request.uri, body_of(request))

    def _search(self, request: Request) -> _Search:
        """Return the current search through recordings for a request."""
        known = self._known(request)
        with self._lock:
            before = self._searches.get(known.key)
            if before is not None and before.request() is request:
                return before
            search = _Search(request, None if before is None else self._nearest(known, before))
            self._searches[known.key] = search
            self._searches.move_to_end(known.key)
            while len(self._searches) > _SEARCHES_MAX:
                self._searches.popitem(last=False)
            return search

    def _nearest(self, known: RequestParts, before: _Search) -> ReferenceType[Request] | None:
        """Return the nearest of the recordings that did not match, if none did."""
        if before.is_found or not known.is_model_call:
            return None
        missed = [request for live in before.missed if (request := live()) is not None]
        place = nearest_of(known.question, [self._known(request).question for request in missed])
        return None if place is None else ref(missed[place])

    def _is_same(self, request: Request, recorded: Request) -> bool:
        left, right = self._known(recorded), self._known(request)
        if left.is_model_call or right.is_model_call:
            return left.is_model_call and right.is_model_call and left.key == right.key
        return not any(_plain_differences(request, recorded))

    def _difference_text(self, request: Request, recorded: Request) -> str:
        left, right = self._known(recorded), self._known(request)
        if not left.is_model_call and not right.is_model_call:
            return "\n".join(_plain_differences(request, recorded))
        details = differences((left.request, left.question), (right.request, right.question))
        return "\n".join(["- recorded, + asked now", *difference_lines(*details)])


class _Search:
    """One search through a cassette for a request."""

    def __init__(self, request: Request, nearest: ReferenceType[Request] | None) -> None:
        self.request = ref(request)
        self.nearest = nearest
        """The nearest recording, if an equal search before found no answer; else None."""
        self.missed: list[ReferenceType[Request]] = []
        self.is_found = False


def _plain_differences(request: Request, recorded: Request) -> Iterator[str]:
    for name in PLAIN:
        try:
            getattr(matchers, name)(request, recorded)
        except AssertionError as error:
            yield f"{name}: {error}"
