"""Gemini's generateContent: rendering of responses.

A stream consists of complete responses, each with one more piece of text or one more call; the last
one has the finish reason and the token counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from simkit.core.errors import WireInvalid
from simkit.core.messages import Fails, Message, Usage, spans_of
from simkit.providers import failures, sse
from simkit.providers.attachments import expect_asked, likeliest, queries, tokens_of, with_raw
from simkit.providers.body_reader import json_bytes
from simkit.providers.failures import MALFORMED, WORDS, Words
from simkit.providers.gemini.parts import parts_said
from simkit.providers.http import Headers, HttpResponse
from simkit.providers.skeleton import FailureWriter, called_function
from simkit.providers.sse import pieces
from simkit.providers.values import OutgoingReply, ParsedRequest, empty_reply


def grounded(reply: OutgoingReply) -> dict[str, Any]:
    """Return the pages found and the places in the text that cite them, in bytes."""
    citations, text = reply.extras.citations, reply.message.content
    if not citations:
        return {}
    pages = list({citation.url: citation for citation in citations}.values())
    places = {page.url: number for number, page in enumerate(pages)}
    supports = []
    for start, end, citations_ in spans_of(text, citations):
        segment = {"endIndex": len(text[:end].encode()), "text": text[start:end]}
        if start:
            # A 0 is left out, as in all of Google's JSON.
            segment = {"startIndex": len(text[:start].encode()), **segment}
        cited = [places[citation.url] for citation in citations_]
        supports.append({"segment": segment, "groundingChunkIndices": cited})
    return {
        "groundingMetadata": {
            "webSearchQueries": [query for query in queries(citations) if query],
            "groundingChunks": [
                {"web": {"uri": citation.url, "title": citation.title}} for citation in pages
            ],
            "groundingSupports": supports,
        }
    }


def probable(reply: OutgoingReply, request: ParsedRequest) -> dict[str, Any]:
    """Return the probability of each token, if a request asks for it."""
    is_asked = request.settings.get("responseLogprobs") is True
    if not expect_asked(reply, is_asked, "`responseLogprobs: true`"):
        return {}
    tokens, top = tokens_of(reply), request.settings.get("logprobs")
    listed = [
        {"candidates": [_probability(*row) for row in likeliest(token, top)]} for token in tokens
    ]
    total = sum(token.logprob for token in tokens)
    return {
        "avgLogprobs": total / len(tokens) if tokens else 0.0,
        "logprobsResult": {
            "chosenCandidates": [
                _probability(alternative.text, alternative.logprob) for alternative in tokens
            ],
            "topCandidates": listed,
        },
    }


def _probability(text: str, logprob: float) -> dict[str, Any]:
    return {"token": text, "logProbability": logprob}


# Gemini's generateContent: rendering of responses


_JSON: Final = "application/json; charset=UTF-8"
_TYPES: Final = "type.googleapis.com/google.rpc."

OWN: Final = WORDS["gemini"]


def served(reply: OutgoingReply, request: ParsedRequest) -> HttpResponse:
    """Render a reply, as a body or as the full stream."""
    reason = {"": "STOP", "length": "MAX_TOKENS"}.get(reply.finish, reply.finish.upper())
    body = with_raw(_body(reply, request, reason), reply)
    if not request.is_streamed:
        return _framed([body], request)
    candidate, *others = body["candidates"]
    parts = candidate["content"].get("parts", ())
    cut = [piece for part in parts for piece in _pieces(part, reply.chunks)]
    bodies = [_first_usage(body, candidate, piece) for piece in cut[:-1]]
    if cut:
        candidate = {**candidate, "content": {**candidate["content"], "parts": cut[-1:]}}
    bodies.append({**body, "candidates": [candidate, *others]})
    return _framed(bodies, request)


def _failed_in_stream(
    serial: str, fails: Fails, words: Words, request: ParsedRequest
) -> HttpResponse:
    started = _body(empty_reply(serial), request)
    return _framed([started, _error(serial, fails, words)], request)


def _error_headers(serial: str, fails: Fails, _: Words) -> Headers:
    return (("content-type", _JSON), *failures.retry_after(fails))


def _error(_: str, fails: Fails, words: Words) -> dict[str, Any]:
    error: dict[str, Any] = {"code": words.status, "message": words.message, "status": words.type}
    if details := _details(fails):
        error["details"] = details
    return {"error": error}


def _details(fails: Fails) -> list[dict[str, Any]]:
    details: list[dict[str, Any]] = []
    if fails.kind == "quota_exceeded":
        quota = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}
        details.append({"@type": f"{_TYPES}QuotaFailure", "violations": [quota]})
    if fails.retry_after is not None:
        delay = f"{failures.seconds_text(fails.retry_after)}s"
        details.append({"@type": f"{_TYPES}RetryInfo", "retryDelay": delay})
    return details


def _without_candidates(serial: str, fails: Fails, request: ParsedRequest) -> HttpResponse | None:
    """Render a response without candidates, such as that the content filter stopped the prompt."""
    body = _body(empty_reply(serial), request)
    if fails.kind == "empty_choices":
        return _framed([{**body, "candidates": []}], request)
    if fails.kind != "content_filter" or fails.status not in (200, 400):
        return None
    del body["candidates"]
    feedback = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": fails.message}
    return _framed([{"promptFeedback": feedback, **body}], request)


def _malformed(serial: str, request: ParsedRequest) -> OutgoingReply:
    """Break the text; this provider reports a call with invalid JSON instead of sending it."""
    if name := called_function(request):
        why = f"Malformed function call: {name}({MALFORMED})"
        reply, finish = empty_reply(serial), "malformed_function_call"
        return msgspec.structs.replace(reply, finish=finish, explanation=why)
    return OutgoingReply(serial, Message("assistant", MALFORMED), Usage(0, 0))


failed: Final = FailureWriter(
    words=OWN,
    served=served,
    malformed=_malformed,
    in_stream=_failed_in_stream,
    error=_error,
    headers=_error_headers,
    refusal="safety",
    special=_without_candidates,
).write


def _first_usage(
    body: Mapping[str, Any], candidate: Mapping[str, Any], part: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a response of an unfinished stream: it counts only the input."""
    counted = body["usageMetadata"]
    usage_fields = {"candidatesTokenCount": 0, "totalTokenCount": counted["promptTokenCount"]}
    usage = {key: value for key, value in counted.items() if key != "thoughtsTokenCount"}
    content = {**candidate["content"], "parts": [part]}
    return {
        **body,
        "candidates": [{"content": content, "index": candidate["index"]}],
        "usageMetadata": {**usage, **usage_fields},
    }


