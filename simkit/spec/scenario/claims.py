"""Claims: what a scenario says must be so."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from simkit.language.matching import kinds
from simkit.spec.fields import (
    AS_MATCHER,
    MATCHER_SCHEMA,
    Count,
    FunctionName,
    MatcherValue,
    YamlModel,
    matcher_of,
    refuse,
)
from simkit.spec.pipeline.recipe import RESERVED

MessageMatcher = Annotated[Any, matcher_of(kinds.MESSAGE), AS_MATCHER]
MessagesMatcher = Annotated[Any, matcher_of(kinds.MESSAGES), AS_MATCHER]
DropsMatcher = Annotated[Any, matcher_of(kinds.DROPS), AS_MATCHER]
NamesMatcher = Annotated[Any, matcher_of(kinds.NAMES), AS_MATCHER]
NumberMatcher = Annotated[Any, matcher_of(kinds.NUMBER), AS_MATCHER]
SharesMatcher = Annotated[Any, matcher_of(kinds.SHARES), AS_MATCHER]
SettingsMatcher = Annotated[Any, matcher_of(kinds.SETTINGS), AS_MATCHER]
HandoffsMatcher = Annotated[Any, matcher_of(kinds.HANDOFFS), AS_MATCHER]
ToolCallsMatcher = Annotated[Any, matcher_of(kinds.TOOL_CALLS), AS_MATCHER]
LogsMatcher = Annotated[Any, matcher_of(kinds.LOGS), AS_MATCHER]
ErrorMatcher = Annotated[Any, matcher_of(kinds.ERROR, alone=str), AS_MATCHER]
EventsMatcher = Annotated[Any, matcher_of(kinds.EVENTS), AS_MATCHER]
StateMatcher = Annotated[Any, matcher_of(kinds.STATE), AS_MATCHER]
UpdateMatcher = Annotated[Any, matcher_of(kinds.UPDATE), AS_MATCHER]
LeftOutMatcher = Annotated[Any, matcher_of(kinds.LEFT_OUT), AS_MATCHER]
FindingMatcher = Annotated[Any, matcher_of(kinds.FINDING), AS_MATCHER]

CONTEXT_CLAIMS: Final = RESERVED
"""What is claimed of a context beside its sections."""


class ContextClaims(YamlModel):
    """What an agent's model calls received; every section's name is a key too.

    What denies or bounds is of every call, what affirms of the first in the turn.
    """

    model_config = ConfigDict(extra="allow")
    noun: ClassVar[str] = "claim on a context"
    __pydantic_extra__: dict[str, MessagesMatcher]

    sections: NamesMatcher = None
    """The sections that made something, in order; of the first call, denials of every one."""
    messages: MessagesMatcher = None
    """All messages in order; of the first call, denials of every one."""
    includes: tuple[MessageMatcher, ...] | None = None
    """Each matches some message of the first call."""
    excludes: tuple[MessageMatcher, ...] | None = None
    """None matches any message of any call, instructions and arguments too."""
    dropped: DropsMatcher = None
    """What the history sections read and left out, in the order of the log."""
    left_out: LeftOutMatcher = None
    """What other sections read and left out: items by channel and place, and what was cut."""
    tools: NamesMatcher = None
    """The tools that every call offers; of code under the names that the model was sent."""
    handoffs: NamesMatcher = None
    """The agents that every call may pass control to."""
    tokens: NumberMatcher = None
    """The size of every context."""
    share: SharesMatcher = None
    """The share of tokens by agent or section, of every call."""
    settings: SettingsMatcher = None
    """The settings of every call."""

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


class RunClaims(YamlModel):
    """What an agent's activations got and gave.

    What denies is of every one, what affirms of the first in the turn.
    """

    noun: ClassVar[str] = "claim on a run"

    received: StateMatcher = None
    """The state it got."""
    input: MatcherValue = None
    """Its input."""
    goal: Annotated[Any, matcher_of(kinds.GOAL), AS_MATCHER] = None
    """The goal that it works for, by its id."""
    output: MatcherValue = None
    """Its output."""
    update: UpdateMatcher = None
    """What it wrote."""
    reply: MatcherValue = None
    """Its final message's text, or value."""
    messages: MessagesMatcher = None
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
    FindingMatcher,
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
        {
            "type": "array",
            "items": {
                "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
            },
        },
        dict(MATCHER_SCHEMA),
    ]
}


class Expect(YamlModel):
    """Claims of a turn; at the top level of a scenario, of the whole run."""

    noun: ClassVar[str] = "claim"

    agents: Annotated[Any, matcher_of(kinds.AGENTS), WithJsonSchema(_AGENTS_SCHEMA)] = None
    """The runs in start order; a nested list is one parallel group in any order."""
    reply: MatcherValue = None
    """The turn's reply: the output of the last finished run."""
    context: dict[str, ContextClaims] = Field(default_factory=dict)
    """What an agent's model calls received: `agent`, `agent[k]`, `agent[-1]`, `agent[*]`,
    `agent[any]`, `agent[run k]`, `agent[run k][j]`, `*`."""
    runs: dict[str, RunClaims] = Field(default_factory=dict)
    """What an agent's activations got and gave: `agent`, `agent[k]`, `agent[*]`, `agent[any]`,
    `*`."""
    state: StateMatcher = None
    """The channels after the turn."""
    handoffs: HandoffsMatcher = None
    """Requests to pass control, in order."""
    tool_calls: ToolCallsMatcher = None
    """Tool calls, in the order in which they were asked for."""
    model_calls: dict[str, Count] | None = None
    """Agent to the number of its model calls; 0 says that it was not asked."""
    logs: LogsMatcher = None
    """Log records of the code's own loggers, in order."""
    events: EventsMatcher = None
    """The events."""
    findings: tuple[FindingClaim, ...] | None = None
    """Lints that must be found here."""
    error: ErrorMatcher = None
    """The run ends with this error."""
    interrupt: MatcherValue = None
    """The turn ends with this question."""
    satisfies: FunctionName | tuple[FunctionName, ...] | None = None
    """A Python predicate of the trace's view."""

    def has(self, key: str) -> bool:
        """Return whether this claim is written."""
        return key in self.model_fields_set
