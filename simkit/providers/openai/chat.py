"""OpenAI's chat completions, as OpenAI, Azure and all compatible servers speak them.

Source of the shapes: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from simkit.core.errors import WireInvalid
from simkit.core.messages import ROLE_ALIASES, Fails, JsonValue, Message, ToolCall, Usage
from simkit.providers import attachments, values
from simkit.providers.body_reader import (
    Record,
    json_bytes,
    maybe,
    need,
    records,
    typed,
    under,
    unknown,
)
from simkit.providers.failures import broken
from simkit.providers.http import HttpRequest, HttpResponse, path_of
from simkit.providers.openai.chat_serving import failed, served
from simkit.providers.openai.items import (
    FREE_TEXT,
    arguments_of,
    arguments_text,
    checked,
    content_of,
    error_in,
    fails_in,
    function_offer,
    kind_of_call,
    usage_of,
)
from simkit.providers.skeleton import ItemReader, posts_to, read_response

_PATH: Final = "/chat/completions"
_READ: Final = frozenset({"messages", "model", "response_format", "stream", "tool_choice", "tools"})
"""Keys that `ParsedRequest` has fields for; all other keys are settings."""
_CHOICES_MAX: Final = 128
_ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function")


def parse_item(record: Record, at: str, index: int, tools: dict[str, str]) -> tuple[Message, ...]:
    """Parse one message."""
    return (_message_in(record, at, index, tools),)


def _depends(record: Record) -> bool:
    """Return whether a message is one of the legacy interface, which has no ids."""
    return record["role"] == "function" or "function_call" in record


def whole(request: HttpRequest, body: Record, messages: Sequence[Message]) -> values.ParsedRequest:
    """Return the request of a body, and the messages in it."""
    if maybe(body, "n", 1) > _CHOICES_MAX:
        raise WireInvalid(f"{body['n']} answers to one request; at most {_CHOICES_MAX}", "n")
    # Older clients of Azure give the model in the path only.
    model = (
        maybe(body, "model", "") or _deployment(path_of(request.url)) or need(body, "model", str)
    )
    settings = {key: value for key, value in body.items() if key not in _READ}
    choice, allowed = _choice(body)
    return values.ParsedRequest(
        protocol=PROTOCOL.name,
        model=model,
        messages=tuple(messages),
        offers=_offers(body),
        choice=choice,
        output=_output(body),
        settings={**settings, **allowed},
        is_streamed=maybe(body, "stream", False),
    )


_REQUESTS: Final = ItemReader(key="messages", item=parse_item, whole=whole, depends=_depends)


def _deployment(path: str) -> str:
    parts = path.removesuffix(_PATH).split("/")
    return parts[-1] if parts[-2:-1] == ["deployments"] else ""


def _message_in(record: Record, at: str, index: int, tools: dict[str, str]) -> Message:
    """Parse one message; ``tools`` has the names of the calls before it, and gets its own."""
    role = need(record, "role", str, at)
    if role == "assistant":
        message = _assistant(record, at, index)
        tools.update((call.id, call.name) for call in message.calls)
        return message
    if role == "tool":
        return _tool(record, at, need(record, "tool_call_id", str, at), tools)
    if role == "function":
        name = need(record, "name", str, at)
        # The legacy interface has no ids: a result belongs to the last call of its name.
        last = next((call_id for call_id in reversed(tools) if tools[call_id] == name), "")
        return _tool(record, at, last, tools)
    if role not in _ROLES:
        raise unknown("role", role, _ROLES, under(at, "role"))
    content, extras = content_of(record, at)
    name = maybe(record, "name", "", at)
    return Message(ROLE_ALIASES[role], content, data=extras or None, name=name)


def _assistant(record: Record, at: str, index: int) -> Message:
    content, extras = content_of(record, at, glue="")
    if refusal := maybe(record, "refusal", "", at):
        extras[attachments.REFUSAL] = refusal
        content = content or refusal
    if reasoning := reasoning_in(record, at):
        extras[attachments.REASONING] = [{"type": "reasoning_text", "text": reasoning}]
    if audio := maybe(record, "audio", dict[str, JsonValue](), at):
        part = attachments.linked("audio", need(audio, "id", str, under(at, "audio")))
        attachments.added(extras, attachments.PARTS, part)
        content = content or attachments.placeholder(part)
    name = maybe(record, "name", "", at)
    return Message(
        "assistant",
        content,
        agent=name or None,
        name=name,
        calls=_calls(record, at, index),
        data=attachments.data_of(content, extras),
    )


def _calls(record: Record, at: str, index: int) -> tuple[ToolCall, ...]:
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
        calls.append(ToolCall(f"function_call_{index}", need(legacy, "name", str, inside), args))
    return tuple(calls)


def _tool(record: Record, at: str, call_id: str, tools: Mapping[str, str]) -> Message:
    content, extras = content_of(record, at)
    return Message(
        "tool",
        content,
        call_id=call_id,
        tool=tools.get(call_id) or maybe(record, "name", "", at),
        data=attachments.data_of(content, extras),
    )


def _offers(body: Record) -> tuple[values.Offer, ...]:
    offers = [function_offer(function, at) for function, at in records(body, "functions")]
    for tool, at in records(body, "tools"):
        kind = maybe(tool, "type", "custom" if tool.get("custom") else "function", at)
        if kind == "function":
            # Some clients of compatible servers send the function without its wrapping.
            is_flat = kind not in tool and "name" in tool
            function = tool if is_flat else need(tool, kind, dict, at)
            offers.append(function_offer(function, at if is_flat else under(at, kind)))
        elif kind == "custom":
            custom, inside = need(tool, kind, dict, at), under(at, kind)
            description = maybe(custom, "description", "", inside)
            offers.append(values.Offer(need(custom, "name", str, inside), FREE_TEXT, description))
        else:
            offers.append(values.Offer(kind))
    return tuple(offers)


def _choice(body: Record) -> tuple[str, dict[str, JsonValue]]:
    """Parse which tools may be called; a list of allowed tools stays a setting."""
    key = "tool_choice" if body.get("tool_choice") is not None else "function_call"
    choice = body.get(key)
    if choice is None or isinstance(choice, str):
        return "auto" if choice is None else choice, {}
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


# OpenAI's chat completions: building of requests


URL: Final = "https://api.openai.com/v1/chat/completions"


def build_request(request: values.ParsedRequest) -> HttpRequest:
    """Build the request; parsing it gives the same values again."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [_message(message) for message in request.messages],
        **request.settings,
    }
    if request.offers:
        body["tools"] = [_tool_body(offer) for offer in request.offers]
    if request.choice in ("none", "required"):
        body["tool_choice"] = request.choice
    elif request.choice != "auto":
        body["tool_choice"] = {"type": "function", "function": {"name": request.choice}}
    if request.output is not None:
        form = {"name": values.OUTPUT_NAME, "schema": request.output}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    if request.is_streamed:
        body["stream"] = True
    return HttpRequest("POST", URL, values.JSON, json_bytes(body))


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


