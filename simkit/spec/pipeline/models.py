"""Real models of agents that have no reply lines: ``openai/gpt-5-mini``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, Field, WithJsonSchema

from simkit.spec.fields import Flag, OrText, YamlModel, refuse, text_as
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
