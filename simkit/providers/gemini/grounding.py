"""Where the text of one of Gemini's candidates comes from, and how probable it is."""

from __future__ import annotations

from typing import Any

from simkit.core.messages import spans_of
from simkit.providers.beside import expect_asked, queries, tokens_of
from simkit.providers.values import Asked, Said


def grounded(said: Said) -> dict[str, Any]:
    """Returns the pages found and the places in the text that cite them, in bytes."""
    citations, text = said.beside.citations, said.message.content
    if not citations:
        return {}
    pages = list({one.url: one for one in citations}.values())
    places = {page.url: number for number, page in enumerate(pages)}
    supports = []
    for start, end, found in spans_of(text, citations):
        segment = {"endIndex": len(text[:end].encode()), "text": text[start:end]}
        if start:
            # A number that is 0 is left out, as in all of Google's JSON.
            segment = {"startIndex": len(text[:start].encode()), **segment}
        cited = [places[one.url] for one in found]
        supports.append({"segment": segment, "groundingChunkIndices": cited})
    return {
        "groundingMetadata": {
            "webSearchQueries": [query for query in queries(citations) if query],
            "groundingChunks": [{"web": {"uri": one.url, "title": one.title}} for one in pages],
            "groundingSupports": supports,
        }
    }


def probable(said: Said, asked: Asked) -> dict[str, Any]:
    """Returns how probable each token is, where a request asks for that."""
    is_asked = asked.settings.get("responseLogprobs") is True
    if not expect_asked(said, is_asked, "`responseLogprobs: true`"):
        return {}
    tokens, top = tokens_of(said), asked.settings.get("logprobs")
    listed = []
    for token in tokens:
        alike = sorted((*token.others, (token.text, token.logprob)), key=lambda one: -one[1])
        shown = alike[: top if isinstance(top, int) else 0]
        listed.append({"candidates": [_probability(*one) for one in shown]})
    total = sum(token.logprob for token in tokens)
    return {
        "avgLogprobs": total / len(tokens) if tokens else 0.0,
        "logprobsResult": {
            "chosenCandidates": [_probability(one.text, one.logprob) for one in tokens],
            "topCandidates": listed,
        },
    }


def _probability(text: str, logprob: float) -> dict[str, Any]:
    return {"token": text, "logProbability": logprob}
