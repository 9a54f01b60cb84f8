"""A scenario: one test, with its conversation and its claims."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, StrictInt, WithJsonSchema

from simkit.spec import fields
from simkit.spec.pipeline.model import Version
from simkit.spec.pipeline.models import Waivers
from simkit.spec.refers_to import AgentName, ChannelName
from simkit.spec.scenario.apps import AppOptions, CassetteValue, RecordOptions, Rules
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.moments import (
    FIFO,
    MOST,
    CutMoment,
    Duration,
    Order,
    Schedule,
    duration_ms,
)
from simkit.spec.scenario.questions import JudgeModel
from simkit.spec.scenario.replies import (
    Faults,
    Lines,
    ToolAnswers,
    ToolResult,
    TurnScript,
    answer_name,
    compiled_script,
)
from simkit.spec.scenario.servers import Servers
from simkit.spec.scenario.simulated_users import CheckedUser, PlainMessage

ADVICE: Final = "Write a distribution, or one with versions: `langgraph`, `'langgraph>=1.2'`."


def _requirement(value: Any) -> str:
    """Return the requirement in pip's syntax; reject anything beside name and versions."""
    from packaging.requirements import InvalidRequirement, Requirement

    if not isinstance(value, str):
        raise fields.refuse(
            f"a need must be a text, not {fields.shown_value(value)}", advice=ADVICE
        )
    try:
        requirement = Requirement(value)
    except InvalidRequirement:
        raise fields.refuse(f"`{value}` is no distribution with versions", advice=ADVICE) from None
    if requirement.extras or requirement.marker or requirement.url:
        raise fields.refuse(
            f"`{value}` says more than a distribution and its versions",
            advice="Extras, markers and addresses cannot be looked up; name what they bring.",
        )
    return str(requirement)


Need = Annotated[
    str,
    BeforeValidator(_requirement),
    WithJsonSchema({"type": "string", "pattern": r"^\s*[A-Za-z0-9][\w.-]*\s*([(<>=!~].*)?$|\$\{"}),
]
"""A distribution, with or without versions."""


def unmet(needs: Iterable[str]) -> str:
    """Return the missing needs with advice; empty if none is missing.

    A malformed need does not count as missing here: it is reported when the scenario is read.
    """
    lacks = dict(lack for need in needs if (lack := _lack(need)) is not None)
    if not lacks:
        return ""
    missing = [need for need, installed in lacks.items() if not installed]
    unmet_texts = [
        f"{need}, but {installed} is installed" for need, installed in lacks.items() if installed
    ]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        unmet_texts.insert(0, f"{', '.join(missing)}, which {are} not installed")
    return f"needs {'; '.join(unmet_texts)}: pip install {shlex.join(lacks)}"


@lru_cache(maxsize=256)
def _lack(need: str) -> tuple[str, str] | None:
    """Return a missing need in pip's syntax, and the installed version; None if it is met."""
    from importlib.metadata import PackageNotFoundError, version

    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(need)
    except InvalidRequirement:
        return None
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:
        return str(requirement), ""
    if requirement.specifier.contains(installed, prereleases=True):
        return None
    return str(requirement), installed


DEFAULT_START: Final = "2026-01-05T09:00:00Z"


class UserMessage(PlainMessage):
    """A user's message that is more than text."""

    parts: tuple[Any, ...] | None = None
    """Text and media parts."""
    simulate: CheckedUser | None = None
    """A simulated user: the seed chooses what it says. With `repeat` it says several things, up to
    its end; the turn may refer to its `${persona.NAME}`."""


def _user(value: Any) -> Any:
    if isinstance(value, dict):
        return value
    if isinstance(value, list) or value is None:
        raise fields.refuse(
            "the user's message must be a text, not " + ("a list" if value else "nothing"),
            advice="Quote a text that starts with `[` or `{`, or that is empty.",
        )
    return {"text": value}


UserValue = Annotated[UserMessage, BeforeValidator(_user), fields.OrText]


