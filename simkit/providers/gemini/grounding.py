"""Sources and probabilities of the text of one of Gemini's candidates."""

from __future__ import annotations

from typing import Any

from simkit.core.messages import spans_of
from simkit.providers.beside import expect_asked, queries, tokens_of
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
