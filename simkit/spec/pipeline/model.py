"""A pipeline file: channels, agents, tools, contracts, flow, limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

from pydantic import BeforeValidator, Discriminator, Field, PrivateAttr, Tag, WithJsonSchema
from pydantic_core import PydanticCustomError

from simkit.language.matching import kinds
from simkit.spec import fields, refers_to
from simkit.spec.pipeline.models import DEFAULT, ModelOptions, Models, Waivers
from simkit.spec.pipeline.recipe import DEFAULT_RECIPE, SUPERVISED_RECIPE, Filter, Recipe

Writes = dict[refers_to.ChannelName, fields.Template]
"""Channel to the value to write; a channel may be a reference."""

REDUCERS: Final = ("replace", "append", "merge", "add", "union", "by_id")
BUILT_IN_COUNTER: Final = "chars/4"


class AppendOptions(fields.YamlModel):
    """The size of an appending channel."""

    last: fields.Positive
    """The number of newest items that it keeps."""


class ReducerSpec(fields.Choice):
    """A reducer with options."""

    noun: ClassVar[str] = "reducer"
    append: AppendOptions | None = None
    """Appends, and keeps only the last items."""
    merge: Literal["deep"] | None = None
    """Merges mapping by mapping."""


ReducerValue = Annotated[
    Annotated[str, Tag("name"), fields.names_schema(REDUCERS)]
    | Annotated[ReducerSpec, Tag("options")],
    fields.BY_FORM,
    fields.check_name("reducer", REDUCERS),
]


class Channel(fields.YamlModel):
    """One named piece of state."""

    reducer: ReducerValue = "replace"
    """How an update joins the value: replace, append, merge, add, union, by_id, or your own."""
    scope: Literal["agent_run", "turn", "session", "project", "global"] = "session"
    """How long it lives."""
    default: Any = None
    """The initial value; without it, the reducer's empty value."""
    schema_: fields.SchemaValue = Field(default=None, alias="schema")
    """The JSON Schema of the value."""

    @property
    def reducer_name(self) -> str:
        """Return the reducer's name as in the trace."""
        if isinstance(self.reducer, ReducerSpec):
            return "append" if self.reducer.append else "merge_deep"
        return self.reducer

    @property
    def last(self) -> int:
        """Return the number of items that an append keeps; 0 keeps all."""
        spec = self.reducer
        return spec.append.last if isinstance(spec, ReducerSpec) and spec.append else 0


class Rule(fields.YamlModel):
    """Writes that happen if a condition holds."""

    when: Annotated[Any, fields.matcher_of(kinds.ROOT), fields.AS_MATCHER] = None
    """Condition on the root; without it the rule always applies."""
    writes: Writes
    """Channel to the value to write."""


class Agent(fields.YamlModel):
    """A named agent with instructions, tools and allowed handoffs."""

    instructions: fields.TextValue = ""
    """The system instructions for the model."""
    tools: tuple[refers_to.ToolName, ...] = ()
    """The tools it may call."""
    handoffs: tuple[refers_to.AgentName, ...] = ()
    """The agents it may pass control to."""
    input: fields.SchemaValue = None
    """The JSON Schema of its input."""
    output: fields.SchemaValue = None
    """The JSON Schema of its output; `{$ref: Name}` names one under `schemas`."""
    parse: Literal["auto", "json", "json_or_text", "json_in_text", "text"] = "auto"
    """How a reply's text becomes the output. `auto`: a JSON object or array is parsed.
    `json_or_text`: also numbers, quoted texts, true, false and null."""
    returns: Literal["reply", "tool_output"] = "reply"
    """`tool_output`: the tool's result is the output, without another model call."""
    function: fields.FunctionName | None = None
    """A Python function that implements the agent, instead of a model."""
    requires: tuple[Annotated[Any, fields.matcher_of(kinds.MESSAGE), fields.AS_MATCHER], ...] = ()
    """Matchers of messages that must be in each of its contexts."""
    private: tuple[refers_to.ChannelName, ...] = ()
    """Channels that no other agent may see."""
    sees: tuple[refers_to.AgentName, ...] | None = None
    """The agents whose messages are relevant to it; without it, all agents."""
    context: Recipe | None = None
    """The sections of its contexts."""
    writes: Writes | None = None
    """The values that a finished run writes to channels."""
    before: tuple[Rule, ...] | None = None
    """Rules before a run; the first one that applies replaces the model."""
    after: tuple[Rule, ...] | None = None
    """Rules after a run; the first one that applies writes."""


class Defaults(fields.YamlModel):
    """The defaults of a pipeline's agents."""

    context: Recipe | None = None
    """The recipe."""
    writes: Writes | None = None
    """The writes."""
    before: tuple[Rule, ...] | None = None
    """The rules before a run."""
    after: tuple[Rule, ...] | None = None
    """The rules after a run."""
    tools: tuple[refers_to.ToolName, ...] | None = None
    """The tools."""
    handoffs: tuple[refers_to.AgentName, ...] | None = None
    """The handoffs."""
    sees: tuple[refers_to.AgentName, ...] | None = None
    """The agents whose messages are relevant."""
    parse: Literal["auto", "json", "json_or_text", "json_in_text", "text"] | None = None
    """How replies are parsed."""
    returns: Literal["reply", "tool_output"] | None = None
    """The result of a run."""


