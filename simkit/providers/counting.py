"""Requests that count the tokens of a context; they are no model calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from simkit.core.messages import JsonValue, Message
from simkit.providers.body_reader import json_bytes, maybe, record_of
from simkit.providers.gemini.parts import camel_keys
from simkit.providers.http import HttpRequest, HttpResponse, path_of
from simkit.providers.protocols import protocol_of
from simkit.providers.values import ParsedRequest

Count = Callable[[Sequence[Message]], int]
_ENDS: Final = re.compile(
    r"(?P<responses>/responses)/input_tokens$|(?P<anthropic>/v1/messages)/count_tokens$"
    r"|(?P<gemini>:)countTokens$"
)


def counted(
    request: HttpRequest, count: Count, followed: Callable[[ParsedRequest], ParsedRequest]
) -> HttpResponse | None:
    """Answer a request that counts tokens; None for any other request.

    ``count`` is the counter of claims on contexts; ``followed`` adds the messages that the provider
    keeps. Raise WireInvalid for a body that the provider could not count.
    """
    path = path_of(request.url)
    match = _ENDS.search(path)
    if request.method != "POST" or match is None:
        return None
    kind = str(match.lastgroup)
    body: Mapping[str, Any] = record_of(request.body)
    if kind == "gemini":
        body = camel_keys(body)
        inner = maybe(body, "generateContentRequest", dict[str, JsonValue]())
        body, path = inner or body, path[: match.start()] + ":generateContent"
    else:
        body = {"model": "", **body, **({} if "messages" in body else {"input": body.get("input")})}
        path = path[: match.start()] + match[kind]
    if body.get("input", "") is None:
        body = {**body, "input": []}
    url = f"https://{kind}{quote(path)}"
    count_request = HttpRequest("POST", url, request.headers, json_bytes({**body}))
    protocol = protocol_of(count_request)
    if protocol is None:  # Another service, with paths that only end like a provider's.
        return None
    number = count(followed(protocol.parse_request(count_request)).messages)
    return HttpResponse(200, (("content-type", "application/json"),), (_count_body(kind, number),))


def _count_body(kind: str, number: int) -> bytes:
    if kind == "gemini":
        return msgspec.json.encode({"totalTokens": number})
    body: dict[str, JsonValue] = {"input_tokens": number}
    return msgspec.json.encode(
        {"object": "response.input_tokens", **body} if kind == "responses" else body
    )
