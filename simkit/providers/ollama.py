"""Ollama's own interface (``/api/chat``, ``/api/generate``), whole and as a stream of JSON lines.

Its messages are those of OpenAI's chat in other words: simkit translates them, and parses OpenAI's.
Source of the shapes: https://github.com/ollama/ollama (docs/api.md, api/types.go, server/routes.go)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from simkit.core.errors import WireInvalid
from simkit.core.messages import Fails, JsonValue
from simkit.providers import attachments, failures, skeleton, sse, streams, values
from simkit.providers.body_reader import (
    Record,
    json_bytes,
    json_text,
    maybe,
    need,
    record_of,
    records,
)
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.providers.openai import chat
from simkit.providers.openai.chat_serving import fields_of
from simkit.providers.openai.items import error_in, malformed_reply

_READ: Final = ("format", "images", "prompt", "system")
_GENERATES: Final = {"interface": "generate"}
"""The setting of a request for a completion, whose replies have other keys."""
_is_chat: Final = skeleton.posts_to("/api/chat", "model", "messages")
_is_generate: Final = skeleton.posts_to("/api/generate", "model", "prompt")


def _parse_request(request: HttpRequest) -> values.ParsedRequest:
    """Parse a request in OpenAI's words; raise WireInvalid, naming the field."""
    try:
        body = record_of(request.body)
        own = {key: value for key, value in body.items() if key not in _READ}
        if _is_generate(request):
            system, user = maybe(body, "system", ""), {"role": "user", "content": body["prompt"]}
            first = [{"role": "system", "content": system}] if system else []
            body = {"messages": [*first, {**user, "images": body.get("images")}]}
            own |= _GENERATES
        calls = skeleton.Numbered()
        need(body, "messages", list)
        own["messages"] = [_message(item, at, calls) for item, at in records(body, "messages")]
        own["stream"] = own.get("stream") is not False
        if form := record_of(request.body).get("format"):
            named = {"type": "json_schema", "json_schema": {"schema": form}}
            own["response_format"] = {"type": "json_object"} if form == "json" else named
        as_chat = msgspec.structs.replace(request, body=json_bytes(own))
        parsed = chat.PROTOCOL.parse_request(as_chat)
        # The tokens of earlier requests, which nobody else can read.
        hidden = "context" if own.get("context") else ""
        return msgspec.structs.replace(parsed, protocol=PROTOCOL.name, hidden=hidden)
    except RecursionError:
        raise WireInvalid("is nested too deep", "body") from None


def _message(item: Record, at: str, calls: skeleton.Numbered) -> dict[str, Any]:
    role, text = need(item, "role", str, at), maybe(item, "content", "", at)
    own: dict[str, Any] = {"role": role, "content": text}
    if images := maybe(item, "images", list[JsonValue](), at):
        urls = [{"url": f"data:image/*;base64,{image}"} for image in images]
        parts = [{"type": "image_url", "image_url": url} for url in urls]
        own["content"] = [*([{"type": "text", "text": text}] if text else []), *parts]
    if thought := maybe(item, "thinking", "", at):
        own["reasoning_content"] = thought
    if role == "tool":
        name = maybe(item, "tool_name", "", at) or maybe(item, "name", "", at)
        own["tool_call_id"], own["name"] = calls.answered(maybe(item, "tool_call_id", "", at), name)
    for call, path in records(item, "tool_calls", at):
        function = need(call, "function", dict, path)
        name, args = need(function, "name", str, path), function.get("arguments") or {}
        call_id = calls.called(maybe(call, "id", "", path), name)
        arguments = args if isinstance(args, str) else json_text(args)
        named = {"name": name, "arguments": arguments}
        as_chat = {"id": call_id, "index": calls.count, "type": "function", "function": named}
        own.setdefault("tool_calls", []).append(as_chat)
    return own


