"""Claims: the statements of a scenario under `expect:`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, NamedTuple

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from simkit.core.messages import ABSENT
from simkit.core.text import late_pattern, likely_word
from simkit.language.matching import kinds
from simkit.language.matching.contradictions import Polarity, polarity_of
from simkit.spec.fields import (
    AS_MATCHER,
    MATCHER_SCHEMA,
    Count,
    FunctionName,
    MatcherValue,
    YamlModel,
    is_own_key,
    matcher_of,
    refuse,
)
from simkit.spec.scenario.claim_kinds import (
    ALL_NAMES,
    CUT_NAMES,
    ClaimKind,
    agents_known,
    claim_kinds,
    errors,
    log_records,
    measures_of,
    replies,
    reply_of,
    run_replies,
    shapes_left_out,
    shares_of_all,
    states,
    tools_declared,
    updates,
)
from simkit.spec.scenario.questions import JudgeClaims, Question, question_of
from simkit.trace import events as e
from simkit.trace.views import event_fields

ALL_AGENTS: Final = "*"
EVERY: Final = "*"
SOME: Final = "any"
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
    def item_index(self) -> int | None:
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


# Claims: the statements of a scenario under `expect:`


MessageMatcher = Annotated[Any, matcher_of(kinds.MESSAGE), AS_MATCHER]
MessagesMatcher = Annotated[Any, matcher_of(kinds.MESSAGES), AS_MATCHER]
NamesMatcher = Annotated[Any, matcher_of(kinds.NAMES), AS_MATCHER]
StateMatcher = Annotated[Any, matcher_of(kinds.STATE), AS_MATCHER]


class ContextClaims(YamlModel):
    """Claims on the contexts of an agent's model calls; every section's name is a key too.

    A claim that denies or limits concerns every call; any other, the first in the turn.
    """

    model_config = ConfigDict(extra="allow")
    noun: ClassVar[str] = "claim on a context"

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_claims(cls, data: Any) -> Any:
        """Refuse a key that cannot be a section's name, since no list has the value below it."""
        if isinstance(data, dict):
            for key, value in data.items():
                if key not in CONTEXT_CLAIMS and not is_own_key(key) and not _may_match_list(value):
                    advice = f"A section has a list of messages: `{key}: [{{user: Hello}}]`."
                    advice *= str(key).isidentifier() and not likely_word(key, CONTEXT_CLAIMS)
                    problem, known = f"unknown {cls.noun} `{key}`", tuple(CONTEXT_CLAIMS)
                    raise refuse(problem, known, str(key), advice, (key,))
        return data

    __pydantic_extra__: dict[str, MessagesMatcher]

    sections: Annotated[NamesMatcher, ClaimKind(
        read=lambda context: context.sections, phrase="the sections in {context}",
        example='the sections in the context of nutrition have an item that is "history"',
        needs=("sections",), form="list", domain="list", names=ALL_NAMES, refers_to="section",
    )] = None  # fmt: skip
    """The non-empty sections in order; of the first call, denials of every call."""
    messages: Annotated[MessagesMatcher, ClaimKind(
        read=lambda context: context.sectioned(), phrase="the messages in {context}",
        example="the messages in every context have at most 9 items", form="messages",
        domain="list",
    )] = None  # fmt: skip
    """All messages in order; of the first call, denials of every call."""
    includes: Annotated[
        tuple[MessageMatcher, ...] | None, ClaimKind(form="messages", polarity="affirms")
    ] = None
    """Each matches some message of the first call."""
    excludes: Annotated[
        tuple[MessageMatcher, ...] | None, ClaimKind(form="messages", polarity="bounds")
    ] = None
    """None matches any message of any call, instructions and arguments too."""
    dropped: Annotated[Any, matcher_of(kinds.DROPS), AS_MATCHER, ClaimKind(
        read=lambda context: context.dropped(), phrase="what was dropped from {context}",
        example="what was dropped from the context of nutrition has only items with by "
        '"tool_messages"',
        needs=("filters",), is_assignable=False, other_values=lambda view: view.messages.values(),
        form="list", domain="list", names=CUT_NAMES,
    )] = None  # fmt: skip
    """Messages that history sections read and dropped, in the order of the log."""
    left_out: Annotated[Any, matcher_of(kinds.LEFT_OUT), AS_MATCHER, ClaimKind(
        read=lambda context: context.left_out(), phrase="what was left out of {context}",
        example='what was left out of the context of nutrition has an item with by "max"',
        needs=("sections",), is_assignable=False, form="list", domain="list", names=CUT_NAMES,
        shapes=shapes_left_out,
    )] = None  # fmt: skip
    """Items that other sections read and left out, by channel and place, values that were cut, and
    sections that their `when` left out."""
    tools: Annotated[Any, matcher_of(kinds.TOOLS), AS_MATCHER, ClaimKind(
        read=lambda context: [*context.offers], phrase="the tools in {context}",
        example='the tools in the context of nutrition have an item that is "log_meal"',
        is_in_request=True, other_values=tools_declared, form="list", names=ALL_NAMES,
        polarity="bounds", refers_to="tool", domain="list",
    )] = None  # fmt: skip
    """The tools that every call offers; for code, under the names that the model received. Each is
    matched by its name, or by a mapping of `name`, `description`, `parameters` (the JSON Schema of
    its arguments), `strict` and `server`."""
    handoffs: Annotated[NamesMatcher, ClaimKind(
        read=lambda context: list(context.handoffs or ()), phrase="the handoffs in {context}",
        example="the handoffs in the context of the workout coach have an item that is "
        '"workout_analyst"',
        is_in_request=True, values=agents_known, form="list", names=ALL_NAMES, polarity="bounds",
        refers_to="agent",
    )] = None  # fmt: skip
    """The agents that every call may pass control to."""
    tokens: Annotated[Any, matcher_of(kinds.NUMBER), AS_MATCHER, ClaimKind(
        read=lambda context: context.tokens, phrase="the tokens in {context}",
        example="the tokens in the context of nutrition are at most 60", polarity="bounds",
        domain="count",
    )] = None  # fmt: skip
    """The size of every context."""
    share: Annotated[Any, matcher_of(kinds.SHARES), AS_MATCHER, ClaimKind(
        read=lambda context: context.shares(), phrase="the shares in {context}",
        example="the shares in the context of nutrition have router that is 0",
        needs=("sections",), is_assignable=False, values=shares_of_all, polarity="bounds",
    )] = None  # fmt: skip
    """The share of tokens by agent or section, of every call."""
    prefix: Annotated[Any, matcher_of(kinds.PREFIX), AS_MATCHER, ClaimKind(
        read=lambda context: measures_of(context), phrase="the prefix of {context}",
        example="the prefix of the context of nutrition has share that is at least 0.9",
        polarity="bounds",
    )] = None  # fmt: skip
    """The front of every request that equals the agent's request before in this session, tools
    included: `tokens`, and their `share` of the request's. With `provider: true`, of these what
    the provider's cache reuses at least. A first request is not judged."""
    settings: Annotated[Any, matcher_of(kinds.SETTINGS), AS_MATCHER, ClaimKind(
        read=lambda context: context.settings or {}, phrase="the settings of {context}",
        example="the settings of the context of nutrition have temperature 0", is_in_request=True,
        recorded_in=(e.ContextBuilt, "settings"), shapes="values", polarity="bounds",
    )] = None  # fmt: skip
    """The settings of every call."""

    def claimed(self) -> dict[str, Any]:
        """Return every claim that is written, by its key."""
        keys = self.model_fields_set
        fields = self.__dict__
        reserved: dict[str, Any] = {key: fields[key] for key in CONTEXT_CLAIMS if key in keys}
        return {**reserved, **(self.__pydantic_extra__ or {})}


