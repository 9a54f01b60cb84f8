"""Replies and failures of OpenAI's chat completions, whole or as a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from typing import Any, Final

from simkit.core.errors import WireInvalid
from simkit.core.messages import Fails, JsonValue, Message, ToolCall, Usage
from simkit.providers import sse
from simkit.providers.attachments import REASONING, REFUSAL, parts_in
from simkit.providers.beside import expect_asked, shares, with_raw
from simkit.providers.body_reader import json_bytes, record_of
from simkit.providers.chunks import pieces
from simkit.providers.failing import comes_in_stream, damaged, unanswered
from simkit.providers.http import HttpAnswer, HttpResponse
from simkit.providers.openai.errors import OWN, broken_reply, error_body, refused
from simkit.providers.openai.parts import (
    arguments_text,
    cited,
    is_custom,
    probabilities,
    refusal_in,
)
from simkit.providers.values import Asked, Said

_CUT: Final = ("reasoning_content", "reasoning", "content", "refusal")
"""The texts of a message, which a stream brings in pieces; all else comes whole."""
_CHOICE: Final = ("index", "message", "logprobs", "finish_reason")


def served(said: Said, asked: Asked) -> HttpResponse:
    """Renders an answer, as a body or as the full event stream."""
    request_id = ("x-request-id", f"req_{said.serial}")
    body = with_raw(_body(said, asked), said)
    if asked.is_streamed:
        chunks = tuple(_stream(body, said, asked))
        return HttpResponse(200, (("content-type", sse.CONTENT_TYPE), request_id), chunks)
    headers = (("content-type", "application/json"), request_id)
    return HttpResponse(200, headers, (json_bytes(body),))


def _body(said: Said, asked: Asked) -> dict[str, Any]:
    message = {"role": "assistant", **_fields(said), **_calls(said.message.calls, asked)}
    choices = [
        {
            "index": index,
            "message": message,
            "logprobs": _logprobs(said, asked),
            "finish_reason": _finish(said),
        }
        for index in range(_number(asked))
    ]
    return {
        "id": f"chatcmpl-{said.serial}",
        "object": "chat.completion",
        "created": 0,
        "model": asked.model,
        "choices": choices,
        "usage": _usage(said.usage),
        **_tier(asked),
    }


def _number(asked: Asked) -> int:
    """Returns how many choices are asked for; a reply line is the answer in each of them."""
    number = asked.settings.get("n")
    return number if isinstance(number, int) and number > 0 else 1


def _tier(asked: Asked) -> dict[str, JsonValue]:
    """Returns the tier that serves, where a request names one: `auto` is `default`."""
    tier = asked.settings.get("service_tier")
    return {"service_tier": "default" if tier == "auto" else tier} if tier else {}


def _logprobs(said: Said, asked: Asked) -> JsonValue:
    """Returns how probable each token is, where a request asks for that."""
    if not expect_asked(said, asked.settings.get("logprobs") is True, "`logprobs: true`"):
        return None
    return {"content": probabilities(said, asked.settings.get("top_logprobs")), "refusal": None}


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


def _fields(said: Said) -> dict[str, JsonValue]:
    """Returns what a message says beside its calls: content, refusal, reasoning, citations."""
    message = said.message
    refusal = refusal_in(message)
    is_silent = refusal is not None or (message.calls and not message.content)
    found: dict[str, JsonValue] = {
        "content": None if is_silent else message.content,
        "refusal": refusal,
    }
    if said.beside.citations:
        found["annotations"] = [
            {"type": "url_citation", "url_citation": citation}
            for citation in cited(message.content, said.beside.citations)
        ]
    # Encrypted reasoning, which only the Responses interface has, has no text.
    texts = (part.get("text") for part in parts_in(message, REASONING))
    reasoning = "".join(text for text in texts if isinstance(text, str)) or _thought(said)
    # Compatible servers' own field.
    return {"reasoning_content": reasoning, **found} if reasoning else found


def _thought(said: Said) -> str:
    thinking = said.beside.thinking
    if thinking is None:
        return ""
    if thinking.signature or thinking.text is None:
        raise WireInvalid(
            "chat completions carry thinking as a text, without a signature; servers that do "
            "more have fields of their own, for `raw`",
            "thinking",
        )
    return thinking.text


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
    kept = {"cache_write_tokens": usage.cache_write_tokens} if usage.cache_write_tokens else {}
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_tokens or 0,
            "audio_tokens": 0,
            **kept,
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens or 0,
            "audio_tokens": 0,
        },
    }


def _stream(body: dict[str, Any], said: Said, asked: Asked) -> Iterator[bytes]:
    options = asked.settings.get("stream_options")
    reports = isinstance(options, Mapping) and options.get("include_usage") is True
    head = {key: value for key, value in body.items() if key not in ("choices", "usage")}
    head["object"] = "chat.completion.chunk"
    for choices in zip_longest(*(_steps(choice, said) for choice in body["choices"])):
        present = [choice for choice in choices if choice is not None]
        yield sse.frame({**head, "choices": present, **({"usage": None} if reports else {})})
    if reports:
        yield sse.frame({**head, "choices": [], "usage": body["usage"]})
    yield sse.frame(sse.DONE)


def _steps(choice: dict[str, Any], said: Said) -> Iterator[dict[str, JsonValue]]:
    """Yields one choice, delta by delta; clients take fields of its own from the first."""
    message, logprobs = choice["message"], choice["logprobs"]

    def step(delta: JsonValue, finish: str | None = None, tokens: JsonValue = None) -> Any:
        probable = None if tokens is None else {**logprobs, "content": tokens}
        return {
            "index": choice["index"],
            "delta": delta,
            "logprobs": probable,
            "finish_reason": finish,
        }

    own = {key: value for key, value in choice.items() if key not in _CHOICE}
    begun = None if message["content"] is None else ""
    yield {**step({"role": message["role"], "content": begun}), **own}
    for key, text in message.items():
        if key in _CUT:
            yield from _cut(step, key, text or "", logprobs, said)
        elif key not in ("role", "tool_calls", "function_call"):
            yield step({key: text})
    for delta in _call_deltas(message, said):
        yield step(delta)
    yield step({}, choice["finish_reason"])


def _cut(
    step: Callable[..., Any], key: str, text: str, logprobs: JsonValue, said: Said
) -> Iterator[dict[str, JsonValue]]:
    cut = pieces(text, said.chunks)
    if key != "content" or logprobs is None:
        yield from (step({key: piece}) for piece in cut)
        return
    tokens = logprobs["content"]
    texts = [token["token"] for token in tokens]
    for piece, share in zip(cut, shares(tokens, texts, cut), strict=True):
        yield step({key: piece}, tokens=share)


def _call_deltas(message: dict[str, Any], said: Said) -> Iterator[dict[str, JsonValue]]:
    """Yields each call as its id and name, then its arguments piece by piece."""
    if call := message.get("function_call"):
        yield {"function_call": {**call, "arguments": ""}}
        for piece in pieces(call["arguments"], said.chunks):
            yield {"function_call": {"arguments": piece}}
    for index, call in enumerate(message.get("tool_calls") or ()):
        kind = call["type"]
        key = "input" if kind == "custom" else "arguments"
        opened = {**call, kind: {**call[kind], key: ""}}
        yield {"tool_calls": [{"index": index, **opened}]}
        for piece in pieces(call[kind][key], said.chunks):
            yield {"tool_calls": [{"index": index, kind: {key: piece}}]}
