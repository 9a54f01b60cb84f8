"""Gemini's generateContent: parsing of responses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from simkit.core.errors import WireInvalid
from simkit.core.messages import Fails, Message, Usage
from simkit.core.text import short
from simkit.providers import attachments as extra
from simkit.providers import failing, sse
from simkit.providers.body_reader import Record, maybe, need, record_of, records, typed, under
from simkit.providers.gemini.parts import Numbered, Placed, model_of, parts_of
from simkit.providers.http import HttpResponse, header
from simkit.providers.values import ParsedRequest, ParsedResponse

_FINISHES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("", "STOP", "FINISH_REASON_UNSPECIFIED"), ""),
    **dict.fromkeys(("SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII"), "refusal"),
    **dict.fromkeys(("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "MODEL_ARMOR"), "refusal"),
    "MAX_TOKENS": "length",
}
"""Finish reasons with a name of simkit's; others keep theirs, in lower case."""

_KINDS: Final[Mapping[str, str]] = {
    "DEADLINE_EXCEEDED": "unavailable",
    "FAILED_PRECONDITION": "invalid_request",
    "INTERNAL": "server_error",
    "INVALID_ARGUMENT": "invalid_request",
    "NOT_FOUND": "not_found",
    "PERMISSION_DENIED": "permission",
    "RESOURCE_EXHAUSTED": "rate_limit",
    "UNAUTHENTICATED": "authentication",
    "UNAVAILABLE": "unavailable",
}
_ERROR_KINDS: Final[Mapping[str, str]] = {
    "API key not valid": "authentication",
    "current quota": "quota_exceeded",
    "is overloaded": "overloaded",
    "exceeds the maximum number of tokens": "context_overflow",
}
"""Errors without a status of their own, recognized by their words."""


def parse_response(response: HttpResponse, request: ParsedRequest) -> ParsedResponse:
    """Parse a response, streamed or not, complete or cut; raise WireInvalid for an invalid one."""
    try:
        if response.status >= 400:
            return ParsedResponse(Message("assistant"), error=_refused(response))
        return _parse_body(response, Numbered(sum(len(m.calls) for m in request.messages)))
    except RecursionError:
        raise WireInvalid("is nested too deep", "body") from None


def _parse_body(response: HttpResponse, calls: Numbered) -> ParsedResponse:
    body = response.body
    is_events = "event-stream" in header(response.headers, "content-type")
    if is_events or body.startswith(b"data:"):
        stream = _Stream()
        for number, (_, data) in enumerate(sse.events(body)):
            at = f"events[{number}]"
            stream.add(record_of(data, at), at, response.status)
        return stream.parse(response.ends, stream.is_stopped, calls)
    if body.lstrip().startswith(b"["):
        listed, is_ended = _listed(body)
        stream = _Stream()
        for number, record in enumerate(listed):
            stream.add(record, f"body[{number}]", response.status)
        return stream.parse(response.ends, is_ended and stream.is_stopped, calls)
    try:
        record = record_of(body)
    except WireInvalid:
        error = failing.broken(response.ends, is_whole=True)
        if error is None:
            raise
        return ParsedResponse(Message("assistant"), error=error)
    whole = _Stream()
    whole.add(record, "", response.status)
    return whole.parse(response.ends, True, calls)


def _listed(body: bytes) -> tuple[list[Record], bool]:
    """Return the responses in a list, and whether the list is complete."""
    text, records = body.decode("utf-8", "replace").strip(), list[Record]()
    place, decode = 1, json.JSONDecoder().raw_decode
    while True:
        place += len(text) - place - len(text[place:].lstrip(" \t\r\n,"))
        if place >= len(text) or text[place] == "]":
            return records, place < len(text)
        try:
            value, place = decode(text, place)
        except ValueError:
            return records, False
        records.append(typed(value, dict, f"body[{len(records)}]"))


