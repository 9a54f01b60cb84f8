"""OpenAI's chat completions, as OpenAI, Azure and all compatible servers speak them.

Source of the shapes: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simkit.core.errors import WireInvalid
from simkit.core.messages import ROLE_ALIASES, JsonValue, Message, ToolCall
from simkit.providers.attachments import (
    PARTS,
    REASONING,
    REFUSAL,
    added,
    data_of,
    linked,
    placeholder,
)
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
from simkit.providers.http import HttpRequest, path_of
from simkit.providers.openai.chat_parsing import parse_response, reasoning_in
from simkit.providers.openai.chat_requests import build_request
from simkit.providers.openai.chat_serving import failed, served
from simkit.providers.openai.parts import FREE_TEXT, arguments_of, content_of, kind_of_call
from simkit.providers.values import Offer, ParsedRequest, Protocol

_PATH: Final = "/chat/completions"
_READ: Final = frozenset({"messages", "model", "response_format", "stream", "tool_choice", "tools"})
"""Keys that `ParsedRequest` has fields for; all other keys are settings."""
_CHOICES_MAX: Final = 128
_ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function")


def _speaks(request: HttpRequest) -> bool:
    return request.method == "POST" and path_of(request.url).endswith(_PATH)


def _parse_request(request: HttpRequest) -> ParsedRequest:
    body = record_of(request.body)
    if maybe(body, "n", 1) > _CHOICES_MAX:
        raise WireInvalid(f"{body['n']} answers to one request; at most {_CHOICES_MAX}", "n")
    # Older clients of Azure give the model in the path only.
    model = (
        maybe(body, "model", "") or _deployment(path_of(request.url)) or need(body, "model", str)
    )
    need(body, "messages", list)
    settings = {key: value for key, value in body.items() if key not in _READ}
    choice, allowed = _choice(body)
    return ParsedRequest(
        protocol=PROTOCOL.name,
        model=model,
        messages=_messages(body),
        offers=_offers(body),
        choice=choice,
        output=_output(body),
        settings={**settings, **allowed},
        is_streamed=maybe(body, "stream", False),
    )


def _deployment(path: str) -> str:
    parts = path.removesuffix(_PATH).split("/")
    return parts[-1] if parts[-2:-1] == ["deployments"] else ""


def _messages(body: Record) -> tuple[Message, ...]:
    tools: dict[str, str] = {}
    messages = list[Message]()
    for record, at in records(body, "messages"):
        role = need(record, "role", str, at)
        if role == "assistant":
            message = _assistant(record, at, len(messages))
            tools.update((call.id, call.name) for call in message.calls)
        elif role == "tool":
            message = _tool(record, at, need(record, "tool_call_id", str, at), tools)
        elif role == "function":
            name = need(record, "name", str, at)
            # The legacy interface has no ids: a result belongs to the last call of its name.
            last = next((call_id for call_id in reversed(tools) if tools[call_id] == name), "")
            message = _tool(record, at, last, tools)
        elif role in _ROLES:
            content, extras = content_of(record, at)
            if name := maybe(record, "name", "", at):
                extras["name"] = name
            message = Message(ROLE_ALIASES[role], content, data=extras or None)
        else:
            raise unknown("role", role, _ROLES, under(at, "role"))
        messages.append(message)
    return tuple(messages)


def _assistant(record: Record, at: str, place: int) -> Message:
    content, extras = content_of(record, at, glue="")
    if refusal := maybe(record, "refusal", "", at):
        extras[REFUSAL] = refusal
        content = content or refusal
    if reasoning := reasoning_in(record, at):
        extras[REASONING] = [{"type": "reasoning_text", "text": reasoning}]
    if audio := maybe(record, "audio", dict[str, JsonValue](), at):
        part = linked("audio", need(audio, "id", str, under(at, "audio")))
        added(extras, PARTS, part)
        content = content or placeholder(part)
    return Message(
        "assistant",
        content,
        agent=maybe(record, "name", "", at) or None,
        calls=_calls(record, at, place),
        data=data_of(content, extras),
    )


def _calls(record: Record, at: str, place: int) -> tuple[ToolCall, ...]:
    calls = []
    for call, where in records(record, "tool_calls", at):
        kind = kind_of_call(call)
        inner, inside = need(call, kind, dict, where), under(where, kind)
        args: JsonValue = (
            need(inner, "input", str, inside)
            if kind == "custom"
            else arguments_of(maybe(inner, "arguments", "", inside))
        )
        name = need(inner, "name", str, inside)
        calls.append(ToolCall(need(call, "id", str, where), name, args))
    legacy = maybe(record, "function_call", dict[str, JsonValue](), at)
    if legacy.get("name"):
        inside = under(at, "function_call")
        args = arguments_of(maybe(legacy, "arguments", "", inside))
        calls.append(ToolCall(f"function_call_{place}", need(legacy, "name", str, inside), args))
    return tuple(calls)


def _tool(record: Record, at: str, call_id: str, tools: Mapping[str, str]) -> Message:
    content, extras = content_of(record, at)
    return Message(
        "tool",
        content,
        call_id=call_id,
        tool=tools.get(call_id) or maybe(record, "name", "", at),
        data=data_of(content, extras),
    )


def _offers(body: Record) -> tuple[Offer, ...]:
    offers = [_offer(function, at) for function, at in records(body, "functions")]
    for tool, at in records(body, "tools"):
        kind = maybe(tool, "type", "custom" if tool.get("custom") else "function", at)
        if kind == "function":
            # Some clients of compatible servers send the function without its wrapping.
            is_flat = kind not in tool and "name" in tool
            function = tool if is_flat else need(tool, kind, dict, at)
            offers.append(_offer(function, at if is_flat else under(at, kind)))
        elif kind == "custom":
            custom, inside = need(tool, kind, dict, at), under(at, kind)
            description = maybe(custom, "description", "", inside)
            offers.append(Offer(need(custom, "name", str, inside), FREE_TEXT, description))
        else:
            offers.append(Offer(kind))
    return tuple(offers)


def _offer(function: Record, at: str) -> Offer:
    # Without `parameters` a function takes none.
    schema = maybe(function, "parameters", dict[str, JsonValue](), at) or {"type": "object"}
    name = need(function, "name", str, at)
    return Offer(name, schema, maybe(function, "description", "", at))


def _choice(body: Record) -> tuple[str, dict[str, JsonValue]]:
    """Parse which tools may be called; a list of allowed tools stays a setting."""
    key = "tool_choice" if body.get("tool_choice") is not None else "function_call"
    choice = body.get(key)
    if choice is None:
        return "auto", {}
    if isinstance(choice, str):
        return choice, {}
    record = typed(choice, dict, key)
    if key == "function_call":
        return need(record, "name", str, key), {}
    kind = need(record, "type", str, key)
    if kind not in record and "name" in record:
        return need(record, "name", str, key), {}
    inner, inside = need(record, kind, dict, key), under(key, kind)
    if kind == "allowed_tools":
        return need(inner, "mode", str, inside), {key: record}
    return need(inner, "name", str, inside), {}


def _output(body: Record) -> JsonValue:
    at = "response_format"
    form = maybe(body, at, dict[str, JsonValue]())
    if not form:
        return None
    kind = need(form, "type", str, at)
    if kind == "json_schema":
        named = need(form, kind, dict, at)
        return maybe(named, "schema", dict[str, JsonValue](), under(at, kind))
    return {"type": "object"} if kind == "json_object" else None


PROTOCOL: Final = Protocol(
    name="openai-chat",
    variables={
        "OPENAI_BASE_URL": "{url}/v1",
        "OPENAI_API_BASE": "{url}/v1",
        "AZURE_OPENAI_ENDPOINT": "{url}",
    },
    keys=("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY"),
    speaks=_speaks,
    parse_request=_parse_request,
    build_request=build_request,
    served=served,
    failed=failed,
    parse_response=parse_response,
    call_prefix="call_",
)
