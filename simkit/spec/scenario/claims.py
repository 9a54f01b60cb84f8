"""Claims: the statements of a scenario under `expect:`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, NamedTuple

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from simkit.core.messages import ABSENT
from simkit.core.patterns import late_pattern
from simkit.language.matching import kinds
from simkit.language.matching.polarity import Polarity, polarity_of
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
from simkit.spec.scenario.questions import JudgeClaims, Question, question_of

ALL_AGENTS: Final = "*"
EVERY: Final = "*"
SOME: Final = "any"
BOUNDING: Final = ("excludes", "tools", "handoffs", "tokens", "share", "settings")
"""Claims on contexts that always deny or bound: each concerns every call in scope."""
AFFIRMING: Final = ("includes",)
"""Claims on contexts that always affirm."""
FORMS: Final = "`{0}[0]` is the first, `{0}[-1]` the last, `{0}[*]` every one, `{0}[any]` some one"
RUN_FORMS: Final = "`{0}[run 1][0]` the first call of its second run"
SELECTOR_PHRASES: Final = (
    "`the first {1} of {0}`, `the last {1} of {0}`, `every {1} of {0}`, `some {1} of {0}`"
)
RUN_SPOKEN: Final = "`the first {1} of {0} in its second run`"
"""The same word in features."""

_KEY: Final = late_pattern(
    r"(?P<agent>.*?)(?:\[run (?P<run>-?\d+)\])?(?:\[(?P<which>-?\d+|\*|any)\])?", re.DOTALL
)
_MALFORMED: Final = late_pattern(r"(?P<agent>[^\[\]]+)(?P<rest>\[.*\])", re.DOTALL)


class Selector(NamedTuple):
    """The calls, or runs, that a key selects."""

    agent: str
    """The agent, or ``*`` for all."""
    run: int | None
    """The index of the run with the calls; None for all runs."""
    which: str
    """An index, ``*``, ``any``; or empty if the claim itself decides."""

    @property
    def is_plain(self) -> bool:
        """Return whether it names an agent, and neither a call nor a run."""
        return not self.which and self.run is None and self.agent != ALL_AGENTS

    @property
    def place(self) -> int | None:
        """Return the index of the selected call; None if it selects several."""
        return None if self.which in ("", EVERY, SOME) else int(self.which)


@lru_cache
def selected(key: str) -> Selector:
    """Parse a key; ``*`` alone selects every call of every agent."""
    match = _KEY.fullmatch(key)
    assert match is not None
    run = None if match["run"] is None else int(match["run"])
    which = match["which"] or ""
    if match["agent"] == ALL_AGENTS and run is None and not which:
        which = EVERY
    return Selector(match["agent"], run, which)


def malformed(key: str) -> tuple[str, str] | None:
    """Return the agent and the brackets of a malformed key; None for a valid one."""
    match = _MALFORMED.fullmatch(selected(key).agent)
    return (match["agent"], match["rest"]) if match else None


def claimed_polarity(name: str, matcher: Any) -> Polarity:
    """Return the polarity of a claim: it affirms, it denies, or both."""
    if name in BOUNDING:
        return Polarity(False, matcher)
    if name in AFFIRMING:
        return Polarity(True, ABSENT)
    return polarity_of(matcher)


# Claims: the statements of a scenario under `expect:`


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
"""Claims on a context beside those on its sections."""


class ContextClaims(YamlModel):
    """Claims on the contexts of an agent's model calls; every section's name is a key too.

    A claim that denies or bounds concerns every call; a claim that affirms, the first in the turn.
    """

    model_config = ConfigDict(extra="allow")
    noun: ClassVar[str] = "claim on a context"
    __pydantic_extra__: dict[str, MessagesMatcher]

    sections: NamesMatcher = None
    """The non-empty sections in order; of the first call, denials of every call."""
    messages: MessagesMatcher = None
    """All messages in order; of the first call, denials of every call."""
    includes: tuple[MessageMatcher, ...] | None = None
    """Each matches some message of the first call."""
    excludes: tuple[MessageMatcher, ...] | None = None
    """None matches any message of any call, instructions and arguments too."""
    dropped: DropsMatcher = None
    """Messages that history sections read and dropped, in the order of the log."""
    left_out: LeftOutMatcher = None
    """Items that other sections read and left out, by channel and place, and values that were
    cut."""
    tools: NamesMatcher = None
    """The tools that every call offers; for code, under the names that the model received."""
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
        """Return every claim that is written, by its key."""
        keys = self.model_fields_set
        fields = self.__dict__
        own: dict[str, Any] = {key: fields[key] for key in CONTEXT_CLAIMS if key in keys}
        return {**own, **(self.__pydantic_extra__ or {})}


class RunClaims(YamlModel):
    """Claims on an agent's runs.

    A claim that denies concerns every run; a claim that affirms, the first in the turn.
    """

    noun: ClassVar[str] = "claim on a run"

    received: StateMatcher = None
    """The state that it received."""
    input: MatcherValue = None
    """Its input."""
    goal: Annotated[Any, matcher_of(kinds.GOAL), AS_MATCHER] = None
    """The id of the goal that it works for."""
    output: MatcherValue = None
    """Its output."""
    update: UpdateMatcher = None
    """The values that it wrote to channels."""
    reply: MatcherValue = None
    """Its final message's text, or value."""
    messages: MessagesMatcher = None
    """Its own messages: section `run`."""


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
    """Claims on a turn or, at the top level of a scenario, on the whole run."""

    noun: ClassVar[str] = "claim"

    agents: Annotated[Any, matcher_of(kinds.AGENTS), WithJsonSchema(_AGENTS_SCHEMA)] = None
    """The runs in start order; a nested list is one parallel group in any order."""
    reply: MatcherValue = None
    """The turn's reply: the output of the last finished run."""
    context: dict[str, ContextClaims] = Field(default_factory=dict)
    """The contexts of an agent's model calls: `agent`, `agent[k]`, `agent[-1]`, `agent[*]`,
    `agent[any]`, `agent[run k]`, `agent[run k][j]`, `*`."""
    runs: dict[str, RunClaims] = Field(default_factory=dict)
    """An agent's runs: `agent`, `agent[k]`, `agent[*]`, `agent[any]`, `*`."""
    state: StateMatcher = None
    """The channels after the turn."""
    handoffs: HandoffsMatcher = None
    """Handoff requests, in order."""
    tool_calls: ToolCallsMatcher = None
    """Tool calls, in the order of the requests."""
    model_calls: dict[str, Count] | None = None
    """Agent to the number of its model calls; 0 means none."""
    logs: LogsMatcher = None
    """Log records of the code's own loggers, in order."""
    events: EventsMatcher = None
    """The events."""
    findings: tuple[FindingClaim, ...] | None = None
    """Lints that must be found."""
    error: ErrorMatcher = None
    """The run ends with this error."""
    interrupt: MatcherValue = None
    """The turn ends with this question."""
    judge: JudgeClaims = None
    """Questions to a model about what happened, and what its answers must match."""
    satisfies: FunctionName | tuple[FunctionName, ...] | None = None
    """A Python predicate of the trace's view."""

    def has(self, key: str) -> bool:
        """Return whether this claim is written."""
        return key in self.__pydantic_fields_set__

    @property
    def questions(self) -> tuple[Question, ...]:
        """Return the questions to the judge."""
        return tuple(question_of(text, claim) for text, claim in (self.judge or {}).items())