class Tool(fields.YamlModel):
    """A tool that agents may call."""

    description: fields.TextValue | None = None
    """The description for models."""
    args: fields.SchemaValue = None
    """The JSON Schema of the arguments."""
    returns: fields.SchemaValue = None
    """The JSON Schema of the result."""
    function: fields.FunctionName | None = None
    """The real function; a scenario's `tool_results` replaces it."""
    reads: refers_to.ChannelName | None = None
    """A channel that the tool reads: its call `{path: "a.b[0]"}` returns the value at that path,
    in the state that the run sees."""
    approval: fields.Flag = False
    """Whether a call waits until the user approves it: the turn ends with the question
    `[{tool, args, agent}]`, and `resume:` decides."""


class Query(fields.YamlModel):
    """Limits on a handoff's query."""

    max_chars: fields.Positive
    """The largest number of characters."""


HistoryPolicy = Annotated[
    Annotated[Literal["all", "none", "filters"], Tag("name")]
    | Annotated[tuple[Filter, ...], Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, (list, tuple)) else "name"),
]


class Contract(fields.YamlModel):
    """The schema and the rules of one type of handoff between agents."""

    from_: Annotated[
        tuple[Annotated[str, refers_to.RefersTo("agent", also=("*",))], ...], fields.OneOrMore(str)
    ] = Field(alias="from")
    """The source: a name, a list of names, or `*`."""
    to: refers_to.AgentName
    """The target."""
    type: str = "handoff"
    """The handoff's type."""
    mode: Literal["transfer", "delegate", "replace"] = "transfer"
    """`delegate` returns to the source; `replace` and `transfer` do not."""
    payload: fields.SchemaValue = None
    """The JSON Schema of the payload."""
    rules: tuple[Annotated[Any, fields.matcher_of(kinds.HANDOFF), fields.AS_MATCHER], ...] = ()
    """Matchers that the handoff (`from, to, type, query, payload`) must satisfy."""
    query: Query | None = None
    """Limits on the query."""
    writes: Writes | None = None
    """The values that the handoff writes to channels before its target starts."""
    carries: tuple[refers_to.ChannelName, ...] | None = None
    """The only channels that the target can read."""
    history: HistoryPolicy = "all"
    """The part of the conversation that the target sees: `all`, `none`, `filters` (without tool
    traffic and intermediate messages), or a list of filters."""
    on_invalid: Literal["reject", "stop", "retry"] = "reject"
    """The reaction to a handoff that breaks the contract."""
    timeout_ms: fields.Positive | None = None
    """The longest time that the target may take, in virtual milliseconds."""
    depth_max: fields.Positive | None = None
    """The largest number of handoffs in a chain to the target."""
    approval: fields.Flag = False
    """Whether the handoff waits until the user approves it, as the call of a tool with `approval`.
    """


class RouterFlow(fields.YamlModel):
    """A flow in which one agent chooses the agents that run."""

    decide: refers_to.AgentName
    """The agent whose output names them."""
    to: fields.Template
    """A reference to a name, a list of names in order, or `{parallel: [...]}`."""


class Node(fields.YamlModel):
    """A node of a graph; it runs one agent."""

    agent: refers_to.DefinitionName | None = None
    """The agent's definition; without it, the definition with the node's name."""
    role: Literal["linear", "decision", "split", "merge"] = "linear"
    """How the node uses its edges."""
    start: fields.Flag = False
    """Whether turns begin here."""
    exit: fields.Flag = False
    """Whether turns may end here."""


class Edge(fields.YamlModel):
    """An edge between two nodes."""

    from_: refers_to.NodeName = Field(alias="from")
    """The source node."""
    to: refers_to.NodeName
    """The target node."""
    label: fields.TextValue | None = None
    """The label that a decision must name."""


class RouteBy(fields.YamlModel):
    """How a decision selects labels."""

    equals: fields.Template = None
    """Selects the label that equals this value."""
    contains: fields.Template = None
    """Selects the labels that occur in this value."""


class GraphFlow(fields.YamlModel):
    """Nodes and labelled edges."""

    nodes: dict[str, Node]
    """The nodes by id."""
    edges: tuple[Edge, ...]
    """The edges between them."""
    route_by: RouteBy | None = None
    """How decisions choose an edge."""


class Goal(fields.YamlModel):
    """An ordered list of agents and their tasks."""

    description: fields.TextValue = ""
    """The purpose of the goal."""
    steps: tuple[dict[refers_to.DefinitionName, fields.TextValue], ...]
    """Agent to task, in order."""


class SupervisorFlow(fields.YamlModel):
    """A flow in which a supervisor works through goals."""

    goals: dict[str, Goal]
    """The goals by id."""


class HandoffsFlow(fields.YamlModel):
    """A flow in which agents pass control to each other."""

    start: fields.Template
    """The agent that starts each turn: a name or a reference."""