def _served(reply: values.OutgoingReply, request: values.ParsedRequest) -> HttpResponse:
    attachments.expect_none(reply, "Ollama's replies", "citations", "logprobs")
    fields = fields_of(reply)
    text: dict[str, Any] = {"content": fields["content"] or fields["refusal"] or ""}
    reasoning = fields.get("reasoning_content")
    thought: dict[str, Any] = {"thinking": reasoning} if reasoning else {}
    calls = [
        {"id": call.id, "function": {"index": index, "name": call.name, "arguments": call.args}}
        for index, call in enumerate(reply.message.calls)
    ]
    counts = {
        "prompt_eval_count": reply.usage.input_tokens or 0,
        "eval_count": reply.usage.output_tokens or 0,
    }
    times = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
    reason = "length" if reply.finish == "length" else "stop"
    end: dict[str, Any] = {"done": True, "done_reason": reason, **dict.fromkeys(times, 0), **counts}
    parts = {**text, **thought, **({"tool_calls": calls} if calls else {})}
    body = attachments.with_raw({**_beginning(parts, request), **end}, reply)

    def lines() -> Iterator[bytes]:
        for key, whole in {**thought, **text, "tool_calls": [[call] for call in calls]}.items():
            for each in sse.pieces(whole, reply.chunks) if isinstance(whole, str) else whole:
                start = _beginning({"content": "", key: each}, request)
                yield streams.line({**start, "done": False})
        yield streams.line({**body, **_beginning({"content": ""}, request)})

    return skeleton.render(body, lines, request, kind=streams.LINES)


def _beginning(parts: dict[str, Any], request: values.ParsedRequest) -> dict[str, Any]:
    """Return what a reply, or a line of it, says beside the end."""
    head = {"model": request.model, "created_at": "1970-01-01T00:00:00Z"}
    if request.settings.get("interface") != "generate":
        return {**head, "message": {"role": "assistant", **parts}}
    return {**head, **{"response" if k == "content" else k: value for k, value in parts.items()}}


def _failed_in_stream(
    serial: str, fails: Fails, words: failures.Words, request: values.ParsedRequest
) -> HttpResponse:
    first = streams.line({**_beginning({"content": ""}, request), "done": False})
    last = streams.line({"error": words.message})
    return HttpResponse(200, (("content-type", streams.LINES),), (first, last))


class _Reply(chat.Reply):
    """A reply, whole or built from the lines of a stream."""

    def __init__(self, request: values.ParsedRequest) -> None:
        super().__init__("")
        self._numbered = skeleton.Numbered(sum(len(message.calls) for message in request.messages))

    def read_body(self, body: Record, status: int) -> None:
        """Read a complete reply."""
        self.read_event(body, "", "", status)

    def read_event(self, body: Record, event: str, at: str, status: int) -> bool:
        """Read one line."""
        if body.get("error"):
            return super().read_event(body, event, at, status)
        message: Record = {"content": body.get("response"), "thinking": body.get("thinking")}
        message = {**maybe(body, "message", message, at), "role": "assistant"}
        choice: dict[str, Any] = {"delta": _message(message, at, self._numbered)}
        own: dict[str, Any] = {"choices": [choice]}
        if maybe(body, "done", False, at):
            choice["finish_reason"] = maybe(body, "done_reason", "stop", at)
            if "eval_count" in body:
                counts = maybe(body, "prompt_eval_count", 0, at), body["eval_count"]
                own["usage"] = {"prompt_tokens": counts[0], "completion_tokens": counts[1]}
        return super().read_event(own, event, at, status)


PROTOCOL: Final = values.Protocol(
    name="ollama",
    variables={"OLLAMA_HOST": "{url}"},
    keys=("OLLAMA_API_KEY",),
    asks_key=False,
    speaks=lambda request: _is_chat(request) or _is_generate(request),
    parse_request=_parse_request,
    served=_served,
    failed=skeleton.FailureWriter(
        words=failures.WORDS["ollama"],
        served=_served,
        malformed=malformed_reply,
        error=lambda serial, fails, words: {"error": words.message},
        headers=lambda serial, fails, words: values.JSON,
        in_stream=_failed_in_stream,
    ).write,
    parse_response=lambda response, request: skeleton.read_response(
        response, _Reply(request), error_in
    ),
    call_prefix="call_",
)