class _Stream:
    """The response that the parts of a stream make together."""

    def __init__(self) -> None:
        self._parts: list[Placed] = []
        self._reason = self._why = self._id = ""
        self._is_blocked = False
        self._usage: Usage | None = None
        self._error: Fails | None = None

    @property
    def is_stopped(self) -> bool:
        """Return whether a finish reason has come."""
        return bool(self._reason) or self._is_blocked

    def add(self, body: Record, at: str, status: int) -> None:
        """Add one response."""
        if "error" in body:
            self._error = _error(body, status)
            return
        self._usage = _usage(body, at) or self._usage
        self._id = maybe(body, "responseId", "", at) or self._id
        feedback = maybe(body, "promptFeedback", dict[str, Any](), at)
        if maybe(feedback, "blockReason", "", under(at, "promptFeedback")):
            self._is_blocked = True
            self._why = maybe(feedback, "blockReasonMessage", "", under(at, "promptFeedback"))
        for candidate, place in records(body, "candidates", at)[:1]:
            content = maybe(candidate, "content", dict[str, Any](), place)
            self._parts += parts_of(content, under(place, "content"))
            self._reason = maybe(candidate, "finishReason", "", place) or self._reason
            self._why = maybe(candidate, "finishMessage", "", place) or self._why

    def parse(self, ends: str, is_whole: bool, calls: Numbered) -> ParsedResponse:
        """Return the parsed response of all parts."""
        error = self._error or failing.broken(ends, is_whole)
        if self._reason == "MALFORMED_FUNCTION_CALL" and error is None:
            error = failing.malformed(self._why)
        if not (self._parts or self.is_stopped or self._usage or error):
            raise WireInvalid("is missing", "candidates")
        finish = _FINISHES.get(self._reason, self._reason.lower())
        if self._is_blocked:
            finish = "content_filter"
        message = _explained(model_of(self._parts, calls), finish, self._why)
        return ParsedResponse(message, usage=self._usage, finish=finish, id=self._id, error=error)


def _explained(message: Message, finish: str, why: str) -> Message:
    """Add why the model refused; without other text, the reason is the content too."""
    if not why or message.content or finish not in ("refusal", "content_filter"):
        return message
    return msgspec.structs.replace(message, content=why, data={extra.REFUSAL: why})


def _usage(body: Record, at: str) -> Usage | None:
    counted = maybe(body, "usageMetadata", dict[str, Any](), at)
    if not counted:
        return None
    input_tokens, output_tokens, thought, cached = (
        maybe(counted, f"{key}TokenCount", 0, "usageMetadata")
        for key in ("prompt", "candidates", "thoughts", "cachedContent")
    )
    return Usage(input_tokens, output_tokens + thought, cached or None, None, thought or None)


def _refused(response: HttpResponse) -> Fails:
    """Parse a response with an error status: a list in a stream, anything from a proxy."""
    body = response.body.strip()
    if body.startswith(b"["):
        body = body[1:].removesuffix(b"]")
    try:
        fails = _error(record_of(body), response.status)
    except WireInvalid:
        text = short(response.body.decode("utf-8", "replace"), 200)
        kind = failing.kind_of_status(response.status)
        fails = Fails(kind, response.status, text or f"HTTP status {response.status}")
    if fails.retry_after is None:
        after = failing.seconds_of(header(response.headers, "retry-after"))
        fails = msgspec.structs.replace(fails, retry_after=after)
    return fails


def _error(body: Record, status: int) -> Fails:
    error = need(body, "error", dict)
    message = need(error, "message", str, "error")
    word = maybe(error, "status", "", "error")
    kind = _KINDS.get(word, word or failing.kind_of_status(status))
    kind = next((kind_ for words, kind_ in _ERROR_KINDS.items() if words in message), kind)
    return Fails(kind, status, message, _delay(error))


def _delay(error: Record) -> float | None:
    """Return the seconds after which the error's details ask for a retry."""
    for detail, at in records(error, "details", "error"):
        if maybe(detail, "@type", "", at).endswith("RetryInfo"):
            return failing.seconds_of(maybe(detail, "retryDelay", "", at))
    return None
