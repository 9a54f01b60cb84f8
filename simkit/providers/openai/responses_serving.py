"""OpenAI's Responses: rendering of replies and failures, complete or as the full event stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from simkit.core.messages import Fails, JsonValue, Thinking, ToolCall, Usage
from simkit.providers import attachments, sse
from simkit.providers.attachments import INSTRUCTIONS
from simkit.providers.failures import Words
from simkit.providers.http import HttpResponse
from simkit.providers.openai.items import (
    OWN,
    arguments_text,
    cited,
    error_body,
    error_headers,
    is_custom,
    malformed_reply,
    probabilities,
    refusal_in,
)
from simkit.providers.skeleton import FailureWriter, render
from simkit.providers.sse import pieces
from simkit.providers.values import OutgoingReply, ParsedRequest, empty_reply

_OutputItem: TypeAlias = dict[str, Any]
_REASONS: Final = {"length": "max_output_tokens"}
_ARGUMENTS: Final = {
    "function_call": ("response.function_call_arguments", "arguments"),
    "custom_tool_call": ("response.custom_tool_call_input", "input"),
}
"""How call items stream their arguments: the events, and the field."""
_SEARCH: Final = "web_search_call"
_ENCRYPTED: Final = "reasoning.encrypted_content"
_LOGPROBS: Final = "message.output_text.logprobs"
_ECHOED: Final = {
    "metadata": dict[str, JsonValue](),
    "parallel_tool_calls": True,
    "temperature": 1.0,
    "top_p": 1.0,
}
"""Settings that a response repeats, with their defaults."""


def served(reply: OutgoingReply, request: ParsedRequest) -> HttpResponse:
    """Render a reply, as a body or as the full event stream."""
    request_id = ("x-request-id", f"req_{reply.serial}")
    body = _whole(reply, request)
    return render(body, lambda: _stream(body, reply), request, request_id)


def _failed_in_stream(
    serial: str, fails: Fails, words: Words, request: ParsedRequest
) -> HttpResponse:
    reply = empty_reply(serial)
    error = error_body(fails, words, "input")
    started = served(reply, request)
    body = _response(reply, request, "failed", [], None)
    body["error"] = {"code": error["code"] or "server_error", "message": error["message"]}
    kind = "response.failed"
    last = sse.frame({"type": kind, "sequence_number": 2, "response": body}, kind)
    return HttpResponse(200, started.headers, (*started.chunks[:2], last))


failed: Final = FailureWriter(
    words=OWN,
    served=served,
    malformed=malformed_reply,
    in_stream=_failed_in_stream,
    error=lambda serial, fails, words: {"error": error_body(fails, words, "input")},
    headers=error_headers,
).write


def _whole(reply: OutgoingReply, request: ParsedRequest) -> _OutputItem:
    status = "incomplete" if _is_incomplete(reply) else "completed"
    return attachments.with_raw(
        _response(reply, request, status, _items(reply, request), reply.usage), reply
    )


def _is_incomplete(reply: OutgoingReply) -> bool:
    return reply.finish not in ("", "refusal")


def _response(
    reply: OutgoingReply,
    request: ParsedRequest,
    status: str,
    output: list[_OutputItem],
    usage: Usage | None,
) -> _OutputItem:
    reason = _REASONS.get(reply.finish, reply.finish) if status == "incomplete" else ""
    instructions = (m.content for m in request.messages if m.section == INSTRUCTIONS)
    is_named = request.choice not in ("auto", "none", "required")
    return {
        "id": f"resp_{reply.serial}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": next(iter(instructions), None),
        "model": request.model,
        "output": output,
        "previous_response_id": request.previous or None,
        "tool_choice": {"type": "function", "name": request.choice} if is_named else request.choice,
        "tools": [],
        **{key: request.settings.get(key, usual) for key, usual in _ECHOED.items()},
        "usage": None if usage is None else _usage(usage),
    }


def _usage(usage: Usage) -> _OutputItem:
    input_tokens, output_tokens = usage.input_tokens or 0, usage.output_tokens or 0
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens or 0,
            "cache_write_tokens": usage.cache_write_tokens or 0,
        },
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": input_tokens + output_tokens,
    }


def _items(reply: OutgoingReply, request: ParsedRequest) -> list[_OutputItem]:
    """Return the output: reasoning, actions of hosted tools, the text, the calls."""
    message = reply.message
    items = [
        item
        for number, part in enumerate(attachments.parts_in(message, attachments.REASONING))
        if (item := _reasoning(dict(part), f"rs_{reply.serial}_{number}"))
    ]
    if reply.extras.thinking is not None:
        items.append(
            _thought(reply.extras.thinking, reply, request, f"rs_{reply.serial}_{len(items)}")
        )
    items += [dict(part) for part in attachments.parts_in(message, attachments.ITEMS)]
    items += _searches(reply)
    refusal = reply.explanation or refusal_in(message)
    if message.content or refusal:
        part = _text_part(reply, request) if refusal is None else _refusal_part(refusal)
        status = "incomplete" if _is_incomplete(reply) else "completed"
        items.append(_message_item(reply, status, [part]))
    items += [
        _call_item(call, f"fc_{reply.serial}_{number}", request)
        for number, call in enumerate(message.calls)
    ]
    return items


def _reasoning(part: _OutputItem, item_id: str) -> _OutputItem:
    """Return a reasoning item; reasoning text of chat completions becomes a summary."""
    if part.get("type") == "reasoning":
        return {"id": item_id, "summary": [], **part}
    if isinstance(text := part.get("text"), str):
        summary = [{"type": "summary_text", "text": text}]
        return {"id": item_id, "type": "reasoning", "summary": summary}
    return {}


def _thought(
    thinking: Thinking, reply: OutgoingReply, request: ParsedRequest, item_id: str
) -> _OutputItem:
    """Return a thought: its text is the summary, its signature the encrypted content."""
    text = thinking.text
    item: _OutputItem = {
        "id": item_id,
        "type": "reasoning",
        "summary": [] if text is None else [{"type": "summary_text", "text": text}],
    }
    if _ENCRYPTED in _included(request):
        item["encrypted_content"] = attachments.signature_of(thinking, reply.serial)
    return item


def _included(request: ParsedRequest) -> list[JsonValue]:
    """Return the fields that a request asks to include in its response."""
    include = request.settings.get("include")
    return include if isinstance(include, list) else []


def _searches(reply: OutgoingReply) -> list[_OutputItem]:
    return [
        {
            "id": f"ws_{reply.serial}_{number}",
            "type": "web_search_call",
            "status": "completed",
            "action": {
                "type": "search",
                "query": query,
                "sources": [{"type": "url", "url": page.url} for page in pages],
            },
        }
        for number, (query, pages) in enumerate(attachments.queries(reply.extras.citations).items())
    ]


def _message_item(reply: OutgoingReply, status: str, content: list[_OutputItem]) -> _OutputItem:
    return {
        "id": f"msg_{reply.serial}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def _text_part(reply: OutgoingReply, request: ParsedRequest) -> _OutputItem:
    text, logprobs = reply.message.content, list[_OutputItem]()
    if attachments.expect_asked(
        reply, _LOGPROBS in _included(request), f"`include: [{_LOGPROBS}]`"
    ):
        logprobs = probabilities(reply, request.settings.get("top_logprobs"))
    citations = cited(text, reply.extras.citations)
    annotations = [{"type": "url_citation", **citation} for citation in citations]
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": logprobs}


def _refusal_part(text: str) -> _OutputItem:
    return {"type": "refusal", "refusal": text}


def _call_item(call: ToolCall, item_id: str, request: ParsedRequest) -> _OutputItem:
    kind, key = "function_call", "arguments"
    if is_custom(call.name, request):
        kind, key = "custom_tool_call", "input"
    return {
        "id": item_id,
        "type": kind,
        "call_id": call.id,
        "name": call.name,
        key: arguments_text(call),
        "status": "completed",
    }


class _Numbered:
    """Numbered events of one stream."""

    def __init__(self) -> None:
        self._next = 0

    def frame(self, kind: str, **fields: JsonValue) -> bytes:
        """Return the next event."""
        number, self._next = self._next, self._next + 1
        return sse.frame({"type": kind, "sequence_number": number, **fields}, kind)


def _stream(whole: _OutputItem, reply: OutgoingReply) -> Iterator[bytes]:
    numbered = _Numbered()
    first_response: _OutputItem = {**whole, "status": "in_progress", "output": [], "usage": None}
    first_response["incomplete_details"] = None
    yield numbered.frame("response.created", response=first_response)
    yield numbered.frame("response.in_progress", response=first_response)
    for index, item in enumerate(whole["output"]):
        yield from _streamed_item(numbered, index, item, reply)
    yield numbered.frame(f"response.{whole['status']}", response=whole)


def _streamed_item(
    numbered: _Numbered, index: int, item: _OutputItem, reply: OutgoingReply
) -> Iterator[bytes]:
    kind = item["type"]
    opened = item
    if kind == "message":
        opened = {**item, "status": "in_progress", "content": []}
    elif kind == "reasoning":
        opened = {**item, "summary": []}
    elif kind == _SEARCH:
        opened = {**item, "status": "in_progress"}
    elif kind in _ARGUMENTS:
        opened = {**item, "status": "in_progress", _ARGUMENTS[kind][1]: ""}
    yield numbered.frame("response.output_item.added", output_index=index, item=opened)
    where = {"item_id": item.get("id", ""), "output_index": index}
    if kind == "message":
        for position, part in enumerate(item["content"]):
            yield from _streamed_part(numbered, {**where, "content_index": position}, part, reply)
    elif kind == "reasoning":
        yield from _streamed_summary(numbered, where, item["summary"], reply)
    elif kind == _SEARCH:
        for stage in ("in_progress", "searching", "completed"):
            yield numbered.frame(f"response.{_SEARCH}.{stage}", **where)
    elif kind in _ARGUMENTS:
        event, key = _ARGUMENTS[kind]
        for piece in pieces(item[key], reply.chunks):
            yield numbered.frame(f"{event}.delta", **where, delta=piece)
        # Events of custom tools do not name the tool.
        name = {"name": item["name"]} if kind == "function_call" else {}
        yield numbered.frame(f"{event}.done", **where, **name, **{key: item[key]})
    yield numbered.frame("response.output_item.done", output_index=index, item=item)


def _streamed_part(
    numbered: _Numbered, where: _OutputItem, part: _OutputItem, reply: OutgoingReply
) -> Iterator[bytes]:
    key = "refusal" if part["type"] == "refusal" else "text"
    event, is_text = f"response.{part['type']}", key == "text"
    tokens, annotations = part.get("logprobs") or [], part.get("annotations") or []
    empty = {**part, key: "", **({"annotations": [], "logprobs": []} if is_text else {})}
    yield numbered.frame("response.content_part.added", **where, part=empty)
    cut = pieces(part[key], reply.chunks)
    probable = attachments.shares(tokens, [token["token"] for token in tokens], cut)
    for piece, share in zip(cut, probable, strict=True):
        logprobs: _OutputItem = {"logprobs": share} if is_text else {}
        yield numbered.frame(f"{event}.delta", **where, delta=piece, **logprobs)
    for number, annotation in enumerate(annotations):
        yield numbered.frame(
            f"{event}.annotation.added", **where, annotation_index=number, annotation=annotation
        )
    logprobs = {"logprobs": tokens} if is_text else {}
    yield numbered.frame(f"{event}.done", **where, **{key: part[key]}, **logprobs)
    yield numbered.frame("response.content_part.done", **where, part=part)


def _streamed_summary(
    numbered: _Numbered, where: _OutputItem, summary: JsonValue, reply: OutgoingReply
) -> Iterator[bytes]:
    """Yield the parts of a summary; a summary that a script made of other values has none."""
    parts = summary if isinstance(summary, list) else []
    for number, part in enumerate(parts):
        text = part.get("text") if isinstance(part, dict) else None
        if not isinstance(text, str):
            continue
        at, event = {**where, "summary_index": number}, "response.reasoning_summary"
        yield numbered.frame(f"{event}_part.added", **at, part={**part, "text": ""})
        for piece in pieces(text, reply.chunks):
            yield numbered.frame(f"{event}_text.delta", **at, delta=piece)
        yield numbered.frame(f"{event}_text.done", **at, text=text)
        yield numbered.frame(f"{event}_part.done", **at, part=part)
