"""Anthropic's messages (``POST /v1/messages``): parsing of requests.

The bodies are those of the current API reference and of the provider's Python library; the beta
endpoint has the same path and the same body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from simkit.core.errors import WireInvalid
from simkit.core.messages import Fails, JsonValue, Message, Usage
from simkit.providers import attachments as extra
from simkit.providers import failures
from simkit.providers.anthropic.replies import (
    Placed,
    assistant_of,
    blocks_of,
    blocks_said,
    failed,
    result_of,
    served,
    text_of,
)
from simkit.providers.attachments import (
    INSTRUCTIONS,
    Extras,
    instructions_apart,
    is_failed,
    results_grouped,
)
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
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.providers.skeleton import ItemReader, posts_to, read_response
from simkit.providers.values import JSON, Offer, ParsedRequest, ParsedResponse, Protocol

_ROLES: Final = ("user", "assistant", "system")
_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}
_READ: Final = {
    *("model", "messages", "system", "tools", "tool_choice", "stream"),
    *("output_config", "output_format", "thread"),
}
_OWN_TOOLS: Final = ("bash_", "browser_", "computer_", "memory_", "text_editor_")
"""Tools that Anthropic defines and the client runs: nobody checks their arguments."""


def whole(request: HttpRequest, body: Record, messages: Sequence[Message]) -> ParsedRequest:
    """Return the request of a body, and the messages in it."""
    choice, one_at_a_time = _choice(body)
    output, config = _output(body)
    settings = {key: value for key, value in body.items() if key not in _READ}
    return ParsedRequest(
        protocol="anthropic",
        model=need(body, "model", str),
        messages=(*_system(body), *messages),
        offers=tuple(_offer(tool, at) for tool, at in records(body, "tools")),
        choice=choice,
        output=output,
        settings={**settings, **config, **one_at_a_time},
        is_streamed=maybe(body, "stream", False),
        previous=_previous(body),
        marks=_marks(request),
    )


_MARK: Final = "cache_control"


def _marks(request: HttpRequest) -> tuple[tuple[int, int], ...]:
    """Return the places of `ParsedRequest.marks`: after tools, in the system text, after messages.

    One for the whole request, at its top, stands after the last message.
    """
    if _MARK.encode() not in request.body:
        return ()
    body = record_of(request.body)
    marks = {(0, 0)} if any(_MARK in tool for tool, _ in records(body, "tools")) else set()
    size = count = 0
    for index, (block, at) in enumerate(blocks_of(body, "", "system")):
        size, count = size + bool(index) + len(text_of([(block, at)], Extras())), 1
        if _MARK in block:
            marks.add((0, size))
    for item, at in records(body, "messages"):
        blocks = blocks_of(item, at)
        count += len(parse_item(item, at, 0, {}))
        if any(_MARK in block for block, _ in blocks):
            marks.add((count, 0))
    return tuple(sorted(marks | ({(count, 0)} if _MARK in body else set())))


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


def parse_item(item: Record, at: str, _: int, tools: dict[str, str]) -> list[Message]:
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


_REQUESTS: Final = ItemReader(key="messages", item=parse_item, whole=whole)


def _offer(tool: Record, at: str) -> Offer:
    kind = maybe(tool, "type", "custom", at)
    if kind == "custom":
        schema = need(tool, "input_schema", dict, at)
        name = need(tool, "name", str, at)
        description = maybe(tool, "description", "", at)
        return Offer(name, schema, description, maybe(tool, "strict", False, at))
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
    at, form = "output_config.format", config.pop("format", None)
    if form is None:
        at, form = "output_format", body.get("output_format")
    rest: dict[str, JsonValue] = {"output_config": config} if config else {}
    if form is None:
        return None, rest
    kind = need(typed(form, dict, at), "type", str, at)
    if kind != "json_schema":
        raise unknown("format", kind, ["json_schema"], under(at, "type"))
    return need(form, "schema", dict, at), rest


# Anthropic's messages: building of requests


URL: Final = "https://api.anthropic.com/v1/messages"
TOKENS_MAX: Final = 4096
"""The maximum length of a reply in tokens if nobody gives it: the provider requires a number."""
_ONE_AT_A_TIME: Final = "disable_parallel_tool_use"
_WRITTEN_CHOICES: Final = {"none": "none", "required": "any", "auto": "auto"}


def build_request(request: ParsedRequest) -> HttpRequest:
    """Build the request; parsing it gives the same values again.

    Leading system messages become the request's instructions, a text block each; others keep their
    places. Consecutive tool results are one message of the user, as the provider requires for
    parallel calls.
    """
    instructions, rest = instructions_apart(request.messages)
    system = [{"type": "text", "text": text} for text in instructions]
    settings = dict(request.settings)
    is_alone = settings.pop(_ONE_AT_A_TIME, False)
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": TOKENS_MAX,
        **({"system": system} if system else {}),
        "messages": [*map(_message_body, results_grouped(rest))],
        **settings,
    }
    if request.offers:
        body["tools"] = [_tool(offer) for offer in request.offers]
    if request.choice != "auto" or is_alone:
        kind = _WRITTEN_CHOICES.get(request.choice)
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


def _message_body(messages: list[Message]) -> dict[str, Any]:
    """Return one message, or the tool results that are one."""
    first = messages[0]
    if first.role == "tool":
        return {"role": "user", "content": [_result(message) for message in messages]}
    content = blocks_said(first) if first.role == "assistant" else first.content
    return {"role": first.role, "content": content}


def _result(message: Message) -> dict[str, Any]:
    failed = {"is_error": True} if is_failed(message) else {}
    return {
        "type": "tool_result",
        "tool_use_id": message.call_id,
        "content": message.content,
        **failed,
    }


def _tool(offer: Offer) -> dict[str, Any]:
    strict = {"strict": True} if offer.strict else {}
    return {**offer.described, "input_schema": offer.schema, **strict}


# Anthropic's messages: parsing of responses


_FINISHES: Final = {
    **dict.fromkeys(("", "end_turn", "tool_use", "stop_sequence"), ""),
    **dict.fromkeys(("max_tokens", "model_context_window_exceeded"), "length"),
    # Bedrock's own.
    "content_filtered": "refusal",
    "guardrail_intervened": "content_filter",
}
"""Finish reasons with a name of simkit's; others keep theirs."""


