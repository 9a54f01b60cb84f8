"""OpenAI's Responses (``POST /v1/responses``), as OpenAI and Azure speak them.

Source of the shapes: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from typing import Final

from simkit.core.messages import JsonValue, Message
from simkit.providers.body_reader import Record, maybe, need, record_of, records, typed, under
from simkit.providers.chains import INSTRUCTIONS
from simkit.providers.http import HttpRequest, path_of
from simkit.providers.openai.items import messages_of
from simkit.providers.openai.parts import FREE_TEXT
from simkit.providers.openai.responses_parsing import parse_response
from simkit.providers.openai.responses_requests import build_request
from simkit.providers.openai.responses_serving import failed, served
from simkit.providers.values import Offer, ParsedRequest, Protocol

_READ: Final = {
    *("input", "instructions", "model", "previous_response_id", "stream", "text", "tool_choice"),
    "tools",
}
"""Keys that `ParsedRequest` has fields for; all other keys are settings."""


def _speaks(request: HttpRequest) -> bool:
    return request.method == "POST" and path_of(request.url).endswith("/responses")


def _parse_request(request: HttpRequest) -> ParsedRequest:
    body = record_of(request.body)
    choice, allowed = _choice(body)
    output, text = _output(body)
    settings = {key: value for key, value in body.items() if key not in _READ}
    return ParsedRequest(
        protocol=PROTOCOL.name,
        # A stored prompt may give the model.
        model=maybe(body, "model", "") if body.get("prompt") else need(body, "model", str),
        messages=_messages(body),
        offers=tuple(o for tool, at in records(body, "tools") for o in _offers(tool, at)),
        choice=choice,
        output=output,
        settings={**settings, **allowed, **text},
        is_streamed=maybe(body, "stream", False),
        previous=maybe(body, "previous_response_id", "") or _conversation(body),
        hidden=_stored(body),
    )


def _stored(body: Record) -> str:
    """Return the stored prompt whose messages the provider puts before the input."""
    prompt = maybe(body, "prompt", dict[str, JsonValue]())
    return f"prompt {need(prompt, 'id', str, 'prompt')}" if prompt else ""


def _conversation(body: Record) -> str:
    """Return the conversation that the provider keeps, which is a chain of responses too."""
    conversation_id = body.get("conversation")
    if isinstance(conversation_id, dict):
        return need(conversation_id, "id", str, "conversation")
    return maybe(body, "conversation", "")


def _messages(body: Record) -> tuple[Message, ...]:
    messages = list[Message]()
    if instructions := maybe(body, INSTRUCTIONS, ""):
        messages.append(Message("system", instructions, section=INSTRUCTIONS))
    input = body.get("input")
    if isinstance(input, str):
        messages.append(Message("user", input))
    elif input is not None or not body.get("prompt"):
        need(body, "input", list)
        messages += messages_of(records(body, "input"))
    return tuple(messages)


def _offers(tool: Record, at: str) -> list[Offer]:
    kind = maybe(tool, "type", "function", at)
    if kind in ("function", "custom") and isinstance(tool.get(kind), dict) and "name" not in tool:
        # Some clients of compatible servers wrap the function as in chat completions.
        tool, at = need(tool, kind, dict, at), under(at, kind)
    description = maybe(tool, "description", "", at)
    if kind == "function":
        # Without `parameters` a function takes none.
        schema = maybe(tool, "parameters", dict[str, JsonValue](), at) or {"type": "object"}
        return [Offer(need(tool, "name", str, at), schema, description)]
    if kind == "custom":
        return [Offer(need(tool, "name", str, at), FREE_TEXT, description)]
    if kind == "namespace":
        return [o for inner, where in records(tool, "tools", at) for o in _offers(inner, where)]
    return [Offer(maybe(tool, "server_label", kind, at), None, description)]


def _choice(body: Record) -> tuple[str, dict[str, JsonValue]]:
    """Parse which tools may be called; a list of allowed tools stays a setting."""
    key = "tool_choice"
    choice = body.get(key)
    if choice is None:
        return "auto", {}
    if isinstance(choice, str):
        return choice, {}
    record = typed(choice, dict, key)
    kind = need(record, "type", str, key)
    if kind == "allowed_tools":
        return need(record, "mode", str, key), {key: record}
    inner = record.get(kind)
    name = maybe(inner if isinstance(inner, dict) else record, "name", "", key)
    return name or maybe(record, "server_label", kind, key), {}


def _output(body: Record) -> tuple[JsonValue, dict[str, JsonValue]]:
    """Parse the answer's schema, and the other settings under ``text``."""
    text = maybe(body, "text", dict[str, JsonValue]())
    rest = {key: value for key, value in text.items() if key != "format"}
    left: dict[str, JsonValue] = {"text": rest} if rest else {}
    form, place = maybe(text, "format", dict[str, JsonValue](), "text"), under("text", "format")
    if not form:
        return None, left
    kind = need(form, "type", str, place)
    if kind == "json_schema":
        return need(form, "schema", dict, place), left
    return ({"type": "object"} if kind == "json_object" else None), left


PROTOCOL: Final = Protocol(
    name="openai-responses",
    variables={"OPENAI_BASE_URL": "{url}/v1", "AZURE_OPENAI_ENDPOINT": "{url}"},
    keys=("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY"),
    speaks=_speaks,
    parse_request=_parse_request,
    build_request=build_request,
    served=served,
    failed=failed,
    parse_response=parse_response,
    call_prefix="call_",
    keeps_conversations=True,
)
