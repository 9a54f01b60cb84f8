"""Interactions without secrets: what is kept of headers, and bodies with every secret replaced.

The same functions are applied to what is recorded, before it is keyed and before it is written,
and to what is asked in replay before it is looked up, so that both sides know the same request.
"""

from __future__ import annotations

from typing import Final

import msgspec

from simkit.capture.cassettes.dialects import FRAMING
from simkit.capture.cassettes.encodings import with_body
from simkit.capture.cassettes.streams import redacted_events, redacted_lines
from simkit.capture.cassettes.values import Interaction
from simkit.core.redact import Redactor
from simkit.providers.http import Headers, HttpRequest, HttpResponse
from simkit.providers.sse import is_stream

REQUEST_HEADERS: Final = frozenset(
    ("accept", "anthropic-beta", "anthropic-version", "content-type", "openai-beta",
     "x-goog-api-client", "x-stainless-lang", "x-stainless-package-version")
)  # fmt: skip
"""Headers of requests that are recorded; every other one stays where it was sent."""
ADDRESSES: Final = frozenset(("content-location", "link", "location", "referer"))
"""Headers that hold URLs, in which parameters may be secret by their names."""
RESPONSE_HEADERS: Final = frozenset(
    # What clients act on: they follow redirects and pages, name files, ask for the rest of a file.
    ("content-disposition", "content-location", "content-range", "etag", "last-modified", "link",
     "location", "www-authenticate",
     "content-type", "request-id", "retry-after", "retry-after-ms", "x-request-id",
     "x-should-retry", "anthropic-ratelimit-requests-remaining",
     "anthropic-ratelimit-tokens-remaining", "x-ratelimit-remaining-requests",
     "x-ratelimit-remaining-tokens", "x-ratelimit-reset-requests", "x-ratelimit-reset-tokens")
)  # fmt: skip


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
    """Return the request with the headers that are recorded and without secrets."""
    return HttpRequest(
        request.method,
        redactor.url(request.url),
        _visible_headers(request.headers, REQUEST_HEADERS, redactor),
        redacted_body(request.body, redactor),
    )


def redacted_response(response: HttpResponse, redactor: Redactor) -> HttpResponse:
    """Return the response with the headers that are recorded and without secrets."""
    headers = _visible_headers(response.headers, RESPONSE_HEADERS, redactor)
    redacted = msgspec.structs.replace(response, headers=headers)
    return with_body(redacted, redacted_answer(response, redactor))


def redacted_answer(response: HttpResponse, redactor: Redactor) -> bytes:
    """Return a response's body with every secret replaced, those that a stream says in pieces."""
    redact = redacted_events if is_stream(response) else redacted_lines
    return redact(response.body, redactor)


def redacted_body(body: bytes, redactor: Redactor) -> bytes:
    """Return a body with every secret replaced; one without secrets as it is."""
    return redactor.line(body)


def redacted_header(name: str, value: str, redactor: Redactor) -> str:
    """Return a header's value with every secret replaced."""
    return redactor.url(value) if name.lower() in ADDRESSES else redactor.text(value)


def _visible_headers(headers: Headers, names: frozenset[str], redactor: Redactor) -> Headers:
    return tuple(
        (name.lower(), redacted_header(name, value, redactor))
        for name, value in headers
        if name.lower() in names and name.lower() not in FRAMING
    )