def parse_response(response: HttpResponse, _: ParsedRequest) -> ParsedResponse:
    """Parse a response, streamed or not, complete or cut; raise WireInvalid for an invalid one."""
    return read_response(response, Reply(), _error)


def _parse_message(record: Record, error: Fails | None) -> ParsedResponse:
    """Parse a message, complete or as far as it came."""
    message = assistant_of(blocks_of(record, ""))
    finish = maybe(record, "stop_reason", "")
    if finish == "refusal":
        details = maybe(record, "stop_details", dict[str, Any]())
        message = extra.explained(message, maybe(details, "explanation", "", "stop_details"))
    usage = maybe(record, "usage", dict[str, Any]())
    return ParsedResponse(
        message,
        usage=_usage(usage) if usage else None,
        finish=_FINISHES.get(finish, finish),
        id=maybe(record, "id", ""),
        error=error,
    )


def _usage(usage: Record) -> Usage:
    """Parse the token counts; the provider's ``input_tokens`` exclude cached ones."""
    read = _tokens(usage, "cache_read_input_tokens") or 0
    cache_writes = _tokens(usage, "cache_creation_input_tokens") or 0
    input_tokens = _tokens(usage, "input_tokens")
    details = maybe(usage, "output_tokens_details", dict[str, Any](), "usage")
    return Usage(
        None if input_tokens is None else input_tokens + read + cache_writes,
        _tokens(usage, "output_tokens"),
        read or None,
        cache_writes or None,
        _tokens(details, "thinking_tokens") or None,
    )


def _tokens(usage: Record, key: str) -> int | None:
    return need(usage, key, int, "usage") if usage.get(key) is not None else None


