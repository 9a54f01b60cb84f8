"""A scenario: one test, its conversation, and what must be so."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, Field, StrictInt, WithJsonSchema

from simkit.spec.fields import (
    Choice,
    Flag,
    Number,
    OrText,
    Positive,
    TextValue,
    YamlModel,
    one_key,
    refuse,
    shown_value,
)
from simkit.spec.pipeline.model import Version
from simkit.spec.pipeline.waivers import Waivers
from simkit.spec.scenario.apps import AppOptions, CassetteValue, RecordOptions, Rules
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.faults import Faults
from simkit.spec.scenario.given_fakes import FakeValue
from simkit.spec.scenario.needs import Need
from simkit.spec.scenario.replies import Lines, ToolResult
from simkit.spec.scenario.turns import MOST

USER_FORMS: Final = ("text", "json", "parts", "simulate")
LATER: Final = ("schedule",)
"""Keys of the format that this version refuses instead of ignoring them."""
DEFAULT_START: Final = "2026-01-05T09:00:00Z"


class UserMessage(Choice):
    """What the user says, where it is more than text."""

    noun: ClassVar[str] = "form of a user message"
    text: TextValue | None = None
    """Plain text."""
    json_: Any = Field(default=None, alias="json")
    """A value, sent as JSON."""
    parts: tuple[Any, ...] | None = None
    """Text and media parts."""
    simulate: Any = None
    """A simulated user."""


def _user(value: Any) -> Any:
    if isinstance(value, dict):
        one_key(value, "form of a user message", USER_FORMS)
        return value
    if isinstance(value, list) or value is None:
        raise refuse(
            "the user's message must be a text, not " + ("a list" if value else "nothing"),
            advice="Quote a text that starts with `[` or `{`, or that is empty.",
        )
    return {"text": value}


UserValue = Annotated[UserMessage, BeforeValidator(_user), OrText]


class Turn(YamlModel):
    """One user message, and what must come of it."""

    user: UserValue | None = None
    """What the user says."""
    resume: Any = None
    """The user's answer to an interrupt, instead of a message."""
    session: TextValue = "s1"
    """The conversation it belongs to."""
    project: TextValue = "p1"
    """The project the conversation belongs to."""
    restart: Flag = False
    """Before this turn a new process starts that reads only the store."""
    repeat: Annotated[Positive, Field(le=MOST)] = 1
    """How often it is taken, each time as a turn of its own."""
    replies: dict[str, Lines] = Field(default_factory=dict)
    """What each agent's model answers, in order."""
    tool_results: dict[str, ToolResult] = Field(default_factory=dict)
    """What each tool answers."""
    faults: Faults = ()
    """Planned misbehaviour in this turn."""
    expect: Expect = Field(default_factory=Expect)
    """Claims on this turn."""


class Given(YamlModel):
    """What is so before the first turn."""

    fakes: dict[str, FakeValue] = Field(default_factory=dict)
    """Who and what is made up, by the name that `${…}` has for them: `customers: 3`."""
    state: dict[str, Any] = Field(default_factory=dict)
    """Channel to its value."""


class XFail(YamlModel):
    """The scenario is known to fail."""

    reason: TextValue
    """Why."""
    strict: Flag = True
    """Whether it is an error when it passes."""


def _xfail(value: Any) -> Any:
    return {"reason": value} if isinstance(value, str) else value


