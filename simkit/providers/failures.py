"""Names of provider failures in scenarios: one vocabulary for all drivers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec


class Failure(msgspec.Struct, frozen=True, gc=False):
    """One way in which a provider fails to answer."""

    status: int
    """The HTTP status; 0 if the connection fails first, 200 if the reply itself is broken."""
    message: str
    is_wire_only: bool = False
    """Whether only code that reads a provider's bytes can meet it."""


FAILURES: Final[Mapping[str, Failure]] = {
    "rate_limit": Failure(429, "Rate limit reached. Try again later."),
    "overloaded": Failure(529, "The provider is overloaded."),
    "server_error": Failure(500, "The provider had an error while processing the request."),
    "unavailable": Failure(503, "The provider is not available."),
    "authentication": Failure(401, "The API key is not valid."),
    "permission": Failure(403, "The API key does not have access to this model."),
    "not_found": Failure(404, "The model does not exist."),
    "invalid_request": Failure(400, "The request is not valid."),
    "context_overflow": Failure(400, "The context is longer than the model's context window."),
    "content_filter": Failure(400, "The request was stopped by the content filter."),
    "quota_exceeded": Failure(429, "The quota is used up."),
    "timeout": Failure(0, "The request timed out."),
    "connection": Failure(0, "The connection failed."),
    "refusal": Failure(200, "The model refused to answer."),
    "malformed_json": Failure(200, "The reply is not valid JSON."),
    "cut_stream": Failure(200, "The stream ended before the reply was complete."),
    "stall": Failure(200, "The stream stopped in the middle of the reply, and nothing more came."),
    "truncated": Failure(200, "The reply ended in the middle, without a reason to finish."),
    "malformed_frame": Failure(
        200, "A piece of the reply is not what the protocol says.", is_wire_only=True
    ),
    "empty_reply": Failure(200, "The reply has no content."),
    "empty_choices": Failure(200, "The reply has no choices.", is_wire_only=True),
    "length": Failure(200, "The reply was cut at the most tokens it may have."),
}

BROKEN_OFF: Final = ("cut_stream", "stall", "truncated")
"""Failures in which a client gets the beginning of a reply and never its end."""
