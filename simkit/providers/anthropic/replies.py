"""Anthropic's messages: rendering of responses.

The events of a stream are those of the API reference, in its order: ``message_start``; for each
block a start, deltas and a stop, with a ``ping`` after the first start; ``message_delta`` with the
reason and the tokens; ``message_stop``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from simkit.core.messages import Fails, JsonValue, Message, Usage
from simkit.providers import sse
from simkit.providers.anthropic.blocks import blocks_said, input_text
from simkit.providers.attachments import queries, with_raw
from simkit.providers.failures import MALFORMED, Words
from simkit.providers.http import Headers, HttpResponse
from simkit.providers.skeleton import FailureWriter, broken_call, render, retry_headers
from simkit.providers.sse import pieces
from simkit.providers.values import JSON, OutgoingReply, ParsedRequest, empty_reply

Event = dict[str, Any]

OWN: Final[Mapping[str, Words]] = {
    "rate_limit": Words(
        429,
        "rate_limit_error",
        "This request would exceed your account's rate limit. Please try again later.",
    ),
    "overloaded": Words(529, "overloaded_error", "Overloaded"),
    "server_error": Words(500, "api_error", "Internal server error"),
    "unavailable": Words(503, "api_error", "Service temporarily unavailable"),
    "authentication": Words(401, "authentication_error", "invalid x-api-key"),
    "permission": Words(
        403,
        "permission_error",
        "Your API key does not have permission to use the specified resource.",
    ),
    "not_found": Words(404, "not_found_error", "model: {model}"),
    "invalid_request": Words(400, "invalid_request_error", ""),
    "context_overflow": Words(
        400, "invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum"
    ),
    "content_filter": Words(
        400, "invalid_request_error", "Output blocked by content filtering policy"
    ),
    "quota_exceeded": Words(
        402, "billing_error", "Your credit balance is too low to access the Anthropic API."
    ),
}
"""Failures with an error body: https://platform.claude.com/docs/en/api/errors."""


def served(reply: OutgoingReply, request: ParsedRequest) -> HttpResponse:
    """Render a reply, as a body or as the full event stream."""
    reason = reply.finish or ("tool_use" if reply.message.calls else "end_turn")
    if reply.finish == "length":
        reason = "max_tokens"
    stopped: Event = {"stop_reason": reason, "stop_sequence": None}
    if reason == "refusal":
        details = {"type": "refusal", "category": None, "explanation": reply.explanation}
        stopped["stop_details"] = details
    body: Event = {
        "id": f"msg_{reply.serial}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": blocks_said(reply.message, reply),
        **stopped,
        "usage": _usage(reply),
    }
    body = with_raw(body, reply)

    def frames() -> Iterator[bytes]:
        for event in _events(body, reply.chunks):
            yield sse.frame(event, event["type"])

    return render(body, frames, request, ("request-id", f"req_{reply.serial}"))


def _failed_in_stream(
    serial: str, fails: Fails, words: Words, request: ParsedRequest
) -> HttpResponse:
    started = served(empty_reply(serial), request)
    chunks = (started.chunks[0], sse.frame(_error(serial, fails, words), "error"))
    return HttpResponse(200, started.headers, chunks)


def _error(serial: str, _: Fails, words: Words) -> Event:
    error = {"type": words.type, "message": words.message}
    return {"type": "error", "error": error, "request_id": f"req_{serial}"}


def _error_headers(serial: str, fails: Fails) -> Headers:
    return (*JSON, ("request-id", f"req_{serial}"), *retry_headers(fails))


def _malformed(serial: str, request: ParsedRequest) -> OutgoingReply:
    """Break a call's arguments if a stream can send them broken, else the text."""
    message = Message("assistant", MALFORMED)
    if request.is_streamed:
        message = broken_call(serial, request, "toolu_")
    return OutgoingReply(serial, message, Usage(0, 0))


failed: Final = FailureWriter(
    words=OWN,
    served=served,
    malformed=_malformed,
    in_stream=_failed_in_stream,
    error=_error,
    headers=_error_headers,
).write


_STOPPED: Final = ("stop_reason", "stop_sequence", "stop_details", "container")
"""The fields of a message that a stream sends at its end."""


def _usage(reply: OutgoingReply) -> Event:
    """Return the token counts; here the input's exclude cached tokens."""
    usage, searches = reply.usage, len(queries(reply.extras.citations))
    read, cache_writes = usage.cached_tokens or 0, usage.cache_write_tokens or 0
    fields: Event = {
        "input_tokens": (usage.input_tokens or 0) - read - cache_writes,
        "cache_creation_input_tokens": cache_writes,
        "cache_read_input_tokens": read,
        "output_tokens": usage.output_tokens or 0,
        "service_tier": "standard",
    }
    if usage.reasoning_tokens:
        fields["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    if searches:
        fields["server_tool_use"] = {"web_search_requests": searches, "web_fetch_requests": 0}
    return fields


def _events(body: Event, chunks: tuple[int, ...] | int | None) -> Iterator[Event]:
    stopped = {key: body[key] for key in _STOPPED if key in body}
    message_start: Event = {
        **body,
        **{key: None for key in stopped},
        "content": [],
        "usage": {**body["usage"], "output_tokens": 0},
    }
    yield {"type": "message_start", "message": message_start}
    for index, block in enumerate(body["content"]):
        start, deltas = _started(block, chunks)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        if index == 0:
            yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    usage = {key: value for key, value in body["usage"].items() if key != "service_tier"}
    yield {"type": "message_delta", "delta": stopped, "usage": usage}
    yield {"type": "message_stop"}


def _started(
    block: dict[str, JsonValue], chunks: tuple[int, ...] | int | None
) -> tuple[Event, list[Event]]:
    """Return the start of a block in a stream, and the deltas that complete it."""
    match block["type"]:
        case "text":
            events_out = [
                {"type": "text_delta", "text": piece} for piece in pieces(block["text"], chunks)
            ]
            cited = block.get("citations")
            if not isinstance(cited, list):
                return {**block, "text": ""}, events_out
            events_out += [{"type": "citations_delta", "citation": citation} for citation in cited]
            return {**block, "text": "", "citations": []}, events_out
        case "tool_use" | "server_tool_use":
            texts = ["", *pieces(input_text(block), chunks)]
            events_out = [{"type": "input_json_delta", "partial_json": piece} for piece in texts]
            return {**block, "input": {}}, events_out
        case "thinking":
            thought, signature = block.get("thinking", ""), block.get("signature", "")
            events_out = [
                {"type": "thinking_delta", "thinking": piece} for piece in pieces(thought, chunks)
            ]
            events_out.append({"type": "signature_delta", "signature": signature})
            return {**block, "thinking": "", "signature": ""}, events_out
        case _:
            return block, []
