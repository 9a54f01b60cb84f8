"""Hooks: requests and responses that vcrpy keeps, without secrets in headers, bodies and streams.

The hooks run on recording, and again on each request and on a file's content, so that both sides
compare the same, as in simkit's own cassettes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vcr.request import Request

from simkit.capture.cassettes.encodings import NotDecodable, decoded
from simkit.capture.cassettes.redacting import REQUEST_HEADERS, redacted_answer, redacted_header
from simkit.core.redact import Redactor
from simkit.core.redact.names import kind_of
from simkit.providers.http import HttpResponse
from simkit.vcr.matching import body_of

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
        request.uri = self._redactor.url(request.uri)
        request.headers = {
            name: redacted_header(name, _text(value), self._redactor)
            for name, value in request.headers.items()
            if name.lower() in REQUEST_HEADERS
        }
        if isinstance(request.body, dict):
            request.body = self._redactor.value(request.body)
            return request
        before = body_of(request)
        after = self._redactor.line(before)
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
            (plain,) = decoded([body], _first(named.get(_ENCODING)), is_whole=True)
        except NotDecodable:
            # It is uncompressed already, as vcrpy leaves it, or in an unknown encoding.
            plain = body
        kind = (("content-type", _first(named.get("content-type"))),)
        answer = redacted_answer(HttpResponse(200, kind, (plain,)), self._redactor)
        if answer == plain:
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