def _error(record: Record, status: int) -> Fails:
    error = need(record, "error", dict)
    return _fails(need(error, "type", str, "error"), need(error, "message", str, "error"), status)


def _fails(type: str, message: str, status: int) -> Fails:
    kind = failures.kind_of("anthropic", type, message)
    return Fails(kind or failures.kind_of_status(status), status, message)


class Reply:
    """A message, whole or built from the events of a stream."""

    def __init__(self) -> None:
        self.message: dict[str, Any] = {}
        self.error: Fails | None = None
        self.is_over = False
        self.blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, str] = {}

    def read_body(self, body: Record, status: int) -> None:
        """Read a complete message, or an error."""
        if body.get("type") == "error":
            self.error = _error(body, status)
            return
        need(body, "content", list)
        self.message, self.is_over = dict(body), True

    def read_event(self, body: Record, event: str, at: str, status: int) -> bool:
        """Read one event; unknown kinds are ignored, as the API reference asks."""
        match need(body, "type", str, at):
            case "message_start":
                message = need(body, "message", dict, at)
                self.message = {key: value for key, value in message.items() if key != "content"}
            case "content_block_start":
                index = need(body, "index", int, at)
                self.blocks[index] = dict(need(body, "content_block", dict, at))
            case "content_block_delta":
                self._extend(body, at)
            case "message_delta":
                self._finish(body, at)
            case "message_stop":
                self.is_over = True
            case "error":
                self.error = _error(body, status)
        return False

    def _extend(self, event: Record, at: str) -> None:
        index, delta = need(event, "index", int, at), need(event, "delta", dict, at)
        block, path = self.blocks.get(index), under(at, "delta")
        if block is None:
            raise WireInvalid(f"is {index}, which no block has that began", under(at, "index"))
        match need(delta, "type", str, path):
            case "input_json_delta":
                piece = need(delta, "partial_json", str, path)
                self._inputs[index] = self._inputs.get(index, "") + piece
            case "text_delta":
                block["text"] = maybe(block, "text", "", at) + need(delta, "text", str, path)
            case "thinking_delta":
                thought = need(delta, "thinking", str, path)
                block["thinking"] = maybe(block, "thinking", "", at) + thought
            case "compaction_delta":
                block["content"] = delta.get("content")
            case "signature_delta":
                block["signature"] = need(delta, "signature", str, path)
            case "citations_delta":
                cited = maybe(block, "citations", list[Any](), at)
                block["citations"] = [*cited, delta.get("citation")]

    def _finish(self, event: Record, at: str) -> None:
        delta = need(event, "delta", dict, at)
        usage = maybe(self.message, "usage", dict[str, Any]())
        counted = maybe(event, "usage", dict[str, Any](), at)
        counts = {key: value for key, value in counted.items() if value is not None}
        self.message = {**self.message, **delta, "usage": {**usage, **counts}}

    def parse(self, ends: str, *, is_done: bool) -> ParsedResponse:
        """Return the message as far as it has arrived, unfinished blocks too."""
        error = self.error or failures.broken(ends, self.is_over)
        if not self.message and error is None:
            raise WireInvalid("has no `message_start`", "body")
        for index, text in self._inputs.items():
            if text:
                self.blocks[index]["input"] = input_of(text)
        blocks = [self.blocks[index] for index in sorted(self.blocks)]
        return _parse_message({"content": blocks, **self.message}, error)


def input_of(text: str) -> Any:
    """Parse a call's arguments; a text that is no JSON object stays a text."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


PROTOCOL: Final = Protocol(
    name="anthropic",
    variables={"ANTHROPIC_BASE_URL": "{url}"},
    keys=("ANTHROPIC_API_KEY",),
    speaks=posts_to("/v1/messages"),
    parse_request=_REQUESTS.parse,
    parse_again=_REQUESTS.parse_again,
    build_request=build_request,
    served=served,
    failed=failed,
    parse_response=parse_response,
    call_prefix="toolu_",
    keeps_conversations=True,
)