class RunClaims(YamlModel):
    """Claims on an agent's runs.

    A claim that denies concerns every run; any other, the first in the turn.
    """

    noun: ClassVar[str] = "claim on a run"

    received: Annotated[StateMatcher, ClaimKind(
        read=lambda run: run.received, phrase="what {run} received",
        example="what nutrition received has notes that are empty", needs=("state",),
        null_needs="received", happens_at="start", refers_to="channel",
    )] = None  # fmt: skip
    """The state that it received; of a program, what it reports."""
    input: Annotated[MatcherValue, ClaimKind(
        read=lambda run: run.input, phrase="the input of {run}",
        example='the input of the second run of nutrition is "Go on"', null_needs="inputs",
        recorded_in=(e.AgentStarted, "input"), happens_at="start", shapes="values",
    )] = None  # fmt: skip
    """Its input."""
    goal: Annotated[Any, matcher_of(kinds.GOAL), AS_MATCHER, ClaimKind(
        read=lambda run: run.goal, phrase="the goal of {run}",
        example='the goal of the first run of nutrition is "plan"', null_needs="goals",
        recorded_in=(e.AgentStarted, "goal"), happens_at="start", shapes="values",
        refers_to="goal",
    )] = None  # fmt: skip
    """The id of the goal that it works for."""
    output: Annotated[MatcherValue, ClaimKind(
        read=lambda run: run.output, phrase="the output of {run}",
        example="the output of the router fits the schema RouterDecision",
        recorded_in=(e.AgentFinished, "output"), shapes="values",
    )] = None  # fmt: skip
    """Its output."""
    update: Annotated[Any, matcher_of(kinds.UPDATE), AS_MATCHER, ClaimKind(
        read=lambda run: run.update, phrase="what {run} wrote",
        example="what the router wrote has router_decision that is a mapping", needs=("state",),
        happens_at="write", refers_to="channel",
    )] = None  # fmt: skip
    """The values that it wrote to channels."""
    reply: Annotated[MatcherValue, ClaimKind(
        read=reply_of, phrase="the reply of {run}", values=run_replies, shapes="values",
    )] = None  # fmt: skip
    """Its final message's text, or value."""
    messages: Annotated[MessagesMatcher, ClaimKind(
        read=lambda run: run.messages, phrase="the messages of {run}",
        example="the messages of nutrition have 3 items", form="messages",
    )] = None  # fmt: skip
    """Its own messages: section `run`."""

    def claimed(self) -> dict[str, Any]:
        """Return every claim that is written, by its key, in the order of the format."""
        return {name: getattr(self, name) for name in RUN_CLAIMS if name in self.model_fields_set}


