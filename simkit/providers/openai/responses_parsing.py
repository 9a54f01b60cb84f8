"""OpenAI's Responses: parsing of responses."""

from __future__ import annotations

from typing import Any, Final

from simkit.core.messages import Fails, JsonValue, Message, Usage
from simkit.providers import sse
from simkit.providers.body_reader import Record, maybe, need, record_of, records, under
from simkit.providers.failing import broken
from simkit.providers.http import HttpResponse
from simkit.providers.openai.errors import fails_in, fails_of
from simkit.providers.openai.items import reply_of
from simkit.providers.openai.parts import checked, usage_of
from simkit.providers.values import ParsedRequest, ParsedResponse

_LAST: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_REASONS: Final = {"max_output_tokens": "length"}


def parse_response(response: HttpResponse, request: ParsedRequest) -> ParsedResponse:
    """Parse a response, streamed or not, complete or cut; raise WireInvalid for an invalid one."""
    if response.status >= 400:
        return ParsedResponse(Message("assistant"), error=fails_of(response))
    if sse.is_stream(response):
        parsed = _heard_stream(response)
    elif response.ends:
        return ParsedResponse(Message("assistant"), error=broken(response.ends, is_whole=False))
    else:
        body = record_of(response.body)
        if body.get("error") is None:
            need(body, "output", list)
        parsed = _parse_body(body, "", None)
    return parsed if parsed.error else checked(parsed, request)


def _parse_body(body: Record, at: str, streamed: Message | None) -> ParsedResponse:
    """Parse a response object; some servers send the output only as events of the stream."""
    message = reply_of(records(body, "output", at))
    if streamed is not None and not body.get("output"):
        message = streamed
    usage = maybe(body, "usage", dict[str, JsonValue](), at)
    error = body.get("error")
    return ParsedResponse(
        message,
        _usage(usage, under(at, "usage")) if usage else None,
        _finish(body, message, at),
        maybe(body, "id", "", at),
        fails_in(error, 200) if error else None,
    )


def _finish(body: Record, message: Message, at: str) -> str:
    if isinstance(message.data, dict) and message.data.get("refusal") == message.content != "":
        return "refusal"
    status = maybe(body, "status", "completed", at)
    if status == "completed":
        return ""
    details = maybe(body, "incomplete_details", dict[str, JsonValue](), at)
    reason = maybe(details, "reason", status, under(at, "incomplete_details"))
    return _REASONS.get(reason, reason)


def _usage(usage: Record, at: str) -> Usage:
    return usage_of(usage, at, "input", "output")


def _heard_stream(response: HttpResponse) -> ParsedResponse:
    output, response_id = _Output(), ""
    for number, (event, data) in enumerate(sse.events(response.body)):
        if data.startswith(sse.DONE):
            break
        at = f"events[{number}]"
        body = record_of(data, at)
        kind = maybe(body, "type", event, at)
        if kind in _LAST:
            place = under(at, "response")
            return _parse_body(need(body, "response", dict, at), place, output.message())
        if kind == "error" or body.get("error"):
            error = fails_in(body.get("error") or body, 200)
            return ParsedResponse(output.message(), None, "", response_id, error)
        if kind == "response.created":
            response_id = maybe(need(body, "response", dict, at), "id", "", under(at, "response"))
        output.take(body, kind, at)
    return _broken(output, response_id, broken(response.ends, is_whole=False))


def _broken(output: _Output, response_id: str, error: Fails | None) -> ParsedResponse:
    return ParsedResponse(output.message(), None, "", response_id, error)


class _Output:
    """The items of a stream as they come."""

    def __init__(self) -> None:
        self._items = dict[int, tuple[Record, str]]()
        self._pieces = dict[int, dict[str, list[str]]]()

    def take(self, body: Record, kind: str, at: str) -> None:
        """Process an event; events without a part of an item are ignored."""
        if kind in ("response.output_item.added", "response.output_item.done"):
            index = need(body, "output_index", int, at)
            self._items[index] = (need(body, "item", dict, at), under(at, "item"))
            if kind == "response.output_item.done":
                self._pieces.pop(index, None)
        elif (key := _DELTAS.get(kind)) is not None:
            pieces = self._pieces.setdefault(need(body, "output_index", int, at), {})
            pieces.setdefault(key, []).append(need(body, "delta", str, at))

    def message(self) -> Message:
        """Return the message that the items make, complete or not."""
        texts = []
        for index in sorted(self._items):
            item, at = self._items[index]
            texts.append((_completed(item, self._pieces.get(index, {})), at))
        return reply_of(texts)


_DELTAS: Final = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
}


def _completed(item: Record, pieces: dict[str, list[str]]) -> Record:
    """Return an opened item with the pieces that came for it."""
    item_: dict[str, Any] = dict(item)
    for key, texts in pieces.items():
        text = "".join(texts)
        if key == "text":
            item_["content"] = [{"type": "output_text", "text": text}]
        elif key == "refusal":
            item_["content"] = [{"type": "refusal", "refusal": text}]
        else:
            item_[key] = text
    return item_
