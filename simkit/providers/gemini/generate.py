"""Gemini's generateContent, on Google's API for developers and on Vertex: parsing of requests.

The interface is protocol buffers as JSON, so every key may be in camel or snake case; simkit
returns settings in camel case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from simkit.core.errors import WireInvalid
from simkit.core.messages import Fails, JsonValue, Message, Usage
from simkit.providers import attachments as extra
from simkit.providers import failures
from simkit.providers.attachments import Extras, instructions_apart, is_failed, results_grouped
from simkit.providers.body_reader import (
    Record,
    json_bytes,
    maybe,
    need,
    record_of,
    records,
    typed,
    under,
    unknown,
)
from simkit.providers.gemini.parts import (
    Placed,
    camel_keys,
    json_schema,
    model_of,
    parts_of,
    parts_said,
    result_of,
    text_of,
)
from simkit.providers.gemini.replies import failed, served
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.providers.skeleton import Numbered, match_of, posts_to, read_response
from simkit.providers.values import JSON, Offer, ParsedRequest, ParsedResponse, Protocol

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


def _parse_request(request: HttpRequest) -> ParsedRequest:
    try:
        return _read(request, camel_keys(record_of(request.body)))
    except RecursionError:
        raise WireInvalid("is nested too deep", "body") from None


def _read(request: HttpRequest, body: Record) -> ParsedRequest:
    path = match_of(_PATH, request)
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
    results = [(part, part_at) for part, part_at in parts if "functionResponse" in part]
    results_ = [result_of(part, part_at, calls) for part, part_at in results]
    own_parts = [(part, part_at) for part, part_at in parts if "functionResponse" not in part]
    if own_parts or not results_:
        extras = Extras()
        text = text_of(own_parts, extras)
        results_.append(Message("user", text, data=extras or None))
    return results_


def _offers(tool: Record, at: str) -> list[Offer]:
    offers = []
    for key_, value in tool.items():
        key, path = next(iter(camel_keys({key_: None}))), under(at, key_)
        if key != "functionDeclarations":
            offers += [Offer(key)] if value is not None else []
            continue
        offers += [_offer(camel_keys(record), inner) for record, inner in records(tool, key_, at)]
        typed(value, list, path)
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
    at = "toolConfig.functionCallingConfig"
    calling = camel_keys(maybe(config, "functionCallingConfig", dict[str, Any](), "toolConfig"))
    mode = maybe(calling, "mode", "", at).upper()
    if mode not in _CHOICES:
        raise unknown("mode", mode, [*_CHOICES][1:], under(at, "mode"))
    names = [
        typed(name, str, f"{at}.allowedFunctionNames[{number}]")
        for number, name in enumerate(maybe(calling, "allowedFunctionNames", list[JsonValue](), at))
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
        path = under(at, "responseSchema")
        return json_schema(need(generation, "responseSchema", dict, at), path)
    return {} if maybe(generation, "responseMimeType", "", at) == "application/json" else None


# Gemini's generateContent: building of requests


URL: Final = "https://generativelanguage.googleapis.com/v1beta/models"
_OUTSIDE: Final = frozenset({"cachedContent", "labels", "safetySettings", "toolConfig"})
"""Settings beside ``generationConfig``, not in it."""
_MODES: Final = {"none": "NONE", "required": "ANY"}


def build_request(request: ParsedRequest) -> HttpRequest:
    """Build the request; parsing it gives the same values again.

    Leading system messages become the request's instructions, a part each. The protocol has no
    others: later system messages are sent as the user's. Consecutive tool results are one content.
    """
    instructions, rest = instructions_apart(request.messages)
    body: dict[str, Any] = {"contents": [*map(_content, results_grouped(rest))]}
    if instructions:
        body["systemInstruction"] = {"parts": [{"text": text} for text in instructions]}
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


def _content(messages: list[Message]) -> dict[str, Any]:
    """Return one message, or the tool results that are one content."""
    first = messages[0]
    if first.role == "tool":
        return {"role": "user", "parts": [_result(message) for message in messages]}
    if first.role == "assistant":
        return {"role": "model", "parts": parts_said(first)}
    return {"role": "user", "parts": [{"text": first.content}]}


def _result(message: Message) -> dict[str, Any]:
    key = "error" if is_failed(message) else "output"
    response = {"name": message.tool, "response": {key: message.content}}
    identity = {"id": message.call_id} if message.call_id else {}
    return {"functionResponse": {**identity, **response}}


def _function(offer: Offer) -> dict[str, Any]:
    return {**offer.described, "parametersJsonSchema": offer.schema}


# Gemini's generateContent: parsing of responses


_FINISHES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("", "STOP", "FINISH_REASON_UNSPECIFIED"), ""),
    **dict.fromkeys(("SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII"), "refusal"),
    **dict.fromkeys(("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "MODEL_ARMOR"), "refusal"),
    "MAX_TOKENS": "length",
}
"""Finish reasons with a name of simkit's; others keep theirs, in lower case."""


