"""OpenAI's chat completions: building of requests."""

from __future__ import annotations

from typing import Any, Final

from simkit.core.messages import Message, ToolCall
from simkit.providers.body_reader import json_bytes
from simkit.providers.http import HttpRequest
from simkit.providers.openai.parts import FREE_TEXT, arguments_text
from simkit.providers.values import JSON, OUTPUT_NAME, Offer, ParsedRequest

URL: Final = "https://api.openai.com/v1/chat/completions"


def build_request(request: ParsedRequest) -> HttpRequest:
    """Build the request; parsing it gives the same values again."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [_message(message) for message in request.messages],
        **request.settings,
    }
    if request.offers:
        body["tools"] = [_tool(offer) for offer in request.offers]
    if request.choice in ("none", "required"):
        body["tool_choice"] = request.choice
    elif request.choice != "auto":
        body["tool_choice"] = {"type": "function", "function": {"name": request.choice}}
    if request.output is not None:
        form = {"name": OUTPUT_NAME, "schema": request.output}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    if request.is_streamed:
        body["stream"] = True
    return HttpRequest("POST", URL, JSON, json_bytes(body))


def _message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
    if message.role != "assistant":
        return {"role": message.role, "content": message.content}
    fields: dict[str, Any] = {"role": "assistant"}
    if message.content or not message.calls:
        fields["content"] = message.content
    if message.calls:
        fields["tool_calls"] = [_call(call) for call in message.calls]
    return fields


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments_text(call)}
    return {"id": call.id, "type": "function", "function": function}


def _tool(offer: Offer) -> dict[str, Any]:
    described = {"description": offer.description} if offer.description else {}
    if offer.schema == FREE_TEXT:
        return {"type": "custom", "custom": {"name": offer.name, **described}}
    function = {"name": offer.name, **described, "parameters": offer.schema}
    return {"type": "function", "function": function}
