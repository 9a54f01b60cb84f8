"""Extras of a reply line beside text and calls: thinking, probabilities, citations, ``raw``."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Final

import msgspec
from pydantic import BeforeValidator, Field, WithJsonSchema

from simkit.core import messages as m
from simkit.spec.fields import (
    Count,
    OrText,
    TextValue,
    YamlModel,
    list_schema,
    mapping_schema,
    refuse,
)
from simkit.trace.store import canonical

EXTRA_WORDS: Final = ("thinking", "logprobs", "citations", "raw")
EXTRA_KEYS: Final = frozenset(EXTRA_WORDS)
_ANSWER_WORDS: Final = ("text", "json", "calls", "handoff")
_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "thinking": _ANSWER_WORDS,
    "logprobs": ("text", "json"),
    "citations": ("text",),
    "raw": _ANSWER_WORDS,
}
"""Extra to the kinds of answer that it may accompany."""


class UsageLine(YamlModel):
    """Token counts that the provider reports."""

    input_tokens: Count | None = None
    """Tokens of the context, cached ones included."""
    output_tokens: Count | None = None
    """Tokens of the reply, thinking included."""
    cached_tokens: Count | None = None
    """Tokens of the context that were read from the provider's cache."""
    cache_write_tokens: Count | None = None
    """Tokens of the context that were written to the provider's cache."""
    reasoning_tokens: Count | None = None
    """Tokens of the reply that are thinking."""

    def usage(self) -> m.Usage:
        """Return the token counts as a value."""
        return m.Usage(**dict(self))


def _usage(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    for whole, parts in (
        ("input_tokens", ("cached_tokens", "cache_write_tokens")),
        ("output_tokens", ("reasoning_tokens",)),
    ):
        counts = [value.get(key) for key in parts]
        total = sum(count for count in counts if isinstance(count, int))
        if isinstance(value.get(whole), int) and total > value[whole]:
            raise refuse(
                f"{' and '.join(parts)} are {total}, more than all {whole}",
                advice=f"`{whole}` counts them, too.",
                at=(whole,),
            )
    return value


UsageValue = Annotated[UsageLine, BeforeValidator(_usage)]


class ThinkingLine(YamlModel):
    """The model's thinking before its answer."""

    text: TextValue | None = None
    """The text that the provider shows; without it, none."""
    signature: TextValue = ""
    """The signature by which the provider recognizes it when it is sent back; base64 in Gemini."""


def _thinking(value: Any) -> Any:
    if isinstance(value, (str, int, float)):
        return {"text": value}
    if value is None or value == {}:
        raise refuse("thinking must be a text, or a mapping with text, signature")
    return value


ThinkingValue = Annotated[ThinkingLine, BeforeValidator(_thinking), OrText]


class CitationLine(YamlModel):
    """A page that a provider's own tool found, and the place where the reply cites it."""

    noun: ClassVar[str] = "key of a citation"

    url: TextValue
    """The page's address."""
    title: TextValue = ""
    """Its title."""
    quote: TextValue = ""
    """The quoted words of the page."""
    at: TextValue = ""
    """The words of the reply that cite it; without it, the whole reply."""
    query: TextValue = ""
    """The search query."""


def _logprobs(value: Any) -> Any:
    if not isinstance(value, list) or not value:
        raise refuse("logprobs must be a list of tokens: `- {Yes: -0.1, No: -2.3}`")
    alternatives = []
    for index, token in enumerate(value):
        if not isinstance(token, dict) or not token:
            raise refuse(
                "a token is a mapping of texts to their log probabilities, the one that is said "
                "first: `{Yes: -0.1, No: -2.3}`",
                at=(index,),
            )
        for text, logprob in token.items():
            is_number = isinstance(logprob, (int, float)) and not isinstance(logprob, bool)
            if not is_number or logprob > 0:
                raise refuse("a log probability is a number from 0 down", at=(index, text))
        (text, logprob), *others = ((text, float(number)) for text, number in token.items())
        alternatives.append(m.Token(text, logprob, tuple(others)))
    return tuple(alternatives)


_PROBABILITIES: Final = mapping_schema({"type": "number", "maximum": 0})
LogprobsValue = Annotated[
    Any, BeforeValidator(_logprobs), WithJsonSchema(list_schema(_PROBABILITIES))
]


def _raw(value: Any) -> Any:
    if not isinstance(value, dict) or not value:
        raise refuse("raw must be a mapping, which is merged into the provider's response")
    return canonical(value)


RawValue = Annotated[
    Any, BeforeValidator(_raw), WithJsonSchema({"type": "object", "minProperties": 1})
]


class BesideLine(YamlModel):
    """The extras of a reply line, as a provider would send them."""

    thinking: ThinkingValue | None = None
    """The model's thinking before its answer: a text, or `{text, signature}`."""
    logprobs: LogprobsValue = None
    """The tokens of the text with their log probabilities, the chosen one first."""
    citations: tuple[CitationLine, ...] = Field(default=(), min_length=1)
    """The pages that the text cites."""
    raw: RawValue = None
    """Keys that are merged into the provider's response, for anything that has no key here."""

    def extras(self) -> m.ResponseExtras:
        """Return the extras as a value."""
        line = self.thinking
        if not (line or self.logprobs or self.citations or self.raw):
            return m.NO_EXTRAS
        return m.ResponseExtras(
            None if line is None else m.Thinking(line.text, line.signature),
            self.logprobs or (),
            tuple(m.Citation(c.url, c.title, c.quote, c.at, c.query) for c in self.citations),
            self.raw,
        )


def check_beside(line: Mapping[str, Any]) -> None:
    """Reject extras that do not fit the kind of answer."""
    for word, answers in _NEEDS.items():
        if word not in line or any(key in line for key in answers):
            continue
        other_key = next((key for key in ("function", *line) if key in line and key != word), "")
        advice = (
            "Let the function return it, in the mapping that it returns."
            if other_key == "function"
            else ""
        )
        named = [f"`{key}`" for key in answers]
        listed = " or ".join(filter(None, (", ".join(named[:-1]), named[-1])))
        raise refuse(f"`{word}` stands only beside {listed}", advice=advice, at=(word,))


def schemas_beside() -> dict[str, Any]:
    """Return the rules of `check_beside` as a JSON Schema's `dependentSchemas`."""
    return {
        word: {"anyOf": [{"required": [key]} for key in answers]}
        for word, answers in _NEEDS.items()
    }


def check_words(extras: m.ResponseExtras, text: str) -> None:
    """Reject probabilities and citations for words that the reply does not contain."""
    text_there = "".join(token.text for token in extras.logprobs)
    if extras.logprobs and text_there != text:
        raise refuse(
            f"the tokens are `{text_there}`, and the reply says `{text}`",
            advice="The first key of each mapping is the token that is said, blanks too.",
            at=("logprobs",),
        )
    for index, citation in enumerate(extras.citations):
        if citation.at not in text:
            raise refuse(f"the reply does not say `{citation.at}`", at=("citations", index, "at"))
    ends = sorted(m.spans_of(text, extras.citations), key=lambda span: span[:2])
    for (_, end, _), (start, _, later) in pairwise(ends):
        if start < end:
            raise refuse(
                f"two citations overlap at `{later[0].at or text}`",
                advice="Several citations may stand at the same words, or at others each.",
                at=("citations",),
            )


def json_said(value: Any) -> str:
    """Return a value as the JSON text that a model would write."""
    return msgspec.json.encode(canonical(value)).decode()
