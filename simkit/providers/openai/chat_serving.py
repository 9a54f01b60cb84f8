"""OpenAI's chat completions: rendering of replies and failures, complete or as a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from typing import Any, Final

from simkit.core.errors import WireInvalid
from simkit.core.messages import Fails, JsonValue, ToolCall, Usage
from simkit.providers import attachments, sse
from simkit.providers.body_reader import json_bytes, record_of
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

_CUT: Final = ("reasoning_content", "reasoning", "content", "refusal")
"""Text fields of a message, which a stream sends in pieces; all other fields come whole."""
_CHOICE: Final = ("index", "message", "logprobs", "finish_reason")


def served(reply: OutgoingReply, request: ParsedRequest) -> HttpResponse:
    """Render a reply, as a body or as the full event stream."""
    body = attachments.with_raw(_body(reply, request), reply)
    request_id = ("x-request-id", f"req_{reply.serial}")
    return render(body, lambda: _stream(body, reply, request), request, request_id)


def _body(reply: OutgoingReply, request: ParsedRequest) -> dict[str, Any]:
    message = {"role": "assistant", **fields_of(reply), **calls_of(reply.message.calls, request)}
    choices = [
        {
            "index": index,
            "message": message,
            "logprobs": _logprobs(reply, request),
            "finish_reason": _finish(reply),
        }
        for index in range(_number(request))
    ]
    return {
        "id": f"chatcmpl-{reply.serial}",
        "object": "chat.completion",
        "created": 0,
        "model": request.model,
        "choices": choices,
        "usage": _usage(reply.usage),
        **_tier(request),
    }


def _number(request: ParsedRequest) -> int:
    """Return the number of choices that a request asks for; every choice is the same reply line."""
    number = request.settings.get("n")
    return number if isinstance(number, int) and number > 0 else 1


def _tier(request: ParsedRequest) -> dict[str, JsonValue]:
    """Return the service tier, if a request names one: `auto` becomes `default`."""
    tier = request.settings.get("service_tier")
    return {"service_tier": "default" if tier == "auto" else tier} if tier else {}


def _logprobs(reply: OutgoingReply, request: ParsedRequest) -> JsonValue:
    """Return the probability of each token, if a request asks for it."""
    if not attachments.expect_asked(
        reply, request.settings.get("logprobs") is True, "`logprobs: true`"
    ):
        return None
    return {"content": probabilities(reply, request.settings.get("top_logprobs")), "refusal": None}


def _without_choices(serial: str, fails: Fails, request: ParsedRequest) -> HttpResponse | None:
    """Render a response without choices, as servers send it, for example Azure for its filters."""
    if fails.kind != "empty_choices":
        return None
    whole = served(empty_reply(serial), request)
    if not request.is_streamed:
        body = {**record_of(whole.body), "choices": []}
        return HttpResponse(200, whole.headers, (json_bytes(body),))
    (_, first_chunk), *_ = sse.events(whole.chunks[0])
    first = sse.frame({**record_of(first_chunk.encode()), "choices": []})
    return HttpResponse(200, whole.headers, (first, sse.frame(sse.DONE)))


failed: Final = FailureWriter(
    words=OWN,
    served=served,
    malformed=malformed_reply,
    error=lambda serial, fails, words: {"error": error_body(fails, words, "messages")},
    headers=error_headers,
    special=_without_choices,
).write


def fields_of(reply: OutgoingReply) -> dict[str, JsonValue]:
    """Return the fields of a message beside its calls: content, refusal, reasoning, citations."""
    message = reply.message
    refusal = reply.explanation or refusal_in(message)
    is_silent = refusal is not None or (message.calls and not message.content)
    fields: dict[str, JsonValue] = {
        "content": None if is_silent else message.content,
        "refusal": refusal,
    }
    if reply.extras.citations:
        fields["annotations"] = [
            {"type": "url_citation", "url_citation": citation}
            for citation in cited(message.content, reply.extras.citations)
        ]
    # Encrypted reasoning, which only the Responses interface has, has no text.
    texts = (part.get("text") for part in attachments.parts_in(message, attachments.REASONING))
    reasoning = "".join(text for text in texts if isinstance(text, str)) or _thought(reply)
    # A field of compatible servers.
    return {"reasoning_content": reasoning, **fields} if reasoning else fields


def _thought(reply: OutgoingReply) -> str:
    thinking = reply.extras.thinking
    if thinking is None:
        return ""
    if thinking.signature or thinking.text is None:
        raise WireInvalid(
            "chat completions carry thinking as a text, without a signature; servers that do "
            "more have fields of their own, for `raw`",
            "thinking",
        )
    return thinking.text


def calls_of(calls: tuple[ToolCall, ...], request: ParsedRequest) -> dict[str, JsonValue]:
    """Return the field of a message that holds its calls."""
    if not calls:
        return {}
    if "functions" in request.settings:
        name, text = calls[0].name, arguments_text(calls[0])
        return {"function_call": {"name": name, "arguments": text}}
    return {"tool_calls": [_call(call, arguments_text(call), request) for call in calls]}


def _call(call: ToolCall, text: str, request: ParsedRequest) -> dict[str, JsonValue]:
    if is_custom(call.name, request):
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": text}}
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}}


def _finish(reply: OutgoingReply) -> str:
    if reply.finish and reply.finish != attachments.REFUSAL:
        return reply.finish
    return "tool_calls" if reply.message.calls else "stop"


def _usage(usage: Usage) -> dict[str, JsonValue]:
    input_tokens, output_tokens = usage.input_tokens or 0, usage.output_tokens or 0
    cache_writes = (
        {"cache_write_tokens": usage.cache_write_tokens} if usage.cache_write_tokens else {}
    )
    return {
        "prompt_tokens": input_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_tokens or 0,
            "audio_tokens": 0,
            **cache_writes,
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens or 0,
            "audio_tokens": 0,
        },
    }


def _stream(body: dict[str, Any], reply: OutgoingReply, request: ParsedRequest) -> Iterator[bytes]:
    options = request.settings.get("stream_options")
    reports = isinstance(options, Mapping) and options.get("include_usage") is True
    head = {key: value for key, value in body.items() if key not in ("choices", "usage")}
    head["object"] = "chat.completion.chunk"
    for choices in zip_longest(*(_steps(choice, reply) for choice in body["choices"])):
        present = [choice for choice in choices if choice is not None]
        yield sse.frame({**head, "choices": present, **({"usage": None} if reports else {})})
    if reports:
        yield sse.frame({**head, "choices": [], "usage": body["usage"]})
    yield sse.frame(sse.DONE)


def _steps(choice: dict[str, Any], reply: OutgoingReply) -> Iterator[dict[str, JsonValue]]:
    """Yield one choice, delta by delta; clients read extra fields from the first."""
    message, logprobs = choice["message"], choice["logprobs"]

    def step(delta: JsonValue, finish: str | None = None, tokens: JsonValue = None) -> Any:
        probable = None if tokens is None else {**logprobs, "content": tokens}
        return {
            "index": choice["index"],
            "delta": delta,
            "logprobs": probable,
            "finish_reason": finish,
        }

    rest = {key: value for key, value in choice.items() if key not in _CHOICE}
    first_content = None if message["content"] is None else ""
    yield {**step({"role": message["role"], "content": first_content}), **rest}
    for key, text in message.items():
        if key in _CUT:
            yield from _cut(step, key, text or "", logprobs, reply)
        elif key not in ("role", "tool_calls", "function_call"):
            yield step({key: text})
    for delta in _call_deltas(message, reply):
        yield step(delta)
    yield step({}, choice["finish_reason"])


def _cut(
    step: Callable[..., Any], key: str, text: str, logprobs: JsonValue, reply: OutgoingReply
) -> Iterator[dict[str, JsonValue]]:
    cut = pieces(text, reply.chunks)
    if key != "content" or logprobs is None:
        yield from (step({key: piece}) for piece in cut)
        return
    tokens = logprobs["content"]
    texts = [token["token"] for token in tokens]
    for piece, share in zip(cut, attachments.shares(tokens, texts, cut), strict=True):
        yield step({key: piece}, tokens=share)


def _call_deltas(message: dict[str, Any], reply: OutgoingReply) -> Iterator[dict[str, JsonValue]]:
    """Yield each call as its id and name, then its arguments piece by piece."""
    if call := message.get("function_call"):
        yield {"function_call": {**call, "arguments": ""}}
        for piece in pieces(call["arguments"], reply.chunks):
            yield {"function_call": {"arguments": piece}}
    for index, call in enumerate(message.get("tool_calls") or ()):
        kind = call["type"]
        key = "input" if kind == "custom" else "arguments"
        opened = {**call, kind: {**call[kind], key: ""}}
        yield {"tool_calls": [{"index": index, **opened}]}
        for piece in pieces(call[kind][key], reply.chunks):
            yield {"tool_calls": [{"index": index, kind: {key: piece}}]}