def _tool_body(offer: values.Offer) -> dict[str, Any]:
    if offer.schema == FREE_TEXT:
        return {"type": "custom", "custom": offer.described}
    strict = {"strict": True} if offer.strict else {}
    function = {**offer.described, "parameters": offer.schema, **strict}
    return {"type": "function", "function": function}


# OpenAI's chat completions: parsing of responses


_NATURAL: Final = frozenset({"stop", "tool_calls", "function_call"})


def parse_response(response: HttpResponse, request: values.ParsedRequest) -> values.ParsedResponse:
    """Parse a response, streamed or not, complete or cut; raise WireInvalid for an invalid one."""
    reply = Reply(f"function_call_{len(request.messages)}")
    return checked(read_response(response, reply, error_in), request)


def reasoning_in(record: Record, at: str) -> str:
    """Return the reasoning, which compatible servers send under one of two names."""
    return maybe(record, "reasoning_content", "", at) or maybe(record, "reasoning", "", at)


class _StreamedCall:
    """One call of a stream: the id and the name come once, the arguments in pieces."""

    def __init__(self, call_id: str) -> None:
        self.id, self.name, self.is_custom = call_id, "", False
        self.arguments = list[str]()

    def whole(self) -> ToolCall:
        text = "".join(self.arguments)
        return ToolCall(self.id, self.name, text if self.is_custom else arguments_of(text))


