"""Support for vcrpy and pytest-recording: model requests matched by their meaning.

`vcr_config` is the return value for the fixture of that name. Its matcher compares model requests
as simkit's own cassettes do, and describes a miss message by message; its hooks keep secrets out of
files.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeVar
from weakref import ReferenceType, ref

import msgspec
from vcr import matchers
from vcr.request import Request

from simkit.capture.cassettes import Keying, Question
from simkit.capture.cassettes.missing import difference_lines, differences, nearest_of
from simkit.capture.cassettes.redacting import WIRE, redacted_answer, redacted_body, redacted_header
from simkit.capture.cassettes.values import NotDecodable, decoded
from simkit.core.redact import Redactor
from simkit.core.redact.shapes import PERSONAL, kind_of, secrets_of
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.providers.protocols import protocol_of

# Hooks: requests and responses that vcrpy keeps, without secrets in headers, bodies and streams
#
# The hooks run on recording, and again on each request and on a file's content, so that both sides
# compare the same, as in simkit's own cassettes.


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
        parts = self._known(request)
        with self._lock:
            before = self._searches.get(parts.key)
            if before is not None and before.request() is request:
                return before
            search = _Search(request, None if before is None else self._nearest(parts, before))
            self._searches[parts.key] = search
            self._searches.move_to_end(parts.key)
            while len(self._searches) > _SEARCHES_MAX:
                self._searches.popitem(last=False)
            return search

    def _nearest(self, parts: RequestParts, before: _Search) -> ReferenceType[Request] | None:
        """Return the nearest of the recordings that did not match, if none did."""
        if before.is_found or not parts.is_model_call:
            return None
        missed = [request for live in before.missed if (request := live()) is not None]
        nearest = nearest_of(parts.question, [self._known(request).question for request in missed])
        return None if nearest is None else ref(missed[nearest])

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


_ENCODING: Final = "content-encoding"


class Hooks:
    """The hooks of one configuration."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def __deepcopy__(self, memo: object) -> Hooks:
        """Return itself, since hooks have no state; pytest-recording copies its configuration."""
        return self

    def before_record_request(self, request: Request) -> Request:
        """Return the request with the headers that simkit records, and without secrets."""
        headers = tuple((name, _text(value)) for name, value in request.headers.items())
        request.uri = self._redactor.url(request.uri)
        request.headers = {
            name: redacted_header(name, value, self._redactor)
            for name, value in headers
            if name.lower() in WIRE.request_headers
        }
        if isinstance(request.body, dict):
            request.body = self._redactor.value(request.body)
            return request
        before = body_of(request)
        after = redacted_body(HttpRequest("", "", headers, before), self._redactor)
        if after != before:
            # vcrpy makes an iterator of the body of a request that came with one.
            is_iterator = hasattr(request.body, "__next__") and not hasattr(request.body, "read")
            request.body = [after] if is_iterator else after
        return request

    def before_record_response(self, response: dict[str, Any]) -> dict[str, Any]:
        """Return the response without secrets; headers with secret names are left out.

        A compressed body is decompressed; it is recorded uncompressed if it contained a secret. One
        that cannot be decompressed stays as it is.
        """
        headers, body = response.get("headers"), response.get("body")
        if not isinstance(headers, dict) or not isinstance(body, dict):
            # Recordings of httpx by vcrpy before 6.0; nothing is recorded like this any more.
            return response
        visible = {name: self._values(name, values) for name, values in headers.items()}
        visible = {name: values for name, values in visible.items() if not kind_of(name)}
        before = body.get("string")
        if not isinstance(before, bytes):
            return {**response, "headers": visible}
        visible, after = self._body(visible, before)
        return {**response, "headers": visible, "body": {**body, "string": after}}

    def _values(self, name: str, values: Any) -> Any:
        if isinstance(values, list | tuple):
            return [redacted_header(name, _text(value), self._redactor) for value in values]
        return redacted_header(name, _text(values), self._redactor)

    def _body(self, headers: Mapping[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        """Return headers and body without secrets; the headers fit the new body."""
        named = {name.lower(): value for name, value in headers.items()}
        try:
            (decoded_body,) = decoded([body], _first(named.get(_ENCODING)), is_whole=True)
        except NotDecodable:
            # It is uncompressed already, as vcrpy leaves it, or in an unknown encoding.
            decoded_body = body
        kind = (("content-type", _first(named.get("content-type"))),)
        answer = redacted_answer(HttpResponse(200, kind, (decoded_body,)), self._redactor)
        if answer == decoded_body:
            return dict(headers), body
        length = {name: [str(len(answer))] for name in headers if name.lower() == "content-length"}
        rest = {name: value for name, value in headers.items() if name.lower() != _ENCODING}
        return {**rest, **length}, answer


def _first(values: Any) -> str:
    """Return the first value of a header, which is a text or a list."""
    return ", ".join(map(_text, values)) if isinstance(values, list | tuple) else _text(values)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


# Options


Recorder = TypeVar("Recorder")
"""A `vcr.VCR`."""

_HOOKS: Final = ("before_record_request", "before_record_response")


class Setting(msgspec.Struct, frozen=True):
    """One configuration with its matchers and hooks."""

    suffix: str
    """The suffix of its matchers' names; empty for the default configuration."""
    matching: Matching
    hooks: Hooks

    @property
    def matcher(self) -> str:
        """Return the name of the matcher in a `vcr.VCR`."""
        return f"matches_model_request{self.suffix}"

    @property
    def nearest(self) -> str:
        """Return the name of the matcher that selects the recordings in vcrpy's error."""
        return f"is_nearest_recording{self.suffix}"


_SETTINGS: Final[dict[str, Setting]] = {}
"""All configurations that `register` registers, by suffix."""


def vcr_config(
    *,
    volatile: Iterable[str] = (),
    secrets: Iterable[str] = (),
    personal: Iterable[str] = (),
    **options: Any,
) -> dict[str, Any]:
    """Return options for `vcr.VCR`, and for the fixture ``vcr_config`` of pytest-recording.

    ``volatile`` are paths into bodies of model calls (``messages.*.name``) or ``/patterns/`` of
    text that differ each time; ``secrets`` names environment variables with values that must not be
    written; ``personal`` names personal data: ``email``, ``phone``. ``options`` are vcrpy's, and
    take precedence; hooks among them run before those that redact.

    The result has no ``record_mode`` unless it is given: pytest-recording records nothing by
    default, and a mode in its configuration would overrule ``--record-mode``. Raise
    ReferenceInvalid for an invalid path or pattern.
    """
    setting_ = setting(volatile, secrets, personal)
    settings: dict[str, Any] = {
        "match_on": ["method", setting_.matcher, setting_.nearest],
        "decode_compressed_response": True,
        **options,
    }
    for name in _HOOKS:
        theirs = options.get(name) or ()
        before = list(theirs) if isinstance(theirs, Iterable) else [theirs]
        settings[name] = [*before, getattr(setting_.hooks, name)]
    return settings


def register(vcr: Recorder) -> Recorder:
    """Make the matchers of every configuration known to a `vcr.VCR`, and return it.

    vcrpy registers matchers by name, on each object. simkit's pytest plugin does it for the objects
    of pytest-recording.
    """
    known: Any = vcr
    for hooks in _SETTINGS.values():
        known.register_matcher(hooks.matcher, hooks.matching.matches_model_request)
        known.register_matcher(hooks.nearest, hooks.matching.is_nearest_recording)
    return vcr


def setting(
    volatile: Iterable[str] = (), secrets: Iterable[str] = (), personal: Iterable[str] = ()
) -> Setting:
    """Return the matchers and hooks of a configuration; equal ones share them."""
    words = {"volatile": volatile, "secrets": secrets, "personal": personal}
    options = {name: _texts(name, texts) for name, texts in words.items()}
    for word in options["personal"]:
        if word not in PERSONAL:
            raise ValueError(f"personal: {word!r} is not known; known: {', '.join(PERSONAL)}")
    hidden = {os.environ.get(name, "") for name in options["secrets"]}
    hooks = _build_setting(**options, hidden=frozenset(hidden.union(secrets_of(os.environ))))
    _SETTINGS[hooks.suffix] = hooks
    return hooks


def _texts(name: str, texts: Iterable[str]) -> tuple[str, ...]:
    if isinstance(texts, str):
        raise TypeError(f"{name}: a list of texts is needed, not the text {texts!r}")
    return tuple(texts)


@lru_cache(maxsize=64)
def _build_setting(
    volatile: tuple[str, ...],
    secrets: tuple[str, ...],
    personal: tuple[str, ...],
    hidden: frozenset[str],
) -> Setting:
    """Build a configuration; ``hidden`` are the secret values in the environment."""
    redactor = Redactor(os.environ, secrets, personal)
    options = {"volatile": volatile, "secrets": secrets, "personal": personal}
    suffix = "".join(f" {name}={','.join(words)}" for name, words in options.items() if words)
    return Setting(suffix, Matching(Keying(redactor, volatile)), Hooks(redactor))


_PLAIN = setting()
matches_model_request = _PLAIN.matching.matches_model_request
is_nearest_recording = _PLAIN.matching.is_nearest_recording
before_record_request = _PLAIN.hooks.before_record_request
before_record_response = _PLAIN.hooks.before_record_response

__all__ = [
    "before_record_request",
    "before_record_response",
    "is_nearest_recording",
    "matches_model_request",
    "register",
    "vcr_config",
]
