"""Gemini's generateContent, on Google's API for developers and on Vertex: parsing of requests.

The interface is protocol buffers as JSON, so every key may be in camel or snake case; simkit
returns settings in camel case.
"""

from __future__ import annotations

import re
from typing import Any, Final

from simkit.core.errors import WireInvalid
from simkit.core.messages import JsonValue, Message
from simkit.providers.attachments import Extras
from simkit.providers.body_reader import (
    Record,
    maybe,
    need,
    record_of,
    records,
    typed,
    under,
    unknown,
)
from simkit.providers.gemini.parsing import parse_response
from simkit.providers.gemini.parts import (
    Numbered,
    camel_keys,
    model_of,
    parts_of,
    result_of,
    text_of,
)
from simkit.providers.gemini.replies import failed, served
from simkit.providers.gemini.requests import build_request
from simkit.providers.gemini.schema import json_schema
from simkit.providers.http import HttpRequest, path_of
from simkit.providers.values import Offer, ParsedRequest, Protocol

_PATH: Final = re.compile(
    r"/(?:models|tunedModels|endpoints)/(?P<model>[^/:]+):(?P<verb>g|streamG)enerateContent$"
)
_ROLES: Final = ("user", "model", "function", "tool")
_CHOICES: Final = {
    **dict.fromkeys(("", "MODE_UNSPECIFIED", "AUTO", "VALIDATED"), "auto"),
    "ANY": "required",
    "NONE": "none",
}
_READ: Final = ("contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "model")
_OUTPUT: Final = ("responseSchema", "responseJsonSchema", "responseMimeType")


def _path(url: str) -> re.Match[str] | None:
    return _PATH.search(path_of(url))


def _speaks(request: HttpRequest) -> bool:
    return request.method == "POST" and _path(request.url) is not None


def _parse_request(request: HttpRequest) -> ParsedRequest:
    try:
        return _read(request, camel_keys(record_of(request.body)))
    except RecursionError:
        raise WireInvalid("is nested too deep", "body") from None


def _read(request: HttpRequest, body: Record) -> ParsedRequest:
    path = _path(request.url)
    if path is None:
        raise WireInvalid("has no `models/…:generateContent`", "url")
    need(body, "contents", list)
    calls = Numbered()
    messages = _system(body)
    for content, at in records(body, "contents"):
        messages += _messages(content, at, calls)
    choice, config = _choice(body)
    generation = camel_keys(maybe(body, "generationConfig", dict[str, JsonValue]()))
    settings = {key: value for key, value in body.items() if key not in _READ}
    settings |= {key: value for key, value in generation.items() if key not in _OUTPUT}
    is_streamed = path["verb"] == "streamG"
    if is_streamed and not re.search(r"[?&]alt=sse(?:[&#]|$)", request.url):
        # Without `alt=sse` the stream is one JSON list, sent in pieces.
        settings["alt"] = "json"
    return ParsedRequest(
        protocol="gemini",
        model=path["model"],
        messages=tuple(messages),
        offers=tuple(offer for tool, at in records(body, "tools") for offer in _offers(tool, at)),
        choice=choice,
        output=_output(generation),
        settings={**settings, **config},
        is_streamed=is_streamed,
        hidden=maybe(body, "cachedContent", ""),
    )


def _system(body: Record) -> list[Message]:
    if body.get("systemInstruction") is None:
        return []
    content = need(body, "systemInstruction", dict)
    extras = Extras()
    text = text_of(parts_of(content, "systemInstruction"), extras)
    return [Message("system", text, data=extras or None)] if text or extras else []


def _messages(content: Record, at: str, calls: Numbered) -> list[Message]:
    """Parse one content; one with tool results becomes several messages, results first."""
    role = maybe(content, "role", "user", at) or "user"
    if role not in _ROLES:
        raise unknown("role", role, _ROLES, under(at, "role"))
    parts = parts_of(content, at)
    if role == "model":
        return [model_of(parts, calls)]
    results = [(part, place) for part, place in parts if "functionResponse" in part]
    results_ = [result_of(part, place, calls) for part, place in results]
    own_parts = [(part, place) for part, place in parts if "functionResponse" not in part]
    if own_parts or not results_:
        extras = Extras()
        text = text_of(own_parts, extras)
        results_.append(Message("user", text, data=extras or None))
    return results_


def _offers(tool: Record, at: str) -> list[Offer]:
    offers = []
    for key_, value in tool.items():
        key, place = next(iter(camel_keys({key_: None}))), under(at, key_)
        if key != "functionDeclarations":
            offers += [Offer(key)] if value is not None else []
            continue
        offers += [_offer(camel_keys(record), inner) for record, inner in records(tool, key_, at)]
        typed(value, list, place)
    return offers


def _offer(declared: Record, at: str) -> Offer:
    """Parse one function; without parameters it takes an empty object."""
    schema: JsonValue = {"type": "object", "properties": {}}
    if declared.get("parametersJsonSchema") is not None:
        schema = need(declared, "parametersJsonSchema", dict, at)
    elif declared.get("parameters") is not None:
        schema = json_schema(need(declared, "parameters", dict, at), under(at, "parameters"))
    description = maybe(declared, "description", "", at)
    return Offer(need(declared, "name", str, at), schema, description)


def _choice(body: Record) -> tuple[str, dict[str, Any]]:
    """Parse which functions may be called.

    Parts that `ParsedRequest.choice` cannot hold are settings.
    """
    config = camel_keys(maybe(body, "toolConfig", dict[str, JsonValue]()))
    place = "toolConfig.functionCallingConfig"
    calling = camel_keys(maybe(config, "functionCallingConfig", dict[str, Any](), "toolConfig"))
    mode = maybe(calling, "mode", "", place).upper()
    if mode not in _CHOICES:
        raise unknown("mode", mode, [*_CHOICES][1:], under(place, "mode"))
    names = [
        typed(name, str, f"{place}.allowedFunctionNames[{number}]")
        for number, name in enumerate(
            maybe(calling, "allowedFunctionNames", list[JsonValue](), place)
        )
    ]
    if mode == "ANY" and len(names) == 1:
        choice, is_whole = names[0], True
    else:
        choice, is_whole = _CHOICES[mode], not names and mode != "VALIDATED"
    rest = {key: value for key, value in config.items() if key != "functionCallingConfig"}
    if not is_whole:
        rest["functionCallingConfig"] = calling
    return choice, {"toolConfig": rest} if rest else {}


def _output(generation: Record) -> JsonValue:
    """Parse the answer's schema; JSON without a schema gives one that allows any value."""
    at = "generationConfig"
    if generation.get("responseJsonSchema") is not None:
        return need(generation, "responseJsonSchema", dict, at)
    if generation.get("responseSchema") is not None:
        place = under(at, "responseSchema")
        return json_schema(need(generation, "responseSchema", dict, at), place)
    return {} if maybe(generation, "responseMimeType", "", at) == "application/json" else None


PROTOCOL: Final = Protocol(
    name="gemini",
    variables={"GOOGLE_GEMINI_BASE_URL": "{url}", "GOOGLE_VERTEX_BASE_URL": "{url}"},
    keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    speaks=_speaks,
    parse_request=_parse_request,
    build_request=build_request,
    served=served,
    failed=failed,
    parse_response=parse_response,
)