def _finding(value: Any) -> Any:
    if isinstance(value, str):
        return {"id": value}
    if not isinstance(value, dict):
        raise refuse("a finding must be a lint's id, or a mapping with `id`")
    if "id" not in value:
        raise refuse("a claimed finding needs its lint's `id`")
    return value


FindingClaim = Annotated[
    Any,
    matcher_of(kinds.FINDING),
    BeforeValidator(_finding),
    WithJsonSchema({"anyOf": [{"type": "string"}, {
        "type": "object", "required": ["id"], "additionalProperties": dict(MATCHER_SCHEMA),
    }]}),
]  # fmt: skip
_AGENTS_SCHEMA = {"anyOf": [
    {"type": "array", "items": {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
    }},
    dict(MATCHER_SCHEMA),
]}  # fmt: skip


class Expect(YamlModel):
    """Claims on a turn or, at the top level of a scenario, on the whole run."""

    noun: ClassVar[str] = "claim"

    agents: Annotated[Any, matcher_of(kinds.AGENTS), WithJsonSchema(_AGENTS_SCHEMA), ClaimKind(
        phrase="the agents that ran", example="the agents that ran have 2 items", needs=("runs",),
        values=agents_known, form="list", domain="list", names=ALL_NAMES, refers_to="agent",
    )] = None  # fmt: skip
    """The runs in start order; a nested list is one parallel group in any order."""
    reply: Annotated[MatcherValue, ClaimKind(
        phrase="the reply", values=replies, recorded_in=(e.TurnFinished, "reply"), shapes="values",
        domain="claim",
    )] = None  # fmt: skip
    """The turn's reply: the output of the last finished run."""
    context: Annotated[dict[str, ContextClaims], ClaimKind()] = Field(default_factory=dict)
    """The contexts of an agent's model calls: `agent`, `agent[k]`, `agent[-1]`, `agent[*]`,
    `agent[any]`, `agent[run k]`, `agent[run k][j]`, `*`."""
    runs: Annotated[dict[str, RunClaims], ClaimKind()] = Field(default_factory=dict)
    """An agent's runs: `agent`, `agent[k]`, `agent[*]`, `agent[any]`, `*`."""
    state: Annotated[StateMatcher, ClaimKind(
        phrase="the state", example='the state has user_timezone that starts with "Europe"',
        needs=("state",), values=states, shapes=updates, refers_to="channel", domain="value",
    )] = None  # fmt: skip
    """The channels after the turn."""
    handoffs: Annotated[Any, matcher_of(kinds.HANDOFFS), AS_MATCHER, ClaimKind(
        phrase="the handoffs", example="the handoffs are empty", needs=("handoffs",), form="list",
        domain="list",
        values=lambda view: (each.fields() for turn in view.turns for each in turn.handoffs),
    )] = None  # fmt: skip
    """Handoff requests, in order."""
    tool_calls: Annotated[Any, matcher_of(kinds.TOOL_CALLS), AS_MATCHER, ClaimKind(
        phrase="the tool calls", example='the tool calls have an item with tool "log_meal"',
        values=lambda view: (each.fields() for turn in view.turns for each in turn.tools),
        form="list", domain="list",
    )] = None  # fmt: skip
    """Tool calls, in the order of the requests."""
    model_calls: Annotated[dict[str, Count] | None, ClaimKind(refers_to="agent")] = None
    """Agent to the number of its model calls; 0 means none."""
    logs: Annotated[Any, matcher_of(kinds.LOGS), AS_MATCHER, ClaimKind(
        phrase="the log records", needs=("logs",), values=log_records, form="list", domain="list",
    )] = None  # fmt: skip
    """Log records of the code's own loggers, in order."""
    events: Annotated[Any, matcher_of(kinds.EVENTS), AS_MATCHER, ClaimKind(
        phrase="the events", example='the events have an item with kind "RouteChosen"',
        values=lambda view: (event_fields(view.whole_event(event)) for event in view.events),
        form="list", domain="list",
    )] = None  # fmt: skip
    """The events."""
    findings: Annotated[tuple[FindingClaim, ...] | None, ClaimKind(refers_to="lint")] = None
    """Lints that must be found."""
    error: Annotated[Any, matcher_of(kinds.ERROR, alone=str), AS_MATCHER, ClaimKind(
        phrase="the error", example='the error has type "NoRoute"', values=errors,
        recorded_in=(e.TurnFinished, "error"), shapes="values",
    )] = None  # fmt: skip
    """The run ends with this error."""
    interrupt: Annotated[MatcherValue, ClaimKind(
        phrase="the question", values=lambda view: (turn.interrupt for turn in view.turns),
        recorded_in=(e.TurnInterrupted, "question"), shapes="values",
    )] = None  # fmt: skip
    """The turn ends with this question."""
    judge: Annotated[JudgeClaims, ClaimKind()] = None
    """Questions to a model about what happened, and what its answers must match."""
    satisfies: Annotated[FunctionName | tuple[FunctionName, ...] | None, ClaimKind()] = None
    """A Python predicate of the trace's view."""

    def has(self, key: str) -> bool:
        """Return whether this claim is written."""
        return key in self.__pydantic_fields_set__

    @property
    def questions(self) -> tuple[Question, ...]:
        """Return the questions to the judge."""
        return tuple(question_of(text, claim) for text, claim in (self.judge or {}).items())


