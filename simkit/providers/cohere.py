"""Cohere's chat (``/v2/chat``), whole and as server-sent events.

Its messages are nearly those of OpenAI's chat: simkit translates them, and parses OpenAI's.
Source of the shapes: https://docs.cohere.com/reference/chat and the provider's Python library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from simkit.core.messages import Fails, JsonValue, Message, Usage, spans_of
from simkit.providers import attachments, failures, skeleton, sse, values
from simkit.providers.body_reader import Record, json_text, maybe, need, records, under
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.providers.openai import chat
from simkit.providers.openai.chat_serving import calls_of, fields_of
from simkit.providers.openai.items import checked, error_in, malformed_reply

# Requests, in OpenAI's words


def _whole(request: HttpRequest, body: Record, messages: Sequence[Message]) -> values.ParsedRequest:
    translated = {key: value for key, value in body.items() if key != "documents"}
    translated["tool_choice"] = maybe(body, "tool_choice", "auto").lower()
    form, at = maybe(body, "response_format", dict[str, JsonValue]()), "response_format"
    if schema := maybe(form, "json_schema", dict[str, JsonValue](), at):
        translated[at] = {"type": "json_schema", "json_schema": {"schema": schema}}
    documents = maybe(body, "documents", list[JsonValue]())
    if documents:  # The provider puts them before the messages.
        messages = [Message("system", "\n".join(map(_document, documents))), *messages]
    parsed = chat.whole(request, translated, messages)
    return msgspec.structs.replace(parsed, protocol=PROTOCOL.name)


def _message(item: Record, at: str) -> dict[str, Any]:
    """Return a message; beside calls, the model says its plan instead of a content."""
    texts, thoughts = [maybe(item, "tool_plan", "", at)], list[str]()
    content, parts = item.get("content"), list[Record]()
    if isinstance(content, str):
        texts.append(content)
    else:
        for part, path in records(item, "content", at):
            match maybe(part, "type", "text", path):
                case "text":
                    texts.append(need(part, "text", str, path))
                case "thinking":
                    thoughts.append(need(part, "thinking", str, path))
                case "document":
                    texts.append(_document(need(part, "document", dict, path)))
                case _:
                    parts.append(part)
    glue = "" if item.get("role") == "assistant" else "\n"
    text = glue.join(filter(None, texts))
    translated: dict[str, Any] = {**item, "content": text, "reasoning_content": "".join(thoughts)}
    if parts:
        translated["content"] = [*([{"type": "text", "text": text}] if text else []), *parts]
    return translated


def _document(value: JsonValue) -> str:
    inner = value.get("data", value) if isinstance(value, Mapping) else value
    return inner if isinstance(inner, str) else json_text(inner)


_REQUESTS: Final = skeleton.ItemReader(
    key="messages",
    item=lambda item, at, index, tools: chat.parse_item(_message(item, at), at, index, tools),
    whole=_whole,
)

# Rendering


def _served(reply: values.OutgoingReply, request: values.ParsedRequest) -> HttpResponse:
    attachments.expect_none(reply, "Cohere's replies, as simkit writes them,", "logprobs")
    finish = "MAX_TOKENS" if reply.finish == "length" else "COMPLETE"
    body = attachments.with_raw(
        {
            "id": f"chat-{reply.serial}",
            "finish_reason": "TOOL_CALL" if reply.message.calls else finish,
            "message": {"role": "assistant", **_fields(reply, request)},
            "usage": _usage(reply.usage),
        },
        reply,
    )

    def frames() -> Iterator[bytes]:
        for event in _events(body, reply.chunks):
            yield sse.frame(event, event["type"])
        yield sse.frame(sse.DONE)

    return skeleton.render(body, frames, request)


def _fields(reply: values.OutgoingReply, request: values.ParsedRequest) -> dict[str, Any]:
    chat_fields, fields = fields_of(reply), dict[str, Any]()
    thought = chat_fields.get("reasoning_content")
    text = chat_fields["content"] or chat_fields["refusal"]
    content = [{"type": "thinking", "thinking": thought}] if thought else []
    if reply.message.calls:
        fields = {"tool_plan": text} if text else {}
        fields |= calls_of(reply.message.calls, request)
    elif text:
        content.append({"type": "text", "text": text})
    if content or not reply.message.calls:
        fields["content"] = content
    if reply.extras.citations:
        fields["citations"] = [*_citations(reply)]
    return fields


def _citations(reply: values.OutgoingReply) -> Iterator[dict[str, Any]]:
    text = reply.message.content
    for start, end, citations in spans_of(text, reply.extras.citations):
        sources = [
            {"type": "document", "id": page.url,
             "document": {"id": page.url, "title": page.title, "snippet": page.quote}}
            for page in citations
        ]  # fmt: skip
        span = {"start": start, "end": end, "text": text[start:end]}
        yield {**span, "sources": sources, "type": "TEXT_CONTENT"}


def _usage(usage: Usage) -> dict[str, Any]:
    counts = {"input_tokens": usage.input_tokens or 0, "output_tokens": usage.output_tokens or 0}
    cached = {"cached_tokens": usage.cached_tokens} if usage.cached_tokens else {}
    return {"billed_units": counts, "tokens": counts, **cached}


def _events(
    body: Mapping[str, Any], chunks: tuple[int, ...] | int | None
) -> Iterator[dict[str, Any]]:
    fields = body["message"]
    start = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    yield {"type": "message-start", "id": body["id"], "delta": {"message": start}}
    for piece in sse.pieces(fields.get("tool_plan", ""), chunks):
        yield {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": piece}}}
    for index, block in enumerate(fields.get("content", ())):
        kind = block["type"]
        yield _event("content-start", index, content={"type": kind, kind: ""})
        for piece in sse.pieces(block[kind], chunks):
            yield _event("content-delta", index, content={kind: piece})
        yield {"type": "content-end", "index": index}
    for index, call in enumerate(fields.get("tool_calls", ())):
        function = {**call["function"], "arguments": ""}
        yield _event("tool-call-start", index, tool_calls={**call, "function": function})
        for piece in sse.pieces(call["function"]["arguments"], chunks):
            yield _event("tool-call-delta", index, tool_calls={"function": {"arguments": piece}})
        yield {"type": "tool-call-end", "index": index}
    for index, citation in enumerate(fields.get("citations", ())):
        yield _event("citation-start", index, citations=citation)
        yield {"type": "citation-end", "index": index}
    delta = {"finish_reason": body["finish_reason"], "usage": body["usage"]}
    yield {"type": "message-end", "id": body["id"], "delta": delta}


def _event(kind: str, index: int, **message: JsonValue) -> dict[str, Any]:
    return {"type": kind, "index": index, "delta": {"message": message}}


def _failed_in_stream(
    serial: str, fails: Fails, words: failures.Words, request: values.ParsedRequest
) -> HttpResponse:
    """Render a stream whose end says what went wrong."""
    started = _served(values.empty_reply(serial), request)
    delta = {"error": words.message, "finish_reason": "ERROR", "usage": _usage(Usage(0, 0))}
    last = sse.frame({"type": "message-end", "delta": delta}, "message-end")
    return HttpResponse(200, started.headers, (started.chunks[0], last, sse.frame(sse.DONE)))


# Parsing of responses, in OpenAI's words

_FINISHES: Final = {
    **dict.fromkeys(("COMPLETE", "STOP_SEQUENCE", "TOOL_CALL"), "stop"),
    "MAX_TOKENS": "length",
}


class _Reply(chat.Reply):
    """A reply, whole or built from the events of a stream."""

    def read_body(self, body: Record, status: int) -> None:
        """Read a complete reply."""
        message = _message(need(body, "message", dict), "message")
        self._read(message, body, "", status)

    def read_event(self, body: Record, event: str, at: str, status: int) -> bool:
        """Read one event; unknown kinds are ignored."""
        kind, delta = need(body, "type", str, at), maybe(body, "delta", dict[str, Any](), at)
        message = maybe(delta, "message", dict[str, Any](), at)
        inside = under(at, "delta.message")
        translated, end = dict[str, Any](), dict[str, Any]()
        if kind == "message-start":
            end = {"id": body.get("id")}
        elif kind == "tool-plan-delta":
            translated = {"content": message.get("tool_plan")}
        elif kind in ("content-start", "content-delta"):
            part = need(message, "content", dict, inside)
            translated = {"content": part.get("text"), "reasoning_content": part.get("thinking")}
        elif kind in ("tool-call-start", "tool-call-delta"):
            call = need(message, "tool_calls", dict, inside)
            translated = {"tool_calls": [{**call, "index": maybe(body, "index", 0, at)}]}
        elif kind == "message-end":
            end = delta
        return self._read(translated, end, at, status)

    def _read(self, message: Record, end: Record, at: str, status: int) -> bool:
        reason = maybe(end, "finish_reason", "", at)
        if reason == "ERROR":
            problem = {"error": maybe(end, "error", "", at) or "error"}
            return super().read_event(problem, "", at, status)
        usage = maybe(end, "usage", dict[str, Any](), at)
        counted = maybe(usage, "tokens", dict[str, Any](), under(at, "usage"))
        names = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
        tokens = {name: int(maybe(counted, key, 0.0, at)) for name, key in names.items()}
        details = {"cached_tokens": int(maybe(usage, "cached_tokens", 0.0, at))}
        choice = {"delta": message, "finish_reason": _FINISHES.get(reason, reason.lower())}
        chunk: dict[str, Any] = {"id": end.get("id"), "choices": [choice]}
        if counted:
            chunk["usage"] = {**tokens, "prompt_tokens_details": details}
        return super().read_event(chunk, "", at, status)


PROTOCOL: Final = values.Protocol(
    name="cohere",
    variables={"CO_API_URL": "{url}"},
    keys=("CO_API_KEY", "COHERE_API_KEY"),
    speaks=skeleton.posts_to("/v2/chat", "model", "messages"),
    parse_request=_REQUESTS.parse,
    parse_again=_REQUESTS.parse_again,
    served=_served,
    failed=skeleton.FailureWriter(
        words=failures.WORDS["cohere"],
        served=_served,
        malformed=malformed_reply,
        error=lambda serial, fails, words: {"id": f"req_{serial}", "message": words.message},
        headers=lambda serial, fails, words: (*values.JSON, *failures.retry_after(fails)),
        in_stream=_failed_in_stream,
    ).write,
    parse_response=lambda response, request: checked(
        skeleton.read_response(response, _Reply(""), error_in), request
    ),
    call_prefix="call_",
)