class Turn(fields.YamlModel):
    """One user message, with replies and claims."""

    user: UserValue | None = None
    """The user's message."""
    resume: Any = None
    """The user's answer to an interrupt, instead of a message."""
    session: fields.TextValue = "s1"
    """The session of the turn."""
    project: fields.TextValue = "p1"
    """The project of the session."""
    pause: Duration | None = None
    """The virtual time that passes before this turn: `90 s`, `2 h`, `3 days`."""
    restart: fields.Flag = False
    """Whether a new process, which reads only the store, starts before this turn."""
    repeat: Annotated[fields.Positive, Field(le=MOST)] = 1
    """The number of times that the turn is taken, each as a turn of its own."""
    replies: dict[AgentName, Lines] = Field(default_factory=dict)
    """Agent to the answers of its model, in order."""
    tool_results: dict[str, ToolResult] = Field(default_factory=dict)
    """Tool to its results."""
    elicits: dict[str, ToolResult] = Field(default_factory=dict)
    """MCP server to the user's answers to its questions, in place of the client's: `{files: {sure:
    true}}`; `decline` and `cancel` refuse."""
    judge_replies: dict[str, Any] = Field(default_factory=dict)
    """Question to the judge to its answer."""
    faults: Faults = ()
    """Planned faults in this turn."""
    cancel: CutMoment | None = None
    """The user cancels the turn while this model call waits for its answer: `{agent: billing}`,
    `{call: 2}`; or where a tool begins or ends: `{tool: refund}`, `{tool: refund, at: end}`. The
    turn ends there, without a reply and without an error to claim."""
    crash: CutMoment | None = None
    """The process ends at such a moment. The next turn begins in a new process, which reads only
    the store."""
    schedule: Order = ()
    """The agents in the order in which their model calls are answered, from the turn's first call
    on; `billing[1]` is the second call of `billing` that waits. `refund()` is a call of a tool:
    with one in the list, tools wait, too. Calls in a list of their own, `[[billing, refunds]]`, are
    answered at the same time. Calls beyond the list are answered in the order in which they were
    made."""
    expect: Expect = fields.defaults_of(Expect)
    """Claims on this turn."""

    @property
    def results(self) -> Mapping[str, ToolAnswers]:
        """The results of tools, and the user's answers to servers."""
        answers = {answer_name(server): each for server, each in self.elicits.items()}
        return {**self.tool_results, **answers} if answers else self.tool_results

    @property
    def is_cut(self) -> bool:
        """Whether it is to end before its reply."""
        return self.cancel is not None or self.crash is not None

    @property
    def pause_ms(self) -> int:
        """The virtual milliseconds that pass before it."""
        return 0 if self.pause is None else duration_ms(self.pause)

    @property
    def script(self) -> TurnScript:
        """The compiled replies, which all runs of the scenario share."""
        # Not a cached property: Python 3.11 locks it.
        values = self.__dict__
        if "script" not in values:
            values["script"] = compiled_script(self.replies)
        script: TurnScript = values["script"]
        return script

    def __getstate__(self) -> dict[Any, Any]:
        """Return what another process needs; it compiles the replies again."""
        state = super().__getstate__()
        values = {key: value for key, value in state["__dict__"].items() if key != "script"}
        return {**state, "__dict__": values}


CRASHED: Final = "ProcessCrashed"
CUTS: Final = ("TurnCancelled", CRASHED)
"""The types of the errors with which a turn ends that is cut."""


def begins_process(turns: Sequence[Turn], index: int) -> bool:
    """Return whether a new process takes the turn at an index."""
    return turns[index].restart or (index > 0 and turns[index - 1].crash is not None)


FAKES_MAX: Final = 1_000
"""The largest number of one name."""


class Fake(fields.YamlModel):
    """A made-up person or thing; `customer.email` and the like refer to it.

    A plain number is `count`, a plain text `locale`.
    """

    count: fields.Positive | None = None
    """Their number, for a list `${customers[0].name}`; without it, a single one."""
    locale: fields.TextValue = ""
    """The language and country of its words: `de_DE`."""
    values: dict[str, Any] = Field(default_factory=dict)
    """Values of its own beside Faker's; `${fake.…}` in them are its own words."""


def _fake(value: Any) -> Any:
    if isinstance(value, (bool, list, float)) or value is None:
        raise fields.refuse(
            "what is made up must be how many, a locale or a mapping, not "
            f"{fields.shown_value(value)}",
            advice="Write `customers: 3`, `customer: de_DE`, or `customer: {}`.",
        )
    if not isinstance(value, dict):
        value = {"count" if isinstance(value, int) else "locale": value}
    count = value.get("count")
    if isinstance(count, int) and count > FAKES_MAX:
        raise fields.refuse(f"at most {FAKES_MAX:,} are made up, not {count:,}")
    return value


FakeValue = Annotated[
    Fake,
    BeforeValidator(_fake),
    fields.OrForm({"type": "integer", "minimum": 1}, {"type": "string"}),
]


class Given(fields.YamlModel):
    """The given state, and made-up people and things, before the first turn."""

    fakes: dict[str, FakeValue] = Field(default_factory=dict)
    """Made-up people and things, by their names in `${…}`: `customers: 3`."""
    state: dict[ChannelName, Any] = Field(default_factory=dict)
    """Channel to its value."""


class XFail(fields.YamlModel):
    """The scenario is known to fail."""

    reason: fields.TextValue
    """Why it fails."""
    strict: fields.Flag = True
    """Whether passing is an error."""


