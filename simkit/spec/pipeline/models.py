"""Real models of agents that have no reply lines, ``openai/gpt-5-mini``, and what they cost."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, Field, WithJsonSchema

from simkit.core.errors import SourceError
from simkit.core.messages import Usage
from simkit.language.yaml import DocumentCache
from simkit.spec.fields import Flag, OrText, TextValue, YamlModel, refuse, shown_value, text_as
from simkit.spec.loading import validated
from simkit.spec.refers_to import RefersTo

PROVIDERS: Final[Mapping[str, str]] = {
    "openai": "openai-chat",
    "openai-responses": "openai-responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
}
"""Provider names in pipelines, and the protocol of each."""
DEFAULT: Final = "default"
"""The key for agents without a model of their own."""
_RESERVED_SETTINGS: Final = frozenset(
    ("contents", "input", "instructions", "messages", "model", "response_format", "responseSchema",
     "responseJsonSchema", "responseMimeType", "stream", "system", "systemInstruction", "tools")
)  # fmt: skip
"""Settings that simkit sets itself: messages, tools and schemas."""


def _model_name(value: Any) -> Any:
    provider, slash, name = value.partition("/") if isinstance(value, str) else ("", "", "")
    if not slash or not name:
        raise refuse(
            f"`{value}` names no model",
            known=tuple(PROVIDERS),
            advice="Write provider and model: `openai/gpt-5-mini`.",
        )
    if provider not in PROVIDERS:
        raise refuse(f"unknown provider `{provider}`", known=tuple(PROVIDERS), word=provider)
    return value


def _settings(value: Any) -> Any:
    if isinstance(value, Mapping):
        for key in value:
            if key in _RESERVED_SETTINGS:
                raise refuse(
                    f"`{key}` is no setting: simkit writes it",
                    advice="Settings are what requests say beside the pipeline: `temperature: 0`.",
                )
    return value


ModelName = Annotated[
    str,
    BeforeValidator(_model_name),
    WithJsonSchema({"type": "string", "pattern": f"^({'|'.join(PROVIDERS)})/."}),
]


class ModelOptions(YamlModel):
    """A real model for an agent, and its request settings."""

    noun: ClassVar[str] = "option of a model"
    model: ModelName
    """Provider and model: `openai/gpt-5-mini`. Providers: openai (chat completions),
    openai-responses, anthropic, gemini."""
    stream: Flag = False
    """Whether its replies are streamed."""
    settings: Annotated[dict[str, Any], BeforeValidator(_settings)] = Field(default_factory=dict)
    """Further settings of its requests, by the provider's own names: `temperature: 0`."""

    @property
    def protocol(self) -> str:
        """Return the protocol of its requests."""
        return PROVIDERS[self.model.partition("/")[0]]

    @property
    def name(self) -> str:
        """Return its name at the provider."""
        return self.model.partition("/")[2]


Models = dict[
    Annotated[str, RefersTo("definition", also=(DEFAULT,))],
    Annotated[ModelOptions, text_as("model"), OrText],
]


def _dollars(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise refuse(f"must be a number of US dollars, not {shown_value(value)}")
    return float(value)


Dollars = Annotated[float, BeforeValidator(_dollars)]


class Price(YamlModel):
    """The price of one model, in US dollars for a million tokens."""

    noun: ClassVar[str] = "key of a price"
    input: Dollars
    """Tokens of the context."""
    output: Dollars
    """Tokens of the reply, thinking included."""
    cached_input: Dollars | None = None
    """Tokens that were read from the provider's cache; else as `input`."""
    cache_write: Dollars | None = None
    """Tokens that were written to the provider's cache; else as `input`."""

    def cost_of(self, usage: Usage) -> float | None:
        """Return the cost of a call in US dollars; None if the provider did not say its tokens."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        cached, stored = usage.cached_tokens or 0, usage.cache_write_tokens or 0
        cached_price = self.input if self.cached_input is None else self.cached_input
        stored_price = self.input if self.cache_write is None else self.cache_write
        uncached = max(usage.input_tokens - cached - stored, 0)
        total = uncached * self.input + cached * cached_price + stored * stored_price
        return (total + usage.output_tokens * self.output) / 1_000_000


class PriceTable(YamlModel):
    """A file of prices."""

    prices: dict[str, Price] = Field(default_factory=dict)
    """Model, as requests name it, to its price; a provider before it (`openai/…`) is allowed."""

    def price_of(self, model: str) -> Price | None:
        """Return the price of a model, by the name in its requests; None if it is not listed."""
        return self._by_request().get(model)

    def _by_request(self) -> Mapping[str, Price]:
        named = {}
        for name, price in self.prices.items():
            provider, _, model = name.partition("/")
            named[model if provider in PROVIDERS and model else name] = price
        return named


def prices_in(file: str) -> PriceTable:
    """Return the prices in a file; raise SourceError for one that is missing or wrong."""
    if not Path(file).is_file():
        raise SourceError(
            file,
            "there is no such file of prices",
            advice="Write one: `prices: {gpt-5-mini: {input: 0.25, output: 2.0}}`, in US dollars "
            "for a million tokens.",
        )
    documents = DocumentCache().documents(file)
    if len(documents) != 1:
        raise SourceError(file, f"a file of prices holds one document, not {len(documents)}")
    return validated(PriceTable, documents[0])


# Waivers: findings that a file turns off under `lints`, everywhere or at a place.
#
# ::
#
#     lints:
#       CTX-07: the echo is intended
#       RUN-02: {"app.py:265": the spinner's clock, subprocess.run: it only prints}
#
# A place is anything that the finding names: a file with its line, an effect, an agent, a tool,
# `turn 2`.


WHOLE: Final = ""
"""The place of a waiver that applies everywhere."""


def _by_place(value: Any) -> Any:
    return value if isinstance(value, (Mapping, list)) else {WHOLE: value}


Waivers = dict[
    str, Annotated[dict[str, TextValue], Field(min_length=1), BeforeValidator(_by_place), OrText]
]
"""Lint or finding to its places, each with the reason."""


def is_off(waivers: Mapping[str, Mapping[str, str]], code: str) -> bool:
    """Return whether a lint or finding is turned off everywhere."""
    return WHOLE in waivers.get(code, ())


def places_off(waivers: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield each lint or finding with each place at which it is turned off."""
    for code, places in waivers.items():
        yield from ((code, place) for place in places if place != WHOLE)


def reasons(waivers: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield each waiver, ``RUN-02`` or ``RUN-02 at app.py:265``, with the reason."""
    for code, places in waivers.items():
        for place, reason in places.items():
            yield (f"{code} at {place}" if place else code), reason


def names_place(texts: Iterable[str], place: str) -> bool:
    """Return whether one of the texts contains a place as whole words."""
    search = _pattern(place).search
    return any(search(text) for text in texts)


@lru_cache(maxsize=256)
def _pattern(place: str) -> re.Pattern[str]:
    before = r"(?<![\w-])(?<!\w\.)" if re.match(r"\w", place) else ""
    after = r"(?![\w-])" if re.search(r"\w$", place) else ""
    return re.compile(before + re.escape(place) + after)
