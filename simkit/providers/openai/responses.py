"""OpenAI's Responses (``POST /v1/responses``), as OpenAI and Azure speak them.

Source of the shapes: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from simkit.core.messages import Fails, JsonValue, Message, ToolCall
from simkit.providers import values
from simkit.providers.attachments import INSTRUCTIONS, REASONING, parts_in
from simkit.providers.body_reader import (
    Record,
    json_bytes,
    maybe,
    need,
    record_of,
    records,
    typed,
    under,
)
from simkit.providers.failures import broken
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.providers.openai import items
from simkit.providers.openai.items import error_in, fails_in, messages_of, reply_of
from simkit.providers.openai.responses_serving import failed, served
from simkit.providers.skeleton import posts_to, read_response

_READ: Final = {
    *("input", "instructions", "model", "previous_response_id", "stream", "text", "tool_choice"),
    "tools",
}
"""Keys that `ParsedRequest` has fields for; all other keys are settings."""


def _parse_request(request: HttpRequest) -> values.ParsedRequest:
    body = record_of(request.body)
    choice, allowed = _choice(body)
    output, text = _output(body)
    settings = {key: value for key, value in body.items() if key not in _READ}
    return values.ParsedRequest(
        protocol=PROTOCOL.name,
        # A stored prompt may give the model.
        model=maybe(body, "model", "") if body.get("prompt") else need(body, "model", str),
        messages=_messages(body),
        offers=tuple(o for tool, at in records(body, "tools") for o in _offers(tool, at)),
        choice=choice,
        output=output,
        settings={**settings, **allowed, **text},
        is_streamed=maybe(body, "stream", False),
        previous=maybe(body, "previous_response_id", "") or _conversation(body),
        hidden=_stored(body),
    )


def _stored(body: Record) -> str:
    """Return the stored prompt whose messages the provider puts before the input."""
    prompt = maybe(body, "prompt", dict[str, JsonValue]())
    return f"prompt {need(prompt, 'id', str, 'prompt')}" if prompt else ""


def _conversation(body: Record) -> str:
    """Return the conversation that the provider keeps, which is a chain of responses too."""
    conversation_id = body.get("conversation")
    if isinstance(conversation_id, dict):
        return need(conversation_id, "id", str, "conversation")
    return maybe(body, "conversation", "")


def _messages(body: Record) -> tuple[Message, ...]:
    messages = list[Message]()
    if instructions := maybe(body, INSTRUCTIONS, ""):
        messages.append(Message("system", instructions, section=INSTRUCTIONS))
    input = body.get("input")
    if isinstance(input, str):
        messages.append(Message("user", input))
    elif input is not None or not body.get("prompt"):
        need(body, "input", list)
        messages += messages_of(records(body, "input"))
    return tuple(messages)


def _offers(tool: Record, at: str) -> list[values.Offer]:
    kind = maybe(tool, "type", "function", at)
    if kind in ("function", "custom") and isinstance(tool.get(kind), dict) and "name" not in tool:
        # Some clients of compatible servers wrap the function as in chat completions.
        tool, at = need(tool, kind, dict, at), under(at, kind)
    description = maybe(tool, "description", "", at)
    if kind == "function":
        return [items.function_offer(tool, at, is_strict=True)]
    if kind == "custom":
        return [values.Offer(need(tool, "name", str, at), items.FREE_TEXT, description)]
    if kind == "namespace":
        return [o for inner, where in records(tool, "tools", at) for o in _offers(inner, where)]
    return [values.Offer(maybe(tool, "server_label", kind, at), None, description)]


def _choice(body: Record) -> tuple[str, dict[str, JsonValue]]:
    """Parse which tools may be called; a list of allowed tools stays a setting."""
    key = "tool_choice"
    choice = body.get(key)
    if choice is None or isinstance(choice, str):
        return "auto" if choice is None else choice, {}
    record = typed(choice, dict, key)
    kind = need(record, "type", str, key)
    if kind == "allowed_tools":
        return need(record, "mode", str, key), {key: record}
    inner = record.get(kind)
    name = maybe(inner if isinstance(inner, dict) else record, "name", "", key)
    return name or maybe(record, "server_label", kind, key), {}


def _output(body: Record) -> tuple[JsonValue, dict[str, JsonValue]]:
    """Parse the answer's schema, and the other settings under ``text``."""
    text = maybe(body, "text", dict[str, JsonValue]())
    rest = {key: value for key, value in text.items() if key != "format"}
    settings: dict[str, JsonValue] = {"text": rest} if rest else {}
    form, at = maybe(text, "format", dict[str, JsonValue](), "text"), under("text", "format")
    if not form:
        return None, settings
    kind = need(form, "type", str, at)
    if kind == "json_schema":
        return need(form, "schema", dict, at), settings
    return ({"type": "object"} if kind == "json_object" else None), settings


# OpenAI's Responses: building of requests


URL: Final = "https://api.openai.com/v1/responses"


