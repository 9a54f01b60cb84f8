"""Anthropic's messages: building of requests."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any, Final

from simkit.core.messages import Message
from simkit.providers.anthropic.blocks import blocks_said
from simkit.providers.attachments import is_failed
from simkit.providers.body_reader import json_bytes
from simkit.providers.http import HttpRequest
from simkit.providers.values import JSON, Offer, ParsedRequest

URL: Final = "https://api.anthropic.com/v1/messages"
TOKENS_MAX: Final = 4096
"""The maximum length of a reply in tokens if nobody gives it: the provider requires a number."""
_ONE_AT_A_TIME: Final = "disable_parallel_tool_use"
_CHOICES: Final = {"none": "none", "required": "any", "auto": "auto"}


def build_request(request: ParsedRequest) -> HttpRequest:
    """Build the request; parsing it gives the same values again.

    Leading system messages become the request's instructions, a text block each; others keep their
    places. Consecutive tool results are one message of the user, as the provider requires for
    parallel calls.
    """
    front = list(takewhile(lambda message: message.role == "system", request.messages))
    system = [{"type": "text", "text": message_.content} for message_ in front if message_.content]
    settings = dict(request.settings)
    is_alone = settings.pop(_ONE_AT_A_TIME, False)
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": TOKENS_MAX,
        **({"system": system} if system else {}),
        "messages": _messages(request.messages[len(front) :]),
        **settings,
    }
    if request.offers:
        body["tools"] = [_tool(offer) for offer in request.offers]
    if request.choice != "auto" or is_alone:
        kind = _CHOICES.get(request.choice)
        choice: dict[str, Any] = (
            {"type": kind} if kind else {"type": "tool", "name": request.choice}
        )
        body["tool_choice"] = {**choice, **({_ONE_AT_A_TIME: True} if is_alone else {})}
    if request.output is not None:
        config = settings.get("output_config")
        form = {"type": "json_schema", "schema": request.output}
        body["output_config"] = {**(config if isinstance(config, Mapping) else {}), "format": form}
    if request.is_streamed:
        body["stream"] = True
    headers = (*JSON, ("anthropic-version", "2023-06-01"))
    return HttpRequest("POST", URL, headers, json_bytes(body))


def _messages(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    messages_out: list[dict[str, Any]] = []
    before = ""
    for message in messages:
        if message.role != "tool":
            content = blocks_said(message) if message.role == "assistant" else message.content
            messages_out.append({"role": message.role, "content": content})
        elif before == "tool":
            messages_out[-1]["content"].append(_result(message))
        else:
            messages_out.append({"role": "user", "content": [_result(message)]})
        before = message.role
    return messages_out


def _result(message: Message) -> dict[str, Any]:
    failed = {"is_error": True} if is_failed(message) else {}
    return {
        "type": "tool_result",
        "tool_use_id": message.call_id,
        "content": message.content,
        **failed,
    }


def _tool(offer: Offer) -> dict[str, Any]:
    described = {"description": offer.description} if offer.description else {}
    return {"name": offer.name, **described, "input_schema": offer.schema}
