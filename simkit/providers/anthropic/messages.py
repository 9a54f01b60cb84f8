"""Anthropic's messages (``POST /v1/messages``): parsing of requests.

The bodies are those of the current API reference and of the provider's Python library; the beta
endpoint has the same path and the same body.
"""

from __future__ import annotations

from typing import Final

from simkit.core.errors import WireInvalid
from simkit.core.messages import JsonValue, Message
from simkit.providers.anthropic.blocks import Placed, assistant_of, blocks_of, result_of, text_of
from simkit.providers.anthropic.parsing import parse_response
from simkit.providers.anthropic.replies import failed, served
from simkit.providers.anthropic.requests import build_request
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
from simkit.providers.chains import INSTRUCTIONS
from simkit.providers.http import HttpRequest, path_of
from simkit.providers.values import Offer, ParsedRequest, Protocol

_ROLES: Final = ("user", "assistant", "system")
_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}
_READ: Final = {
    *("model", "messages", "system", "tools", "tool_choice", "stream"),
    *("output_config", "output_format", "thread"),
}
_OWN_TOOLS: Final = ("bash_", "browser_", "computer_", "memory_", "text_editor_")
"""Tools that Anthropic defines and the client runs: nobody checks their arguments."""


def _speaks(request: HttpRequest) -> bool:
    return request.method == "POST" and path_of(request.url).endswith("/v1/messages")


def _parse_request(request: HttpRequest) -> ParsedRequest:
    try:
        return _read(record_of(request.body))
    except RecursionError:
        raise WireInvalid("is nested too deep", "body") from None


def _read(body: Record) -> ParsedRequest:
    need(body, "messages", list)
    tools = dict[str, str]()
    messages = _system(body)
    for item, at in records(body, "messages"):
        messages += _messages(item, at, tools)
    choice, one_at_a_time = _choice(body)
    output, config = _output(body)
    settings = {key: value for key, value in body.items() if key not in _READ}
    return ParsedRequest(
        protocol="anthropic",
        model=need(body, "model", str),
        messages=tuple(messages),
        offers=tuple(_offer(tool, at) for tool, at in records(body, "tools")),
        choice=choice,
        output=output,
        settings={**settings, **config, **one_at_a_time},
        is_streamed=maybe(body, "stream", False),
        previous=_previous(body),
    )


def _previous(body: Record) -> str:
    """Return the id of the response that a thread continues; the provider keeps its context."""
    thread = maybe(body, "thread", dict[str, JsonValue]())
    if not thread:
        return ""
    kind = need(thread, "type", str, "thread")
    if kind not in ("create", "continue"):
        raise unknown("thread", kind, ["create", "continue"], "thread.type")
    return need(thread, "previous_message_id", str, "thread") if kind == "continue" else ""


def _system(body: Record) -> list[Message]:
    """Parse the instructions, which each request of a thread repeats; an empty text gives none."""
    text = text_of(blocks_of(body, "", "system"), {})
    section = INSTRUCTIONS if body.get("thread") else ""
    return [Message("system", text, section=section)] if text else []


def _messages(item: Record, at: str, tools: dict[str, str]) -> list[Message]:
    """Parse one message; a user's message with tool results becomes several."""
    role = need(item, "role", str, at)
    if role not in _ROLES:
        raise unknown("role", role, _ROLES, under(at, "role"))
    if item.get("content") is None:
        raise WireInvalid("is missing", under(at, "content"))
    blocks = blocks_of(item, at)
    if role == "assistant":
        message = assistant_of(blocks)
        tools.update((call.id, call.name) for call in message.calls)
        return [message]
    return _results(blocks, role, tools)


def _results(blocks: list[Placed], role: str, tools: dict[str, str]) -> list[Message]:
    """Parse tool results as messages of their own, before the user's text."""
    messages, rest = list[Message](), list[Placed]()
    for block, at in blocks:
        if need(block, "type", str, at) == "tool_result":
            messages.append(result_of(block, at, tools))
        else:
            rest.append((block, at))
    if rest or not messages:
        extras = Extras()
        messages.append(Message(role, text_of(rest, extras), data=extras or None))
    return messages


def _offer(tool: Record, at: str) -> Offer:
    kind = maybe(tool, "type", "custom", at)
    if kind == "custom":
        schema = need(tool, "input_schema", dict, at)
        name = need(tool, "name", str, at)
        return Offer(name, schema, maybe(tool, "description", "", at))
    is_run_by_client = kind.startswith(_OWN_TOOLS)
    return Offer(maybe(tool, "name", kind, at), {} if is_run_by_client else None)


def _choice(body: Record) -> tuple[str, dict[str, JsonValue]]:
    """Parse which tools may be called, and whether only one at a time."""
    if body.get("tool_choice") is None:
        return "auto", {}
    choice = need(body, "tool_choice", dict)
    kind = need(choice, "type", str, "tool_choice")
    key = "disable_parallel_tool_use"
    rest = {key: True} if maybe(choice, key, False, "tool_choice") else {}
    if kind == "tool":
        return need(choice, "name", str, "tool_choice"), rest
    if kind not in _CHOICES:
        raise unknown("choice", kind, [*_CHOICES, "tool"], "tool_choice.type")
    return _CHOICES[kind], rest


def _output(body: Record) -> tuple[JsonValue, dict[str, JsonValue]]:
    """Parse the schema of the answer: ``output_config``, or the older ``output_format``."""
    config = dict(maybe(body, "output_config", dict[str, JsonValue]()))
    place, form = "output_config.format", config.pop("format", None)
    if form is None:
        place, form = "output_format", body.get("output_format")
    rest: dict[str, JsonValue] = {"output_config": config} if config else {}
    if form is None:
        return None, rest
    kind = need(typed(form, dict, place), "type", str, place)
    if kind != "json_schema":
        raise unknown("format", kind, ["json_schema"], under(place, "type"))
    return need(form, "schema", dict, place), rest


PROTOCOL: Final = Protocol(
    name="anthropic",
    variables={"ANTHROPIC_BASE_URL": "{url}"},
    keys=("ANTHROPIC_API_KEY",),
    speaks=_speaks,
    parse_request=_parse_request,
    build_request=build_request,
    served=served,
    failed=failed,
    parse_response=parse_response,
    call_prefix="toolu_",
    keeps_conversations=True,
)
