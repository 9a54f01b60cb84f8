"""Gemini's generateContent: building of requests."""

from __future__ import annotations

from itertools import takewhile
from typing import Any, Final
from urllib.parse import quote

from simkit.core.messages import Message
from simkit.providers.attachments import is_failed
from simkit.providers.body_reader import json_bytes
from simkit.providers.gemini.parts import parts_said
from simkit.providers.http import HttpRequest
from simkit.providers.values import JSON, Offer, ParsedRequest

URL: Final = "https://generativelanguage.googleapis.com/v1beta/models"
_OUTSIDE: Final = frozenset({"cachedContent", "labels", "safetySettings", "toolConfig"})
"""Settings beside ``generationConfig``, not in it."""
_MODES: Final = {"none": "NONE", "required": "ANY"}


def build_request(request: ParsedRequest) -> HttpRequest:
    """Build the request; parsing it gives the same values again.

    Leading system messages become the request's instructions, a part each. The protocol has no
    others: later system messages are sent as the user's. Consecutive tool results are one content.
    """
    front = list(takewhile(lambda message: message.role == "system", request.messages))
    system = [{"text": front_message.content} for front_message in front if front_message.content]
    body: dict[str, Any] = {"contents": _contents(request.messages[len(front) :])}
    if system:
        body["systemInstruction"] = {"parts": system}
    if request.offers:
        body["tools"] = [{"functionDeclarations": [_function(offer) for offer in request.offers]}]
    body.update({key: value for key, value in request.settings.items() if key in _OUTSIDE})
    if request.choice != "auto":
        calling: dict[str, Any] = {"mode": _MODES.get(request.choice, "ANY")}
        if request.choice not in _MODES:
            calling["allowedFunctionNames"] = [request.choice]
        body["toolConfig"] = {**body.get("toolConfig", {}), "functionCallingConfig": calling}
    generation = {key: value for key, value in request.settings.items() if key not in _OUTSIDE}
    if request.output is not None:
        generation["responseMimeType"] = "application/json"
        generation["responseJsonSchema"] = request.output
    # Google's own client sends it even if it is empty.
    body["generationConfig"] = generation
    verb = "streamGenerateContent?alt=sse" if request.is_streamed else "generateContent"
    url = f"{URL}/{quote(request.model, safe='')}:{verb}"
    return HttpRequest("POST", url, JSON, json_bytes(body))


def _contents(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    contents: list[dict[str, Any]] = []
    before = ""
    for message in messages:
        if message.role == "tool" and before == "tool":
            contents[-1]["parts"].append(_result(message))
        elif message.role == "tool":
            contents.append({"role": "user", "parts": [_result(message)]})
        elif message.role == "assistant":
            contents.append({"role": "model", "parts": parts_said(message)})
        else:
            contents.append({"role": "user", "parts": [{"text": message.content}]})
        before = message.role
    return contents


def _result(message: Message) -> dict[str, Any]:
    key = "error" if is_failed(message) else "output"
    response = {"name": message.tool, "response": {key: message.content}}
    identity = {"id": message.call_id} if message.call_id else {}
    return {"functionResponse": {**identity, **response}}


def _function(offer: Offer) -> dict[str, Any]:
    described = {"description": offer.description} if offer.description else {}
    return {"name": offer.name, **described, "parametersJsonSchema": offer.schema}
