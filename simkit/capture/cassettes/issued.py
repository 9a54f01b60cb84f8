"""Secrets that servers issue: cookies, session ids, tokens, which later requests contain.

They are not stored, and a request with one must be found in replay, where the client gets what is
stored. So a secret of a response is the same placeholder there and in all later requests, wherever
it is in them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from simkit.capture.cassettes.encodings import with_body
from simkit.core.redact import Redactor
from simkit.core.redact.names import is_guessable, kind_of
from simkit.providers.http import Headers, HttpRequest, HttpResponse

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
        body = self._bytes(response.body)
        return response if body == response.body else with_body(response, body)

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
