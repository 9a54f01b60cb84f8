"""Claims: what a scenario says must be so."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from simkit.pipeline.recipe import RESERVED
from simkit.shape import (
    MATCHER_SCHEMA,
    Count,
    FunctionName,
    MatcherValue,
    Written,
    refuse,
)

_SELECTOR: Final = re.compile(r"(?P<agent>.*)\[(?P<index>-?\d+|\*)\]", re.DOTALL)

CONTEXT_CLAIMS: Final = RESERVED
"""What is claimed of a context beside its sections."""


def selected(key: str) -> tuple[str, str]:
    """Splits `agent[2]` into the agent and `2`; without a place it is the first: `0`."""
    found = _SELECTOR.fullmatch(key)
    return (found["agent"], found["index"]) if found else (key, "0")


class ContextClaims(Written):
    """What one model call must have received; every section's name is a key too."""

    model_config = ConfigDict(extra="allow")
    noun: ClassVar[str] = "claim on a context"
    __pydantic_extra__: dict[str, MatcherValue]

    sections: MatcherValue = None
    """The sections that made something, in order."""
    messages: MatcherValue = None
    """All messages in order."""
    includes: tuple[MatcherValue, ...] | None = None
    """Each matches some message."""
    excludes: tuple[MatcherValue, ...] | None = None
    """None matches any message, instructions and arguments too."""
    dropped: MatcherValue = None
    """What the history sections read and left out, in the order of the log."""
    left_out: MatcherValue = None
    """What other sections read and left out: items by channel and place, and what was cut."""
    tools: MatcherValue = None
    """The tools offered."""
    tokens: MatcherValue = None
    """The context's size."""
    share: MatcherValue = None
    """The share of tokens by agent or section."""
    settings: MatcherValue = None
    """The call's settings."""

    @classmethod
    def known_keys(cls) -> tuple[str, ...]:
        class _Any(tuple[str, ...]):
            def __contains__(self, _key: object) -> bool:
                return True

        return _Any(CONTEXT_CLAIMS)

    def claimed(self) -> dict[str, Any]:
        """Every claim that is written, by its key."""
        own: dict[str, Any] = {
            key: getattr(self, key) for key in CONTEXT_CLAIMS if key in self.model_fields_set
        }
        return {**own, **(self.model_extra or {})}


class RunClaims(Written):
    """What one activation of an agent got and gave."""

    noun: ClassVar[str] = "claim on a run"

    received: MatcherValue = None
    """The state it got."""
    input: MatcherValue = None
    """Its input."""
    output: MatcherValue = None
    """Its output."""
    update: MatcherValue = None
    """What it wrote."""
    reply: MatcherValue = None
    """Its final message's text, or value."""
    messages: MatcherValue = None
    """What it said and heard."""


def _finding(value: Any) -> Any:
    if isinstance(value, str):
        return {"id": value}
    if not isinstance(value, dict):
        raise refuse("a finding must be a lint's id, or a mapping with `id`")
    if "id" not in value:
        raise refuse("a claimed finding needs its lint's `id`")
    return value


FindingClaim = Annotated[
    MatcherValue,
    BeforeValidator(_finding),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "required": ["id"],
                    "additionalProperties": dict(MATCHER_SCHEMA),
                },
            ]
        }
    ),
]

_AGENTS_SCHEMA = {
    "anyOf": [
        {"type": "array", "items": {"anyOf": [
            {"type": "string"}, {"type": "array", "items": {"type": "string"}}
        ]}},
        dict(MATCHER_SCHEMA),
    ]
}  # fmt: skip


class Expect(Written):
    """Claims of a turn; at the top level of a scenario, of the whole run."""

    noun: ClassVar[str] = "claim"

    agents: Annotated[MatcherValue, WithJsonSchema(_AGENTS_SCHEMA)] = None
    """The runs in start order; a nested list is one parallel group in any order."""
    reply: MatcherValue = None
    """The turn's reply: the output of the last finished run."""
    context: dict[str, ContextClaims] = Field(default_factory=dict)
    """What an agent's model calls received: `agent`, `agent[k]`, `agent[-1]`, `agent[*]`, `*`."""
    runs: dict[str, RunClaims] = Field(default_factory=dict)
    """What an agent's activations got and gave."""
    state: MatcherValue = None
    """The channels after the turn."""
    handoffs: MatcherValue = None
    """Requests to pass control, in order."""
    tool_calls: MatcherValue = None
    """Tool calls in order."""
    model_calls: dict[str, Count] | None = None
    """Agent to the number of its model calls; 0 says that it was not asked."""
    events: MatcherValue = None
    """The events."""
    findings: tuple[FindingClaim, ...] | None = None
    """Lints that must be found here."""
    error: MatcherValue = None
    """The run ends with this error."""
    interrupt: MatcherValue = None
    """The turn ends with this question."""
    satisfies: FunctionName | tuple[FunctionName, ...] | None = None
    """A Python predicate of the trace's view."""

    def has(self, key: str) -> bool:
        """Whether this claim is written."""
        return key in self.model_fields_set