def _iso(value: Any) -> Any:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise fields.refuse(
            f"must be a time, not {fields.shown_value(value)}",
            advice="Write it in ISO 8601: 2026-01-05T09:00:00Z.",
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.isoformat().replace("+00:00", "Z")


StartTime = Annotated[
    str, BeforeValidator(_iso), WithJsonSchema({"type": "string", "pattern": r"^\d{4}-?[\dW]"})
]


class ScenarioLimits(fields.YamlModel):
    """Limits that replace the pipeline's."""

    agent_runs_per_turn: fields.Positive | None = None
    """Agent runs in one turn."""
    handoffs_per_turn: fields.Positive | None = None
    """Handoffs requested in one turn."""
    model_calls_per_run: fields.Positive | None = None
    """Model calls of one agent run."""
    turns: fields.Positive | None = None
    """Turns of a scenario."""
    virtual_ms: fields.Positive | None = None
    """Virtual time of a scenario."""
    irrelevant_share: fields.Number | None = None
    """The share of a context that may be irrelevant (lint CTX-11)."""
    context_tokens: fields.Positive | None = None
    """The most tokens of one context (lint CTX-10)."""


class RunSetup(fields.YamlModel):
    """The part that scenarios and simulations share: the pipeline, and how it is run."""

    version: Version = 1
    """The format's version."""
    pipeline: str
    """A pipeline's name in this file, a `*.pipeline.yaml` file, or `module:function`."""
    seed: StrictInt = 0
    """The integer from which all random numbers come."""
    start: StartTime = DEFAULT_START
    """The virtual time at which the conversation begins, ISO 8601."""
    use: tuple[str, ...] = ()
    """Files with shared `given`, `tool_results` and `agents`."""
    env: tuple[str, ...] = ()
    """Environment variables that `${env.X}` may read."""
    given: Given = fields.defaults_of(Given)
    """The state before the first turn."""
    tags: tuple[str, ...] = ()
    """Words for selection; they become pytest marks."""
    skip: fields.TextValue | None = None
    """Why it is not run."""
    needs: tuple[Need, ...] = ()
    """Distributions that it needs; without them it is skipped: `langgraph`, `'langgraph>=1.2'`."""
    limits: ScenarioLimits = fields.defaults_of(ScenarioLimits)
    """The limits that differ from the pipeline's."""
    lints: Waivers = Field(default_factory=dict)
    """Lints, and findings of `simkit validate`, that are turned off, each with a reason:
    everywhere (`CTX-07: why`), or by place or effect (`RUN-02: {"app.py:265": why}`)."""
    app: AppOptions = fields.defaults_of(AppOptions)
    """How a pipeline that is code is built and run."""
    agents: Rules = Field(default_factory=dict)
    """Attribution rules, for model calls that a pipeline's code does not attribute itself."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts that the code may connect to: exact, `*.example.com`, or with a port."""
    servers: Servers = Field(default_factory=dict)
    """Server to its definition: MCP servers and HTTP addresses that the scenario answers."""
    record: RecordOptions = fields.defaults_of(RecordOptions)
    """How requests are compared with recorded ones, and what must not be recorded."""
    judge: JudgeModel | None = None
    """The model that answers the questions under `judge` in claims: `openai/gpt-5-mini`."""


class Scenario(RunSetup):
    """One test, with its conversation and its claims."""

    scenario: fields.TextValue
    """The scenario's name: a sentence."""
    turns: Annotated[tuple[Turn, ...], Field(min_length=1)]
    """The conversation."""
    expect: Expect = fields.defaults_of(Expect)
    """Claims on the whole run."""
    examples: Annotated[tuple[dict[str, Any], ...], Field(min_length=1)] | None = None
    """A table; the scenario runs once for each row, and `${column.x}` reads the row."""
    xfail: Annotated[XFail | None, fields.text_as("reason"), fields.OrText] = None
    """Whether, and why, it is known to fail."""
    faults: Faults = ()
    """Planned faults in every turn."""
    schedule: Schedule = FIFO
    """The order in which model calls that wait at the same time are answered, in turns that list
    none: as they are made (`fifo`), or by the seed (`random`, `pct`)."""
    cassette: CassetteValue | None = None
    """Recorded traffic that answers calls without reply lines."""
    judge_replies: dict[str, Any] = Field(default_factory=dict)
    """Question to the judge about the whole run to its answer."""

    @property
    def claims_logs(self) -> bool:
        """Return whether a claim concerns log records, so that they must be kept."""
        return self._claims("logs")

    @property
    def asks_judge(self) -> bool:
        """Return whether a claim is a question to the judge."""
        return self._claims("judge")

    def _claims(self, key: str) -> bool:
        if key in self.expect.__pydantic_fields_set__:
            return True
        return any([key in turn.expect.__pydantic_fields_set__ for turn in self.turns])


class Shared(fields.YamlModel):
    """A file named under `use`."""

    version: Version = 1
    """The format's version."""
    use: tuple[str, ...] = ()
    """Further files."""
    given: Given = fields.defaults_of(Given)
    """The state before the first turn."""
    tool_results: dict[str, ToolResult] = Field(default_factory=dict)
    """Results of tools, in turns that do not give any."""
    needs: tuple[Need, ...] = ()
    """Distributions that the scenarios using this file need; without them they are skipped."""
    lints: Waivers = Field(default_factory=dict)
    """Findings of `simkit validate` that are turned off for this file, each with a reason:
    everywhere, or by place."""
    agents: Rules = Field(default_factory=dict)
    """Attribution rules for pipelines that are code."""
