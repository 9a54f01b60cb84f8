"""The provider protocols that simkit reads, and the protocol of a request."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from simkit.core.errors import SimkitError
from simkit.core.messages import JsonValue, Message
from simkit.core.redact.shapes import NO_KEY
from simkit.providers import bedrock, cohere, ollama
from simkit.providers.anthropic import messages
from simkit.providers.body_reader import json_bytes, maybe, record_of
from simkit.providers.gemini import generate
from simkit.providers.gemini.parts import camel_keys
from simkit.providers.http import HttpRequest, HttpResponse, path_of
from simkit.providers.openai import chat, responses
from simkit.providers.values import ParsedRequest, Protocol

PROTOCOLS: Final[Mapping[str, Protocol]] = {
    protocol.name: protocol
    for protocol in (
        chat.PROTOCOL,
        responses.PROTOCOL,
        messages.PROTOCOL,
        generate.PROTOCOL,
        bedrock.PROTOCOL,
        bedrock.INVOKED,
        cohere.PROTOCOL,
        ollama.PROTOCOL,
    )
}
"""All protocols by name; a new one is one more module."""


def protocol_of(request: HttpRequest) -> Protocol | None:
    """Return the protocol of a model call; None for any other request."""
    return next((protocol for protocol in PROTOCOLS.values() if protocol.speaks(request)), None)


def key_names(protocol: Protocol) -> str:
    """Return the variables that a user sets; Azure's belongs to a client that is not used here."""
    return " or ".join(key for key in protocol.keys if not key.startswith("AZURE_"))


def require_key(request: HttpRequest) -> None:
    """Raise SimkitError for a real request with the value that stands for a missing key."""
    keys = {value.removeprefix("Bearer ") for _, value in request.headers}
    if NO_KEY in keys and (protocol := protocol_of(request)) is not None:
        raise SimkitError(
            "there is no key for the models' provider, so nothing is sent\n"
            f"  Set it in the environment: {key_names(protocol)}."
        )


# Requests that count the tokens of a context; they are no model calls


Count = Callable[[Sequence[Message]], int]
_ENDS: Final = re.compile(
    r"(?P<responses>/responses)/input_tokens$|(?P<anthropic>/v1/messages)/count_tokens$"
    r"|(?P<gemini>:)countTokens$|(?P<bedrock>/model/.+)/count-tokens$"
)


def answer_token_count(
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
    elif kind == "bedrock":
        body = maybe(maybe(body, "input", dict[str, Any]()), "converse", dict[str, Any]())
        path = f"{match[kind]}/converse"
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
    if kind == "bedrock":
        return msgspec.json.encode({"inputTokens": number})
    body: dict[str, JsonValue] = {"input_tokens": number}
    return msgspec.json.encode(
        {"object": "response.input_tokens", **body} if kind == "responses" else body
    )


# Model requests in interfaces that simkit does not read: name the provider and the interface


class _Interfaces(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tables in interfaces.yaml."""

    unread: dict[str, str]
    anywhere: tuple[str, ...]
    hosts: tuple[str, ...]
    others: tuple[str, ...]


_TABLES: Final = msgspec.yaml.decode(
    Path(__file__).with_name("interfaces.yaml").read_bytes(), type=_Interfaces
)
_CALLS: Final = {name: re.compile(rf"(?:{end})$") for name, end in _TABLES.unread.items()}
_HOSTS: Final = re.compile(rf"(?:^|\.)(?:{'|'.join(_TABLES.hosts)})$")
_OTHERS: Final = re.compile("|".join(_TABLES.others))


def is_providers_host(host: str) -> bool:
    """Return whether a model provider answers at a host."""
    return _HOSTS.search(host) is not None


def unsupported_interface(request: HttpRequest) -> str:
    """Return the provider's interface that a request uses, if it may be a model call.

    Empty for a request to another host, and for a request that is known to be no model call.
    """
    if request.method != "POST":
        return ""
    path, host = path_of(request.url), urlsplit(request.url).hostname or ""
    is_providers = is_providers_host(host)
    for name, pattern in _CALLS.items():
        if (is_providers or name in _TABLES.anywhere) and pattern.search(path):
            return name
    return f"an interface of {host}" if is_providers and not _OTHERS.search(path) else ""