class Reply:
    """One reply of a stream; a complete message counts as one large delta."""

    def __init__(self, legacy_id: str) -> None:
        """``legacy_id`` is the id for a legacy function call, which has none."""
        self._legacy_id = legacy_id
        self._id, self._finish = "", ""
        self._error: Fails | None = None
        self._is_body = False
        self._usage: Usage | None = None
        self._texts, self._refusals = list[str](), list[str]()
        self._reasoning, self._calls = list[str](), dict[int, _StreamedCall]()

    def read_body(self, body: Record, status: int) -> None:
        """Read a complete response."""
        self._is_body = True
        if body.get("error"):
            self._error = fails_in(body["error"], status)
        else:
            need(body, "choices", list)
            self._add(body, "message", "")

    def read_event(self, body: Record, event: str, at: str, status: int) -> bool:
        """Read one event; an error is the last one."""
        if body.get("error"):
            self._error = fails_in(body["error"], status)
            return True
        self._add(body, "delta", at)
        return False

    def _add(self, body: Record, key: str, at: str) -> None:
        """Add a body; ``key`` is its name for the message."""
        self._id = self._id or maybe(body, "id", "", at)
        self._usage = usage_of(body, at, "prompt", "completion") or self._usage
        for choice, where in records(body, "choices", at):
            if maybe(choice, "index", 0, where) == 0:
                self._finish = maybe(choice, "finish_reason", "", where) or self._finish
                message = maybe(choice, key, dict[str, JsonValue](), where)
                self._add_message(message, under(where, key))

    def _add_message(self, message: Record, at: str) -> None:
        self._texts.append(content_of(message, at, glue="")[0])
        self._refusals.append(maybe(message, "refusal", "", at))
        self._reasoning.append(reasoning_in(message, at))
        for number, (call, where) in enumerate(records(message, "tool_calls", at)):
            index = maybe(call, "index", number, where)
            self._add_call(index, call, where)
        legacy = maybe(message, "function_call", dict[str, JsonValue](), at)
        if legacy.get("name") or legacy.get("arguments"):
            self._add_call(0, {"id": self._legacy_id, "function": legacy}, at)

    def _add_call(self, index: int, call: Record, at: str) -> None:
        open_call = self._calls.setdefault(index, _StreamedCall(""))
        open_call.id = open_call.id or maybe(call, "id", "", at)
        kind = kind_of_call(call)
        inner = maybe(call, kind, dict[str, JsonValue](), at)
        inside = under(at, kind)
        open_call.is_custom = open_call.is_custom or kind == "custom"
        open_call.name = open_call.name or maybe(inner, "name", "", inside)
        key = "input" if kind == "custom" else "arguments"
        open_call.arguments.append(maybe(inner, key, "", inside))

    def parse(self, ends: str, *, is_done: bool) -> values.ParsedResponse:
        """Return the reply as far as it has arrived."""
        # Some compatible servers send no finish reason; token counts and `[DONE]` prove the end.
        # Others leave out `[DONE]`, so only a lost connection counts as cut.
        is_proven = is_done and (self._is_body or self._usage is not None)
        error = self._error or broken(ends, is_whole=bool(self._finish) or is_proven)
        extras = attachments.Extras()
        if reasoning := "".join(self._reasoning):
            extras[attachments.REASONING] = [{"type": "reasoning_text", "text": reasoning}]
        refusal = "".join(self._refusals)
        if refusal:
            extras[attachments.REFUSAL] = refusal
        text = "".join(self._texts) or refusal
        calls = tuple(self._calls[index].whole() for index in sorted(self._calls))
        message = Message("assistant", text, calls=calls, data=attachments.data_of(text, extras))
        finish = "" if self._finish in _NATURAL else self._finish
        return values.ParsedResponse(
            message, self._usage, "refusal" if refusal else finish, self._id, error
        )


PROTOCOL: Final = values.Protocol(
    name="openai-chat",
    variables={
        "OPENAI_BASE_URL": "{url}/v1",
        "OPENAI_API_BASE": "{url}/v1",
        "AZURE_OPENAI_ENDPOINT": "{url}",
    },
    keys=("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY"),
    speaks=posts_to(_PATH),
    parse_request=_REQUESTS.parse,
    parse_again=_REQUESTS.parse_again,
    build_request=build_request,
    served=served,
    failed=failed,
    parse_response=parse_response,
    call_prefix="call_",
)