def parse_response(response: HttpResponse, request: ParsedRequest) -> ParsedResponse:
    """Parse a response, streamed or not, complete or cut; raise WireInvalid for an invalid one."""
    reply = _Reply(Numbered(sum(len(message.calls) for message in request.messages)))
    body = response.body.strip()
    if not body.startswith(b"["):
        return read_response(response, reply, _error)
    if response.status >= 400:
        only = (body[1:].removesuffix(b"]"),)
        return read_response(msgspec.structs.replace(response, chunks=only), reply, _error)
    try:
        records, is_ended = _listed(body)
        for number, record in enumerate(records):
            reply.read_event(record, "", f"body[{number}]", response.status)
        return reply.parse(response.ends if is_ended else response.ends or "cut", is_done=False)
    except RecursionError:
        raise WireInvalid("is nested too deep", "body") from None


def _listed(body: bytes) -> tuple[list[Record], bool]:
    """Return the responses in a list, and whether the list is complete."""
    text, records = body.decode("utf-8", "replace").strip(), list[Record]()
    position, decode = 1, json.JSONDecoder().raw_decode
    while True:
        position += len(text) - position - len(text[position:].lstrip(" \t\r\n,"))
        if position >= len(text) or text[position] == "]":
            return records, position < len(text)
        try:
            value, position = decode(text, position)
        except ValueError:
            return records, False
        records.append(typed(value, dict, f"body[{len(records)}]"))


class _Reply:
    """The response that the parts of a stream make together."""

    def __init__(self, calls: Numbered) -> None:
        self._calls = calls
        self._parts: list[Placed] = []
        self._reason = self._why = self._id = ""
        self._is_blocked = False
        self._usage: Usage | None = None
        self._error: Fails | None = None

    def read_body(self, body: Record, status: int) -> None:
        """Read a complete response."""
        self.read_event(body, "", "", status)

    def read_event(self, body: Record, event: str, at: str, status: int) -> bool:
        """Read one response of a stream."""
        if "error" in body:
            self._error = _error(body, status)
            return False
        self._usage = _usage(body, at) or self._usage
        self._id = maybe(body, "responseId", "", at) or self._id
        feedback = maybe(body, "promptFeedback", dict[str, Any](), at)
        if maybe(feedback, "blockReason", "", under(at, "promptFeedback")):
            self._is_blocked = True
            self._why = maybe(feedback, "blockReasonMessage", "", under(at, "promptFeedback"))
        for candidate, path in records(body, "candidates", at)[:1]:
            content = maybe(candidate, "content", dict[str, Any](), path)
            self._parts += parts_of(content, under(path, "content"))
            self._reason = maybe(candidate, "finishReason", "", path) or self._reason
            self._why = maybe(candidate, "finishMessage", "", path) or self._why
        return False

    def parse(self, ends: str, *, is_done: bool) -> ParsedResponse:
        """Return the parsed response of all parts."""
        is_stopped = bool(self._reason) or self._is_blocked
        error = self._error or failures.broken(ends, is_done or is_stopped)
        if self._reason == "MALFORMED_FUNCTION_CALL" and error is None:
            error = failures.malformed(self._why)
        if not (self._parts or is_stopped or self._usage or error):
            raise WireInvalid("is missing", "candidates")
        finish = _FINISHES.get(self._reason, self._reason.lower())
        if self._is_blocked:
            finish = "content_filter"
        message = model_of(self._parts, self._calls)
        if finish in ("refusal", "content_filter"):
            message = extra.explained(message, self._why)
        return ParsedResponse(message, usage=self._usage, finish=finish, id=self._id, error=error)


def _usage(body: Record, at: str) -> Usage | None:
    counted = maybe(body, "usageMetadata", dict[str, Any](), at)
    if not counted:
        return None
    input_tokens, output_tokens, thought, cached = (
        maybe(counted, f"{key}TokenCount", 0, "usageMetadata")
        for key in ("prompt", "candidates", "thoughts", "cachedContent")
    )
    return Usage(input_tokens, output_tokens + thought, cached or None, None, thought or None)


def _error(body: Record, status: int) -> Fails:
    error = need(body, "error", dict)
    message = need(error, "message", str, "error")
    word = maybe(error, "status", "", "error")
    kind = failures.kind_of("gemini", word, message) or failures.kind_of_status(status)
    return Fails(kind, status, message, _delay(error))


def _delay(error: Record) -> float | None:
    """Return the seconds after which the error's details ask for a retry."""
    for detail, at in records(error, "details", "error"):
        if maybe(detail, "@type", "", at).endswith("RetryInfo"):
            return failures.seconds_of(maybe(detail, "retryDelay", "", at))
    return None


PROTOCOL: Final = Protocol(
    name="gemini",
    variables={"GOOGLE_GEMINI_BASE_URL": "{url}", "GOOGLE_VERTEX_BASE_URL": "{url}"},
    keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    speaks=posts_to(_PATH),
    parse_request=_parse_request,
    build_request=build_request,
    served=served,
    failed=failed,
    parse_response=parse_response,
)