def _may_match_list(value: Any) -> bool:
    """Return whether a value may be a matcher of a list: a list, operators, or positions."""
    if isinstance(value, Mapping):
        return all(str(key).startswith(("$", "[", "x-")) for key in value)
    return not isinstance(value, (str, int, float))


CONTEXT_CLAIMS: Final = claim_kinds(ContextClaims)
"""Claims on a context beside those on its sections; no section may have these names."""
RUN_CLAIMS: Final = claim_kinds(RunClaims)
TURN_CLAIMS: Final = claim_kinds(Expect)
SECTION_CLAIM: Final = ClaimKind(
    needs=("sections",), form="messages", domain="list", refers_to="section"
)
"""The row of a claim on a section, under the section's name."""


def claim_kind_at(path: Sequence[str | int]) -> ClaimKind:
    """Return the row of a claim; ``path`` leads from `expect` to it, or into it."""
    head = str(path[0])
    if head == "context":
        return CONTEXT_CLAIMS.get(str(path[2]), SECTION_CLAIM)
    return RUN_CLAIMS[str(path[2])] if head == "runs" else TURN_CLAIMS[head]


def claim_size(path: Sequence[str | int]) -> int:
    """Return the number of steps that lead from `expect` to a claim."""
    return 3 if path[0] in ("context", "runs") else 1


def claimed_polarity(name: str, matcher: Any) -> Polarity:
    """Return the polarity of a claim on a context: it affirms, it denies, or both."""
    polarity = CONTEXT_CLAIMS.get(name, SECTION_CLAIM).polarity
    if polarity == "matcher":
        return polarity_of(matcher)
    return Polarity(True, ABSENT) if polarity == "affirms" else Polarity(False, matcher)
