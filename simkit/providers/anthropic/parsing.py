"""Anthropic's messages: parsing of responses."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from simkit.core.errors import WireInvalid
from simkit.core.messages import Fails, Message, Usage
from simkit.core.text import short
from simkit.providers import attachments as extra
from simkit.providers import failing, sse
from simkit.providers.anthropic.blocks import assistant_of, blocks_of
from simkit.providers.body_reader import Record, maybe, need, record_of, under
from simkit.providers.http import HttpResponse, header
from simkit.providers.values import ParsedRequest, ParsedResponse

_FINISHES: Final = {
    **dict.fromkeys(("", "end_turn", "tool_use", "stop_sequence"), ""),
    **dict.fromkeys(("max_tokens", "model_context_window_exceeded"), "length"),
}
"""Finish reasons with a name of simkit's; others keep theirs."""

_KINDS: Final = {
    "authentication_error": "authentication",
    "billing_error": "quota_exceeded",
    "invalid_request_error": "invalid_request",
    "not_found_error": "not_found",
    "overloaded_error": "overloaded",
    "permission_error": "permission",
    "rate_limit_error": "rate_limit",
    "request_too_large": "invalid_request",
    "timeout_error": "unavailable",
}
_ERROR_KINDS: Final = {
    "prompt is too long": "context_overflow",
    "exceed context limit": "context_overflow",
    "content filtering policy": "content_filter",
    "credit balance": "quota_exceeded",
    "usage limits": "quota_exceeded",
}
"""Errors without a type of their own, recognized by their words."""


def parse_response(response: HttpResponse, _: ParsedRequest) -> ParsedResponse:
    """Parse a response, streamed or not, complete or cut; raise WireInvalid for an invalid one."""
    try:
        return _parse_body(response)
    except RecursionError:
        raise WireInvalid("is nested too deep", "body") from None


def _parse_body(response: HttpResponse) -> ParsedResponse:
    body = response.body
    if response.status >= 400:
        return ParsedResponse(Message("assistant"), error=_refused(response))
    if "event-stream" in header(response.headers, "content-type") or body.startswith(b"event:"):
        return _streamed(response)
    try:
        record = record_of(body)
    except WireInvalid:
        error = failing.broken(response.ends, is_whole=True)
        if error is None:
            raise
        return ParsedResponse(Message("assistant"), error=error)
    if record.get("type") == "error":
        return ParsedResponse(Message("assistant"), error=_error(record, response.status))
    need(record, "content", list)
    return _parse_message(record, failing.broken(response.ends, is_whole=True))


def _parse_message(record: Record, error: Fails | None) -> ParsedResponse:
    """Parse a message, complete or as far as it came."""
    message = assistant_of(blocks_of(record, ""))
    finish = maybe(record, "stop_reason", "")
    if finish == "refusal":
        message = _refusal(record, message)
    usage = maybe(record, "usage", dict[str, Any]())
    return ParsedResponse(
        message,
        usage=_usage(usage) if usage else None,
        finish=_FINISHES.get(finish, finish),
        id=maybe(record, "id", ""),
        error=error,
    )


def _refusal(record: Record, message: Message) -> Message:
    """Add why the model refused; without other text, the reason is the content too."""
    details = maybe(record, "stop_details", dict[str, Any]())
    why = maybe(details, "explanation", "", "stop_details")
    if not why or message.content:
        return message
    return msgspec.structs.replace(message, content=why, data={extra.REFUSAL: why})


def _usage(usage: Record) -> Usage:
    """Parse the token counts; the provider's ``input_tokens`` exclude cached ones."""
    read = _tokens(usage, "cache_read_input_tokens") or 0
    cache_writes = _tokens(usage, "cache_creation_input_tokens") or 0
    input_tokens = _tokens(usage, "input_tokens")
    details = maybe(usage, "output_tokens_details", dict[str, Any](), "usage")
    return Usage(
        None if input_tokens is None else input_tokens + read + cache_writes,
        _tokens(usage, "output_tokens"),
        read or None,
        cache_writes or None,
        _tokens(details, "thinking_tokens") or None,
    )