def _pieces(
    part: Mapping[str, Any], chunks: tuple[int, ...] | int | None
) -> list[Mapping[str, Any]]:
    """Cut a text; other fields of its part go with the last piece, or with each."""
    if not part.get("text"):
        return [part]
    each = {"thought": True} if part.get("thought") else {}
    bodies: list[Mapping[str, Any]] = [
        {"text": piece, **each} for piece in pieces(part["text"], chunks)
    ]
    return [*bodies[:-1], {**part, **bodies[-1]}]


def _body(reply: OutgoingReply, request: ParsedRequest, reason: str = "") -> dict[str, Any]:
    """Return a response with one candidate; without a ``reason``, it goes on."""
    content: dict[str, Any] = {"role": "model"}
    if parts := parts_said(reply.message, reply.extras.thinking):
        content = {"parts": parts, **content}
    candidate: dict[str, Any] = {"content": content}
    if reason:
        candidate["finishReason"] = reason
    if reply.explanation:
        candidate["finishMessage"] = reply.explanation
    candidate["index"] = 0
    if reason:
        candidate |= {**grounded(reply), **probable(reply, request)}
    return {
        "candidates": [candidate],
        "usageMetadata": _counted(reply.usage),
        "modelVersion": request.model,
        "responseId": f"resp_{reply.serial}",
    }


def _counted(usage: Usage) -> dict[str, Any]:
    """Return the token counts; here the candidates' tokens exclude thoughts."""
    input_tokens, output_tokens = usage.input_tokens or 0, usage.output_tokens or 0
    thought = usage.reasoning_tokens or 0
    if usage.cache_write_tokens:
        raise WireInvalid("Gemini does not count what it writes to a cache", "usage")
    return {
        "promptTokenCount": input_tokens,
        "candidatesTokenCount": output_tokens - thought,
        "totalTokenCount": input_tokens + output_tokens,
        **({"thoughtsTokenCount": thought} if thought else {}),
        **({"cachedContentTokenCount": usage.cached_tokens} if usage.cached_tokens else {}),
    }


def _framed(bodies: Sequence[Mapping[str, Any]], request: ParsedRequest) -> HttpResponse:
    """Put responses into a body, into server-sent events, or into one list in pieces."""
    if not request.is_streamed:
        return HttpResponse(200, (("content-type", _JSON),), (json_bytes(bodies[0]),))
    if request.settings.get("alt") != "json":
        chunks = tuple(sse.frame(dict(body)) for body in bodies)
        return HttpResponse(200, (("content-type", sse.CONTENT_TYPE),), chunks)
    listed = [
        (b",\r\n" if number else b"[") + json_bytes(body) for number, body in enumerate(bodies)
    ]
    return HttpResponse(200, (("content-type", _JSON),), (*listed, b"]"))
