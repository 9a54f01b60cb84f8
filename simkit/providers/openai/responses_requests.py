"""OpenAI's Responses: building of requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from simkit.core.messages import Message, ToolCall
from simkit.providers.attachments import REASONING, parts_in
from simkit.providers.body_reader import json_bytes
from simkit.providers.chains import INSTRUCTIONS
from simkit.providers.http import HttpRequest
from simkit.providers.openai.parts import FREE_TEXT, arguments_text
from simkit.providers.values import JSON, OUTPUT_NAME, Offer, ParsedRequest

URL: Final = "https://api.openai.com/v1/responses"


def build_request(request: ParsedRequest) -> HttpRequest:
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
        form = {"type": "json_schema", "name": OUTPUT_NAME, "schema": request.output}
        text = request.settings.get("text")
        body["text"] = {**(text if isinstance(text, Mapping) else {}), "format": form}
    if request.is_streamed:
        body["stream"] = True
    return HttpRequest("POST", URL, JSON, json_bytes(body))


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
        "arguments": arguments_text(call),
    }


def _tool(offer: Offer) -> dict[str, Any]:
    described = {"description": offer.description} if offer.description else {}
    if offer.schema == FREE_TEXT:
        return {"type": "custom", "name": offer.name, **described}
    # Unlike chat completions, Responses treat a schema as strict by default.
    return {
        "type": "function",
        "name": offer.name,
        **described,
        "parameters": offer.schema,
        "strict": False,
    }