def _iso(value: Any) -> Any:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise refuse(
            f"must be a time, not {shown_value(value)}",
            advice="Write it in ISO 8601: 2026-01-05T09:00:00Z.",
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.isoformat().replace("+00:00", "Z")


StartTime = Annotated[
    str, BeforeValidator(_iso), WithJsonSchema({"type": "string", "pattern": r"^\d{4}-?[\dW]"})
]


class ScenarioLimits(YamlModel):
    """Limits that replace the pipeline's."""

    agent_runs_per_turn: Positive | None = None
    """Activations of agents in one turn."""
    handoffs_per_turn: Positive | None = None
    """Handoffs requested in one turn."""
    model_calls_per_run: Positive | None = None
    """Model calls of one activation."""
    turns: Positive | None = None
    """Turns of a scenario."""
    virtual_ms: Positive | None = None
    """Virtual time of a scenario."""
    irrelevant_share: Number | None = None
    """The share of a context that may be irrelevant (lint CTX-11)."""
    context_tokens: Positive | None = None
    """The most tokens of one context (lint CTX-10)."""


class Scenario(YamlModel):
    """One test, its conversation, and what must be so."""

    version: Version = 1
    """The format's version: 1, if it is left out."""
    scenario: TextValue
    """The scenario's name: a sentence."""
    pipeline: str
    """A pipeline's name in this file, a `*.pipeline.yaml` file, or `module:function`."""
    seed: StrictInt = 0
    """The one integer all chance comes from."""
    start: StartTime = DEFAULT_START
    """The virtual time at which it begins, ISO 8601."""
    use: tuple[str, ...] = ()
    """Files with shared `given`, `tool_results` and `agents`."""
    env: tuple[str, ...] = ()
    """Environment variables that `${env.X}` may read."""
    given: Given = Field(default_factory=Given)
    """What is so before the conversation begins."""
    turns: Annotated[tuple[Turn, ...], Field(min_length=1)]
    """The conversation."""
    expect: Expect = Field(default_factory=Expect)
    """Claims on the whole run."""
    examples: Annotated[tuple[dict[str, Any], ...], Field(min_length=1)] | None = None
    """A table; the scenario runs once for each row, which `${column.x}` reads."""
    tags: tuple[str, ...] = ()
    """Words to select by; pytest marks."""
    skip: TextValue | None = None
    """Why it is not run."""
    needs: tuple[Need, ...] = ()
    """Distributions without which it is skipped: `langgraph`, `'langgraph>=1.2'`."""
    xfail: Annotated[XFail | None, BeforeValidator(_xfail), OrText] = None
    """It is known to fail."""
    limits: ScenarioLimits = Field(default_factory=ScenarioLimits)
    """The limits that differ from the pipeline's."""
    lints: Waivers = Field(default_factory=dict)
    """Lints, and findings of `simkit validate`, that are turned off, each with the reason:
    altogether (`CTX-07: why`), or by place or effect (`RUN-02: {"app.py:265": why}`)."""
    faults: Faults = ()
    """Planned misbehaviour, in every turn."""
    schedule: Any = None
    """The order in which ready work runs."""
    app: AppOptions = Field(default_factory=AppOptions)
    """How a pipeline that is code is built and run."""
    agents: Rules = Field(default_factory=dict)
    """Which model calls are whose, where the pipeline is code that does not say it."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts that may be reached: exact, `*.example.com`, or with a port."""
    cassette: CassetteValue | None = None
    """Recorded traffic that answers what has no reply lines."""
    record: RecordOptions = Field(default_factory=RecordOptions)
    """How recorded requests are compared, and what must not be recorded."""

    @property
    def claims_logs(self) -> bool:
        """Whether a claim speaks of log records, so that they must be taken down."""
        return any(expect.has("logs") for expect in (self.expect, *(t.expect for t in self.turns)))


class Shared(YamlModel):
    """A file named under `use`."""

    version: Version = 1
    """The format's version: 1."""
    use: tuple[str, ...] = ()
    """Further files."""
    given: Given = Field(default_factory=Given)
    """What is so before the conversation begins."""
    tool_results: dict[str, ToolResult] = Field(default_factory=dict)
    """What tools answer in turns that do not say otherwise."""
    needs: tuple[Need, ...] = ()
    """Distributions without which scenarios that use the file are skipped."""
    lints: Waivers = Field(default_factory=dict)
    """Findings of `simkit validate` that are turned off for this file, each with the reason:
    altogether, or by place."""
    agents: Rules = Field(default_factory=dict)
    """Attribution rules for pipelines that are code."""
