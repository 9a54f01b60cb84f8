"""Gemini's generateContent: rendering of responses.

A stream consists of complete responses, each with one more piece of text or one more call; the last
one has the finish reason and the token counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from simkit.core.errors import WireInvalid
from simkit.core.messages import Fails, Usage, spans_of
from simkit.providers import failures, sse
from simkit.providers.attachments import expect_asked, merged, queries, tokens_of
from simkit.providers.body_reader import json_bytes
from simkit.providers.failures import MALFORMED, Words
from simkit.providers.gemini.parts import parts_said
from simkit.providers.http import HttpResponse
from simkit.providers.skeleton import FailureWriter
from simkit.providers.sse import pieces
from simkit.providers.values import OutgoingReply, ParsedRequest


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
    listed = []
    for token in tokens:
        alike = sorted(
            (*token.others, (token.text, token.logprob)), key=lambda alternative: -alternative[1]
        )
        alternatives = alike[: top if isinstance(top, int) else 0]
        listed.append({"candidates": [_probability(*alternative) for alternative in alternatives]})
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

OWN: Final[Mapping[str, Words]] = {
    "rate_limit": Words(
        429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."
    ),
    "overloaded": Words(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    "server_error": Words(500, "INTERNAL", "An internal error has occurred."),
    "unavailable": Words(503, "UNAVAILABLE", "The service is currently unavailable."),
    "authentication": Words(
        401,
        "UNAUTHENTICATED",
        "Request had invalid authentication credentials. Expected OAuth 2 access token, login "
        "cookie or other valid authentication credential.",
    ),
    "permission": Words(
        403,
        "PERMISSION_DENIED",
        "Permission denied: Consumer does not have access to model {model}.",
    ),
    "not_found": Words(
        404,
        "NOT_FOUND",
        "models/{model} is not found for API version v1beta, or is not supported for "
        "generateContent.",
    ),
    "invalid_request": Words(400, "INVALID_ARGUMENT", "Request contains an invalid argument."),
    "context_overflow": Words(
        400,
        "INVALID_ARGUMENT",
        "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
    ),
    "quota_exceeded": Words(
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
}
"""Failures with an error body: https://ai.google.dev/gemini-api/docs/troubleshooting.

A prompt that the content filter stops is not among them: its response has no candidates.
"""


class _Reply(msgspec.Struct, frozen=True):
    """One candidate, before it is a body or a stream."""

    serial: str
    parts: Sequence[Mapping[str, Any]]
    reason: str
    usage: Usage = Usage(0, 0)
    chunks: tuple[int, ...] | int | None = None
    explanation: str = ""
    """The provider's explanation of the finish reason."""
    own: Mapping[str, Any] = {}
    """Other fields of the candidate: sources of its text, probabilities."""
    raw: Mapping[str, Any] | None = None
    """Merged into the body."""


def served(reply: OutgoingReply, request: ParsedRequest) -> HttpResponse:
    """Render a reply, as a body or as the full stream."""
    reason = {"": "STOP", "length": "MAX_TOKENS"}.get(reply.finish, reply.finish.upper())
    parts = parts_said(reply.message, reply.extras.thinking)
    own = {**grounded(reply), **probable(reply, request)}
    return _rendered(
        _Reply(
            reply.serial, parts, reason, reply.usage, reply.chunks, own=own, raw=reply.extras.raw
        ),
        request,
    )


def _failed_in_stream(
    serial: str, fails: Fails, words: Words, request: ParsedRequest
) -> HttpResponse:
    return _framed([_body(_Reply(serial, [], ""), request), _error(fails, words)], request)


def _refused(_: str, fails: Fails, words: Words, __: ParsedRequest) -> HttpResponse:
    headers = [("content-type", _JSON)]
    if fails.retry_after is not None:
        headers.append(("retry-after", failures.seconds_text(fails.retry_after)))
    return HttpResponse(words.status, tuple(headers), (json_bytes(_error(fails, words)),))


def _error(fails: Fails, words: Words) -> dict[str, Any]:
    error: dict[str, Any] = {
        "code": words.status,
        "message": words.message,
        "status": words.type,
    }
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


_BROKEN: Final = ("refusal", "malformed_json", "empty_reply", "length", *failures.ON_THE_WAY)
_REASONS: Final = failures.Reasons(ended="STOP", cut="MAX_TOKENS", refused="SAFETY")


def _broken(serial: str, fails: Fails, request: ParsedRequest) -> HttpResponse | None:
    """Render a broken reply, or that the content filter has stopped the prompt."""
    if fails.kind == "empty_choices":
        return _framed([{**_body(_Reply(serial, [], ""), request), "candidates": []}], request)
    if fails.kind == "content_filter" and fails.status in (200, 400):
        return _blocked(serial, fails, request)
    if fails.kind not in _BROKEN:
        return None
    if fails.kind == "malformed_json":
        return _rendered(_malformed(serial, request), request)
    parts, reason, why = failures.broken_content(fails, [{"text": fails.message}], _REASONS)
    return _rendered(_Reply(serial, parts, reason, explanation=why), request)


failed: Final = FailureWriter(OWN, _broken, _failed_in_stream, _refused).write


def _malformed(serial: str, request: ParsedRequest) -> _Reply:
    """Break the text; this provider reports a call with invalid JSON instead of sending it."""
    own = [offer.name for offer in request.offers if offer.schema is not None]
    if request.output is None and own:
        name = request.choice if request.choice in own else own[0]
        words = f"Malformed function call: {name}({MALFORMED})"
        return _Reply(serial, [], "MALFORMED_FUNCTION_CALL", explanation=words)
    return _Reply(serial, [{"text": MALFORMED}], "STOP")


def _blocked(serial: str, fails: Fails, request: ParsedRequest) -> HttpResponse:
    body = _body(_Reply(serial, [], ""), request)
    del body["candidates"]
    feedback = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": fails.message}
    return _framed([{"promptFeedback": feedback, **body}], request)


def _rendered(reply: _Reply, request: ParsedRequest) -> HttpResponse:
    body: dict[str, Any] = merged(_body(reply, request), reply.raw or {})
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


def _body(reply: _Reply, request: ParsedRequest) -> dict[str, Any]:
    content: dict[str, Any] = {"role": "model"}
    if reply.parts:
        content = {"parts": list(reply.parts), **content}
    candidate: dict[str, Any] = {"content": content}
    if reply.reason:
        candidate["finishReason"] = reply.reason
    if reply.explanation:
        candidate["finishMessage"] = reply.explanation
    return {
        "candidates": [{**candidate, "index": 0, **reply.own}],
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