def build_request(request: values.ParsedRequest) -> HttpRequest:
    """Build the request; parsing it gives the same values again.

    A reply's calls are items after its text: a message with calls only, after one with text,
    becomes part of that.
    """
    first, rest = request.messages[:1], request.messages
    body: dict[str, Any] = {"model": request.model}
    if first and first[0].role == "system" and first[0].content:
        body[INSTRUCTIONS], rest = first[0].content, request.messages[1:]
    body["input"] = [item for message in rest for item in _items(message)]
    body.update(request.settings)
    if request.offers:
        body["tools"] = [_tool(offer) for offer in request.offers]
    if request.choice in ("none", "required"):
        body["tool_choice"] = request.choice
    elif request.choice != "auto":
        body["tool_choice"] = {"type": "function", "name": request.choice}
    if request.output is not None:
        form = {"type": "json_schema", "name": values.OUTPUT_NAME, "schema": request.output}
        text = request.settings.get("text")
        body["text"] = {**(text if isinstance(text, Mapping) else {}), "format": form}
    if request.is_streamed:
        body["stream"] = True
    return HttpRequest("POST", URL, values.JSON, json_bytes(body))


def _items(message: Message) -> Iterator[Mapping[str, Any]]:
    if message.role == "tool":
        yield {
            "type": "function_call_output",
            "call_id": message.call_id,
            "output": message.content,
        }
        return
    if message.role == "assistant":
        yield from parts_in(message, REASONING)
    if message.content or not message.calls:
        yield {"role": message.role, "content": message.content}
    yield from map(_call, message.calls)


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": items.arguments_text(call),
    }


def _tool(offer: values.Offer) -> dict[str, Any]:
    if offer.schema == items.FREE_TEXT:
        return {"type": "custom", **offer.described}
    # Unlike chat completions, Responses treat a schema as strict by default.
    return {
        "type": "function",
        **offer.described,
        "parameters": offer.schema,
        "strict": offer.strict,
    }


# OpenAI's Responses: parsing of responses


_LAST: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_REASONS: Final = {"max_output_tokens": "length"}


def parse_response(response: HttpResponse, request: values.ParsedRequest) -> values.ParsedResponse:
    """Parse a response, streamed or not, complete or cut; raise WireInvalid for an invalid one."""
    return items.checked(read_response(response, _Reply(), error_in), request)


def _parse_body(body: Record, at: str, streamed: Message) -> values.ParsedResponse:
    """Parse a response object; some servers send the output only as events of the stream."""
    message = reply_of(records(body, "output", at)) if body.get("output") else streamed
    error = body.get("error")
    return values.ParsedResponse(
        message,
        items.usage_of(body, at, "input", "output"),
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


class _Reply:
    """The items of a reply as they come."""

    def __init__(self) -> None:
        self._items = dict[int, tuple[Record, str]]()
        self._pieces = dict[int, dict[str, list[str]]]()
        self._id = ""
        self._error: Fails | None = None
        self._whole: values.ParsedResponse | None = None
        """The reply of the body, or of the last event."""

    def read_body(self, body: Record, status: int) -> None:
        """Read a complete response."""
        if body.get("error") is None:
            need(body, "output", list)
        self._whole = _parse_body(body, "", self.message())

    def read_event(self, body: Record, event: str, at: str, status: int) -> bool:
        """Read one event; events without a part of an item are ignored."""
        kind = maybe(body, "type", event, at)
        if kind in _LAST:
            response = need(body, "response", dict, at)
            self._whole = _parse_body(response, under(at, "response"), self.message())
        elif kind == "error" or body.get("error"):
            self._error = fails_in(body.get("error") or body, 200)
        elif kind == "response.created":
            self._id = maybe(need(body, "response", dict, at), "id", "", under(at, "response"))
        elif kind in ("response.output_item.added", "response.output_item.done"):
            index = need(body, "output_index", int, at)
            self._items[index] = (need(body, "item", dict, at), under(at, "item"))
            if kind == "response.output_item.done":
                self._pieces.pop(index, None)
        elif (key := _DELTAS.get(kind)) is not None:
            pieces = self._pieces.setdefault(need(body, "output_index", int, at), {})
            pieces.setdefault(key, []).append(need(body, "delta", str, at))
        return self._whole is not None or self._error is not None

    def parse(self, ends: str, *, is_done: bool) -> values.ParsedResponse:
        """Return the reply as far as it has arrived."""
        if self._whole is not None:
            error = self._whole.error or broken(ends, is_whole=True)
            return msgspec.structs.replace(self._whole, error=error)
        error = self._error or broken(ends, is_whole=False)
        return values.ParsedResponse(self.message(), None, "", self._id, error)

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


PROTOCOL: Final = values.Protocol(
    name="openai-responses",
    variables={"OPENAI_BASE_URL": "{url}/v1", "AZURE_OPENAI_ENDPOINT": "{url}"},
    keys=("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY"),
    speaks=posts_to("/responses"),
    parse_request=_parse_request,
    build_request=build_request,
    served=served,
    failed=failed,
    parse_response=parse_response,
    call_prefix="call_",
    keeps_conversations=True,
)