FLOWS: Final = ("router", "graph", "supervisor", "handoffs")


class Flow(fields.Choice):
    """How control moves between agents: exactly one of these."""

    noun: ClassVar[str] = "flow"
    router: RouterFlow | None = None
    """One agent decides."""
    graph: GraphFlow | None = None
    """Nodes and edges."""
    supervisor: SupervisorFlow | None = None
    """Goals, worked through in order."""
    handoffs: HandoffsFlow | None = None
    """Agents pass control themselves."""

    @property
    def kind(self) -> str:
        """Return the name of the flow that is set."""
        return next(kind for kind in FLOWS if getattr(self, kind) is not None)


class Limits(fields.YamlModel):
    """Limits of everything that repeats; reaching one is a finding, so that nothing hangs."""

    agent_runs_per_turn: fields.Positive = 20
    """Agent runs in one turn."""
    handoffs_per_turn: fields.Positive = 8
    """Handoffs requested in one turn."""
    model_calls_per_run: fields.Positive = 8
    """Model calls of one agent run."""
    turns: fields.Positive = 1000
    """Turns of a scenario."""
    virtual_ms: fields.Positive = 3_600_000
    """Virtual time of a scenario."""
    irrelevant_share: fields.Number = 0.2
    """The share of a context that may be irrelevant (lint CTX-11)."""
    context_tokens: fields.Positive | None = None
    """The most tokens of one context (lint CTX-10)."""


class Tokens(fields.YamlModel):
    """How tokens are counted."""

    count: str = BUILT_IN_COUNTER
    """The counter's name."""


def _version(value: Any) -> Any:
    if value != 1 or isinstance(value, bool):
        quoted = ": remove the quotes" if value == "1" else ""
        raise PydanticCustomError(
            "version",
            "version must be 1, the only one that this simkit reads{quoted}",
            {"quoted": quoted},
        )
    return value


Version = Annotated[int, BeforeValidator(_version), WithJsonSchema({"const": 1})]


Remembered = TypeVar("Remembered")


class Pipeline(fields.YamlModel):
    """The system under test: agents and how control moves between them."""

    version: Version = 1
    """The format's version."""
    pipeline: fields.TextValue
    """The pipeline's name."""
    channels: dict[str, Channel] = Field(default_factory=dict)
    """The channels by name."""
    defaults: Defaults = fields.defaults_of(Defaults)
    """Values for agents that do not set them."""
    schemas: dict[str, fields.SchemaValue] = Field(default_factory=dict)
    """JSON Schemas by name."""
    agents: Annotated[dict[str, Agent], Field(min_length=1)]
    """The agents by name."""
    tools: dict[str, Tool] = Field(default_factory=dict)
    """The tools by name."""
    models: Models = Field(default_factory=dict)
    """Agent, or `default`, to the real model that is called if a scenario has a `cassette:` and
    no reply lines."""
    contracts: tuple[Contract, ...] = ()
    """The types of handoff."""
    flow: Flow
    """How control moves between agents."""
    limits: Limits = fields.defaults_of(Limits)
    """Limits of everything that repeats."""
    conversation: str = "messages"
    """The channel to which each turn's user message is written."""
    tokens: Tokens = fields.defaults_of(Tokens)
    """How budgets and claims count tokens."""
    lints: Waivers = Field(default_factory=dict)
    """Findings of `simkit validate` that are turned off for this document, each with a reason:
    everywhere, or by place."""
    store: Literal["memory", "sqlite"] | None = None
    """Where checkpoints are saved after every agent run and turn; without it, only before a
    restart (then in SQLite)."""

    _memo: dict[tuple[Any, ...], Any] = PrivateAttr(default_factory=dict)

    def remembered(self, key: tuple[Any, ...], find: Callable[[], Remembered]) -> Remembered:
        """Return a value that depends on the pipeline alone, computed once."""
        # Access through the attribute takes pydantic longer than most of these computations.
        memo = (self.__pydantic_private__ or {})["_memo"]
        if key not in memo:
            memo[key] = find()
        remembered_value: Remembered = memo[key]
        return remembered_value

    def __getstate__(self) -> dict[Any, Any]:
        """Return what another process needs; it computes the rest again."""
        return {**super().__getstate__(), "__pydantic_private__": {"_memo": {}}}

    def of_agent(self, name: str, key: str) -> Any:
        """Return an agent's value for a key, or else the default's."""
        agent = self.agents[name]
        if key in agent.model_fields_set and getattr(agent, key) is not None:
            return getattr(agent, key)
        default = getattr(self.defaults, key, None)
        return default if default is not None else getattr(agent, key)

    def model_of(self, name: str) -> ModelOptions | None:
        """Return the real model of an agent; None if the file names none."""
        return self.models.get(name) or self.models.get(DEFAULT)

    def recipe_of(self, name: str) -> Recipe:
        """Return an agent's recipe."""
        recipe: Recipe | None = self.of_agent(name, "context")
        if recipe is not None:
            return recipe
        return SUPERVISED_RECIPE if self.flow.supervisor is not None else DEFAULT_RECIPE
