"""Failures of OpenAI's interfaces: status, headers and body of each, and their parsing.

Source: https://platform.openai.com/docs/guides/error-codes, and errors in logs of clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simkit.core.errors import WireInvalid
from simkit.core.messages import Fails, JsonValue, Message, ToolCall, Usage
from simkit.core.text import short
from simkit.providers.body_reader import Record, json_bytes, json_text, record_of
from simkit.providers.failures import (
    MALFORMED,
    ON_THE_WAY,
    Words,
    seconds_of,
    seconds_text,
    worded,
)
from simkit.providers.http import Headers, HttpResponse, header
from simkit.providers.values import OutgoingReply, ParsedRequest

_REQUEST: Final = "invalid_request_error"

OWN: Final[Mapping[str, Words]] = {
    "rate_limit": Words(429, "requests", "Rate limit reached for {model}. Please try again later."),
    # OpenAI has no 529: an overload is a 503.
    "overloaded": Words(503, "server_error", "The engine is currently overloaded."),
    "server_error": Words(
        500, "server_error", "The server had an error while processing your request."
    ),
    "unavailable": Words(503, "server_error", "The server is temporarily unable to serve you."),
    "authentication": Words(401, _REQUEST, "Incorrect API key provided."),
    "permission": Words(403, _REQUEST, "You do not have access to model `{model}`."),
    "not_found": Words(404, _REQUEST, "The model `{model}` does not exist."),
    "invalid_request": Words(400, _REQUEST, ""),
    "context_overflow": Words(
        400, _REQUEST, "This model's maximum context length is exceeded. Please shorten the input."
    ),
    "content_filter": Words(
        400, _REQUEST, "The response was filtered due to the prompt triggering a content policy."
    ),
    "quota_exceeded": Words(429, "insufficient_quota", "You exceeded your current quota."),
}
_CODES: Final[Mapping[str, str | None]] = {
    "rate_limit": "rate_limit_exceeded",
    "overloaded": "server_is_overloaded",
    "server_error": None,
    "unavailable": None,
    "authentication": "invalid_api_key",
    "permission": "model_not_found",
    "not_found": "model_not_found",
    "invalid_request": None,
    "context_overflow": "context_length_exceeded",
    "content_filter": "content_filter",
    "quota_exceeded": "insufficient_quota",
}
_KINDS_BY_CODE: Final[Mapping[str, str]] = {
    "bio_policy": "content_filter",
    "content_filter": "content_filter",
    "content_policy_violation": "content_filter",
    "context_length_exceeded": "context_overflow",
    "engine_overloaded": "overloaded",
    "image_content_policy_violation": "content_filter",
    "insufficient_quota": "quota_exceeded",
    "invalid_api_key": "authentication",
    "invalid_prompt": "content_filter",
    "misalignment_policy_violation": "content_filter",
    "rate_limit_exceeded": "rate_limit",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
}
_KINDS_BY_STATUS: Final[Mapping[int, str]] = {
    401: "authentication",
    403: "permission",
    404: "not_found",
    408: "timeout",
    429: "rate_limit",
    500: "server_error",
    502: "unavailable",
    503: "unavailable",
    504: "unavailable",
    529: "overloaded",
}


def error_body(
    fails: Fails, request: ParsedRequest, context_field: str
) -> tuple[int, dict[str, JsonValue]]:
    """Return a failure's status and its body."""
    words = worded(fails, OWN, request.model)
    param = context_field if fails.kind == "context_overflow" else None
    code = _CODES.get(fails.kind, fails.kind)
    return words.status, {
        "message": words.message,
        "type": words.type,
        "param": param,
        "code": code,
    }


def refused(serial: str, fails: Fails, request: ParsedRequest, context_field: str) -> HttpResponse:
    """Render a failure before a reply; ``context_field`` is the field that holds the context.

    OpenAI's clients do not retry unless the script says when.
    """
    status, error = error_body(fails, request, context_field)
    retry = ("x-should-retry", "false")
    if fails.retry_after is not None:
        retry = ("retry-after", seconds_text(fails.retry_after))
    headers = (("content-type", "application/json"), ("x-request-id", f"req_{serial}"), retry)
    return HttpResponse(status, headers, (json_bytes({"error": error}),))


def broken_reply(serial: str, fails: Fails, request: ParsedRequest) -> OutgoingReply | None:
    """Return the broken reply of a failure; None for a failure without a reply.

    Its text is the failure's message. A reply that is damaged on the way is still complete here.
    """
    message, finish = Message("assistant", fails.message), ""
    if fails.kind == "refusal":
        message = Message("assistant", fails.message, data={"refusal": fails.message})
        finish = "refusal"
    elif fails.kind == "malformed_json":
        message = _malformed(serial, request)
    elif fails.kind in ("empty_reply", "empty_choices"):
        message = Message("assistant")
    elif fails.kind == "length":
        finish = "length"
    elif fails.kind not in ON_THE_WAY:
        return None
    return OutgoingReply(serial, message, Usage(0, 0), finish=finish)


def _malformed(serial: str, request: ParsedRequest) -> Message:
    """Break the output if the request asks for one, else a call's arguments, else the text."""
    functions = [offer.name for offer in request.offers if offer.schema is not None]
    if request.output is not None or not functions or request.choice == "none":
        return Message("assistant", MALFORMED)
    name = request.choice if request.choice in functions else functions[0]
    return Message("assistant", calls=(ToolCall(f"call_{serial}", name, MALFORMED),))


def fails_of(response: HttpResponse) -> Fails:
    """Parse a response with an error status; its body may be anything."""
    try:
        body = record_of(response.body)
    except WireInvalid:
        text = short(response.body.decode("utf-8", "replace"), 200)
        body = {"message": text or f"HTTP status {response.status}"}
    # Compatible servers also send {"error": "…"}, {"message": "…"} and {"detail": "…"}.
    after = _retry_after(response.headers)
    return fails_in(body.get("error") or body, response.status, after)


def fails_in(error: JsonValue, status: int, retry_after: float | None = None) -> Fails:
    """Parse an error body, or an error inside a stream."""
    record: Record = error if isinstance(error, dict) else {"message": error}
    message = record.get("message") or record.get("detail")
    text = message if isinstance(message, str) else json_text(message or record)
    for word in (record.get("code"), record.get("type")):
        if isinstance(word, str) and word in _KINDS_BY_CODE:
            return Fails(_KINDS_BY_CODE[word], status, text, retry_after)
    default = "invalid_request" if 400 <= status < 500 else "server_error"
    return Fails(_KINDS_BY_STATUS.get(status, default), status, text, retry_after)


def _retry_after(headers: Headers) -> float | None:
    milliseconds = seconds_of(header(headers, "retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    return seconds_of(header(headers, "retry-after"))