def _tokens(usage: Record, key: str) -> int | None:
    return need(usage, key, int, "usage") if usage.get(key) is not None else None


def _refused(response: HttpResponse) -> Fails:
    """Parse a response with an error status; a proxy's body may be anything."""
    try:
        fails = _error(record_of(response.body), response.status)
    except WireInvalid:
        text = short(response.body.decode("utf-8", "replace"), 200)
        fails = _fails("", text or f"HTTP status {response.status}", response.status)
    after = failing.seconds_of(header(response.headers, "retry-after"))
    return msgspec.structs.replace(fails, retry_after=after)


def _error(record: Record, status: int) -> Fails:
    error = need(record, "error", dict)
    return _fails(need(error, "type", str, "error"), need(error, "message", str, "error"), status)


def _fails(type: str, message: str, status: int) -> Fails:
    for words, kind in _ERROR_KINDS.items():
        if words in message and type in ("invalid_request_error", "rate_limit_error"):
            return Fails(kind, status, message)
    if type in ("", "api_error"):
        return Fails(failing.kind_of_status(status), status, message)
    return Fails(_KINDS.get(type, type), status, message)


class _Stream:
    """A message, built from the events of a stream."""

    def __init__(self) -> None:
        self.message: dict[str, Any] = {}
        self.error: Fails | None = None
        self.is_over = False
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, str] = {}

    def add(self, event: Record, at: str, status: int) -> None:
        """Process one event; unknown kinds are ignored, as the API reference asks."""
        match need(event, "type", str, at):
            case "message_start":
                self.message = {**need(event, "message", dict, at), "content": []}
            case "content_block_start":
                index = need(event, "index", int, at)
                self._blocks[index] = dict(need(event, "content_block", dict, at))
            case "content_block_delta":
                self._extend(event, at)
            case "message_delta":
                self._finish(event, at)
            case "message_stop":
                self.is_over = True
            case "error":
                self.error = _error(event, status)

    def _extend(self, event: Record, at: str) -> None:
        index, delta = need(event, "index", int, at), need(event, "delta", dict, at)
        block, place = self._blocks.get(index), under(at, "delta")
        if block is None:
            raise WireInvalid(f"is {index}, which no block has that began", under(at, "index"))
        match need(delta, "type", str, place):
            case "input_json_delta":
                piece = need(delta, "partial_json", str, place)
                self._inputs[index] = self._inputs.get(index, "") + piece
            case "text_delta":
                block["text"] = maybe(block, "text", "", at) + need(delta, "text", str, place)
            case "thinking_delta":
                thought = need(delta, "thinking", str, place)
                block["thinking"] = maybe(block, "thinking", "", at) + thought
            case "compaction_delta":
                block["content"] = delta.get("content")
            case "signature_delta":
                block["signature"] = need(delta, "signature", str, place)
            case "citations_delta":
                cited = maybe(block, "citations", list[Any](), at)
                block["citations"] = [*cited, delta.get("citation")]

    def _finish(self, event: Record, at: str) -> None:
        delta = need(event, "delta", dict, at)
        usage = maybe(self.message, "usage", dict[str, Any]())
        counted = maybe(event, "usage", dict[str, Any](), at)
        known = {key: value for key, value in counted.items() if value is not None}
        self.message = {**self.message, **delta, "usage": {**usage, **known}}

    def blocks(self) -> list[dict[str, Any]]:
        """Return the blocks, including unfinished ones."""
        for index, text in self._inputs.items():
            if text:
                self._blocks[index]["input"] = _input(text)
        return [self._blocks[index] for index in sorted(self._blocks)]


def _input(text: str) -> Any:
    """Parse a call's arguments; a text that is no JSON object stays a text."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def _streamed(response: HttpResponse) -> ParsedResponse:
    stream = _Stream()
    for number, (_, data) in enumerate(sse.events(response.body)):
        at = f"events[{number}]"
        stream.add(record_of(data, at), at, response.status)
    error = stream.error or failing.broken(response.ends, stream.is_over)
    if not stream.message and error is None:
        raise WireInvalid("has no `message_start`", "body")
    return _parse_message({**stream.message, "content": stream.blocks()}, error)
