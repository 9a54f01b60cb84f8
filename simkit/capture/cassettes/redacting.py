"""Redaction of interactions: which headers are kept, and bodies with every secret replaced.

The same functions run on a recording, before its key is computed and before it is written, and on a
request in replay before its lookup, so that both get the same key.
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
"""Headers of requests that are recorded; all others are dropped."""
ADDRESSES: Final = frozenset(("content-location", "link", "location", "referer"))
"""Headers that hold URLs, with parameters that may be secret."""
RESPONSE_HEADERS: Final = frozenset(
    # Headers that clients act on: redirects, pages, file names, ranges.
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
    """Return the request with the recorded headers and without secrets."""
    return HttpRequest(
        request.method,
        redactor.url(request.url),
        _visible_headers(request.headers, REQUEST_HEADERS, redactor),
        redacted_body(request.body, redactor),
    )


def redacted_response(response: HttpResponse, redactor: Redactor) -> HttpResponse:
    """Return the response with the recorded headers and without secrets."""
    headers = _visible_headers(response.headers, RESPONSE_HEADERS, redactor)
    redacted = msgspec.structs.replace(response, headers=headers)
    return with_body(redacted, redacted_answer(response, redactor))


def redacted_answer(response: HttpResponse, redactor: Redactor) -> bytes:
    """Return a response's body with every secret replaced, also one that is split over events."""
    redact = redacted_events if is_stream(response) else redacted_lines
    return redact(response.body, redactor)


def redacted_body(body: bytes, redactor: Redactor) -> bytes:
    """Return a body with every secret replaced; without secrets, the same bytes."""
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
