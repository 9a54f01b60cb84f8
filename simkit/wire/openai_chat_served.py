"""Replies and failures of OpenAI's chat completions, whole or as a stream."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from simkit.messages import Fails, JsonValue, Message, ToolCall, Usage
from simkit.wire import sse
from simkit.wire.attachments import REASONING, REFUSAL, parts_in
from simkit.wire.failing import comes_in_stream, damaged, unanswered
from simkit.wire.http import HttpAnswer, HttpResponse
from simkit.wire.openai_failing import OWN, broken_reply, error_body, refused
from simkit.wire.openai_parts import arguments_text, is_custom, refusal_in
from simkit.wire.pieces import pieces
from simkit.wire.reading import json_bytes, record_of
from simkit.wire.values import Asked, Said

_WORDS: Final = re.compile(r"\s*\S+|\s+$")


def served(said: Said, asked: Asked) -> HttpResponse:
    """Renders an answer, as a body or as the full event stream."""
    request_id = ("x-request-id", f"req_{said.serial}")
    if asked.is_streamed:
        chunks = tuple(_stream(said, asked))
        return HttpResponse(200, (("content-type", sse.CONTENT_TYPE), request_id), chunks)
    message = {"role": "assistant", **_fields(said.message), **_calls(said.message.calls, asked)}
    choices = [
        {
            "index": index, "message": message, "logprobs": _logprobs(said.message.content, asked),
            "finish_reason": _finish(said),
        }
        for index in range(_number(asked))
    ]  # fmt: skip
    body = {
        "id": f"chatcmpl-{said.serial}",
        "object": "chat.completion",
        "created": 0,
        "model": asked.model,
        "choices": choices,
        "usage": _usage(said.usage),
        **_tier(asked),
    }
    headers = (("content-type", "application/json"), request_id)
    return HttpResponse(200, headers, (json_bytes(body),))


def _number(asked: Asked) -> int:
    """Returns how many choices are asked for; a reply line is the answer in each of them."""
    number = asked.settings.get("n")
    return number if isinstance(number, int) and number > 0 else 1


def _tier(asked: Asked) -> dict[str, JsonValue]:
    """Returns the tier that serves, where a request names one: `auto` is `default`."""
    tier = asked.settings.get("service_tier")
    return {"service_tier": "default" if tier == "auto" else tier} if tier else {}


def _logprobs(text: str, asked: Asked) -> JsonValue:
    """Returns a probability of 1 for each word, where a request asks for probabilities."""
    if asked.settings.get("logprobs") is not True:
        return None
    top = asked.settings.get("top_logprobs")
    tokens = []
    for word in _WORDS.findall(text):
        token = {"token": word, "logprob": 0.0, "bytes": [*word.encode()]}
        tokens.append({**token, "top_logprobs": [token] if top else []})
    return {"content": tokens, "refusal": None}


def failed(serial: str, fails: Fails, asked: Asked) -> HttpAnswer:
    """Renders a failure as OpenAI fails: an error, or a reply that is broken."""
    if (nothing := unanswered(fails)) is not None:
        return nothing
    if (said := broken_reply(serial, fails, asked)) is not None:
        if fails.kind == "empty_choices":
            return _without_choices(said, asked)
        return damaged(served(said, asked), fails.kind)
    if asked.is_streamed and comes_in_stream(fails, OWN):
        began = served(Said(serial, Message("assistant"), Usage(0, 0)), asked)
        error = sse.frame({"error": error_body(fails, asked, "messages")[1]})
        return HttpResponse(200, began.headers, (began.chunks[0], error))
    return refused(serial, fails, asked, "messages")


def _without_choices(said: Said, asked: Asked) -> HttpResponse:
    """Renders what servers are seen to send that have nothing to say, as Azure's do of filters."""
    whole = served(said, asked)
    if not asked.is_streamed:
        body = {**record_of(whole.body), "choices": []}
        return HttpResponse(200, whole.headers, (json_bytes(body),))
    (_, begun), *_ = sse.events(whole.chunks[0])
    first = sse.frame({**record_of(begun.encode()), "choices": []})
    return HttpResponse(200, whole.headers, (first, sse.frame(sse.DONE)))


def _fields(message: Message) -> dict[str, JsonValue]:
    """Returns what a message says beside its calls: content, refusal, reasoning."""
    refusal = refusal_in(message)
    is_silent = refusal is not None or (message.calls and not message.content)
    found = {"content": None if is_silent else message.content, "refusal": refusal}
    # Encrypted reasoning, which only the Responses interface has, has no text.
    texts = (part.get("text") for part in parts_in(message, REASONING))
    reasoning = "".join(text for text in texts if isinstance(text, str))
    # Compatible servers' own field.
    return {"reasoning_content": reasoning, **found} if reasoning else found


def _calls(calls: tuple[ToolCall, ...], asked: Asked) -> dict[str, JsonValue]:
    if not calls:
        return {}
    if "functions" in asked.settings:
        name, text = calls[0].name, arguments_text(calls[0])
        return {"function_call": {"name": name, "arguments": text}}
    return {"tool_calls": [_call(call, arguments_text(call), asked) for call in calls]}


def _call(call: ToolCall, text: str, asked: Asked) -> dict[str, JsonValue]:
    if is_custom(call.name, asked):
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": text}}
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}}


def _finish(said: Said) -> str:
    if said.finish and said.finish != REFUSAL:
        return said.finish
    return "tool_calls" if said.message.calls else "stop"


def _usage(usage: Usage) -> dict[str, JsonValue]:
    read, written = usage.input_tokens or 0, usage.output_tokens or 0
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def _stream(said: Said, asked: Asked) -> Iterator[bytes]:
    options = asked.settings.get("stream_options")
    reports = isinstance(options, Mapping) and options.get("include_usage") is True
    head: dict[str, JsonValue] = {
        "id": f"chatcmpl-{said.serial}",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": asked.model,
        **_tier(asked),
    }

    def chunk(delta: JsonValue, finish: str | None = None, text: str = "") -> bytes:
        logprobs = _logprobs(text, asked) if text else None
        choices = [
            {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
            for index in range(_number(asked))
        ]
        usage = {"usage": None} if reports else {}
        return sse.frame({**head, "choices": choices, **usage})

    fields = _fields(said.message)
    yield chunk({"role": "assistant", "content": None if fields["content"] is None else ""})
    for key, text in fields.items():
        for piece in pieces(text or "", said.chunks):
            yield chunk({key: piece}, text=piece if key == "content" else "")
    for delta in _call_deltas(said, asked):
        yield chunk(delta)
    yield chunk({}, _finish(said))
    if reports:
        yield sse.frame({**head, "choices": [], "usage": _usage(said.usage)})
    yield sse.frame(sse.DONE)


def _call_deltas(said: Said, asked: Asked) -> Iterator[dict[str, JsonValue]]:
    """Yields each call as its id and name, then its arguments piece by piece."""
    calls = said.message.calls
    if "functions" in asked.settings:
        for call in calls[:1]:
            yield {"function_call": {"name": call.name, "arguments": ""}}
            for piece in pieces(arguments_text(call), said.chunks):
                yield {"function_call": {"arguments": piece}}
        return
    for index, call in enumerate(calls):
        opened = _call(call, "", asked)
        yield {"tool_calls": [{"index": index, **opened}]}
        kind = opened["type"]
        key = "input" if kind == "custom" else "arguments"
        for piece in pieces(arguments_text(call), said.chunks):
            yield {"tool_calls": [{"index": index, kind: {key: piece}}]}
