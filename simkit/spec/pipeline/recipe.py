"""Recipes: the sections of an agent's contexts, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag

from simkit.language.matching import kinds
from simkit.language.yaml import SourcePath
from simkit.spec.fields import (
    AS_MATCHER,
    BY_FORM,
    Choice,
    Count,
    Flag,
    FunctionName,
    Number,
    OneOrMore,
    OrForm,
    Positive,
    Template,
    TextValue,
    YamlModel,
    check_name,
    is_function_name,
    matcher_of,
    names_schema,
    refuse,
)
from simkit.spec.refers_to import AgentName, RefersTo
from simkit.spec.scenario.claims import CONTEXT_CLAIMS

LOG: Final = "log"
"""A history's `from` that is no channel: everything that was said and done."""
_ChannelText = Annotated[TextValue, RefersTo("channel")]

FILTERS: Final = ("tool_messages", "tool_calls", "intermediate_ai", "handoffs")
FILTERS_WITH_OPTIONS: Final = {
    "agents": "Write `agents: {only: [coach]}` or `agents: {not: [coach]}`.",
    "drop": "Write which messages: `drop: {role: tool}`.",
    "older_than": "Write how much is newer: `older_than: {rounds: 2}`.",
}
"""These filters, and how each is written."""


class Section(YamlModel):
    """The options of all sections."""

    noun: ClassVar[str] = "option"

    name: TextValue | None = None
    """The section's name, needed if its kind occurs twice in a recipe."""
    role: Literal["system", "user", "assistant"] | None = None
    """The role of the message it makes."""
    title: TextValue | None = None
    """A line above the content."""
    format: TextValue | None = None
    """A text with `${…}` that is shown instead of the built-in form."""
    after: TextValue | None = None
    """A text below the content."""
    when: Annotated[Any, matcher_of(kinds.ROOT), AS_MATCHER] = None
    """Condition on the root (state, run, handoff, user, agent); the section is left out if it
    does not hold."""
    preview: dict[str, Positive] | None = None
    """Path to the number of its characters that are shown."""
    as_: Literal["messages", "text", "json"] | None = Field(default=None, alias="as")
    """How it is shown; `text` and `json` make one message of role user."""


class Instructions(Section):
    """The agent's instructions."""


class AgentFilter(YamlModel):
    """Keeps or drops messages by the agent that wrote them."""

    only: tuple[AgentName, ...] | None = None
    """Only messages of these agents, and the user's, are kept."""
    not_: tuple[AgentName, ...] | None = Field(default=None, alias="not")
    """Messages of these agents are dropped."""


class Span(YamlModel):
    """The newest part of a history, by the largest of the given limits."""

    rounds: Positive | None = None
    """Rounds; one starts at a user message."""
    messages: Positive | None = None
    """Messages."""
    tokens: Positive | None = None
    """Tokens, by the pipeline's counter."""


def _not_of_all(value: Any) -> Any:
    """Reject filters that do not work on a single message."""
    if isinstance(value, (list, tuple)):
        for element in value:
            if isinstance(element, str) and is_function_name(element):
                raise refuse(
                    f"`{element}` gets a whole history, so that it cannot stand here",
                    advice="It may look at `message.turn` itself: write it beside `older_than`.",
                )
            if isinstance(element, dict) and "older_than" in element:
                raise refuse("`older_than` cannot stand within `older_than`")
    return value


class OlderThan(Span):
    """A filter for the messages before the newest part of a history."""

    filters: Annotated[tuple[Filter, ...] | None, BeforeValidator(_not_of_all)] = None
    """Filters for the older messages, applied in order, without functions; without filters, all
    older messages are dropped."""


class FilterSpec(Choice):
    """A filter with options: exactly one of these."""

    noun: ClassVar[str] = "filter"
    agents: AgentFilter | None = None
    """By the agent that wrote a message."""
    drop: Annotated[Any, matcher_of(kinds.MESSAGE), AS_MATCHER] = None
    """Drops messages that match, as in claims."""
    older_than: OlderThan | None = None
    """Filters, or drops, only messages before the newest part."""


Filter = Annotated[
    Annotated[str, Tag("name"), names_schema(FILTERS)] | Annotated[FilterSpec, Tag("options")],
    BY_FORM,
    check_name("filter", FILTERS, FILTERS_WITH_OPTIONS),
]


class Window(YamlModel):
    """The newest part of a history; 0 is unlimited."""

    rounds: Count | None = None
    """Rounds; one starts at a user message."""
    messages: Count | None = None
    """Messages."""
    tokens: Count | None = None
    """Tokens, by the pipeline's counter."""


class History(Section):
    """The conversation before this run, after filters and window."""

    from_: Annotated[TextValue, RefersTo("channel", also=(LOG,))] | None = Field(
        default=None, alias="from"
    )
    """A channel (default: the conversation), or `log` for the complete log."""
    filters: tuple[Filter, ...] = ()
    """Filters, applied in order; the trace lists what they drop."""
    window: Window | None = None
    """Applied after the filters."""
    summary: AgentName | None = None
    """The agent that summarizes the messages that the window drops."""


class CurrentMessage(Section):
    """The user's message, or the query of the handoff that started the run."""


class Input(Section):
    """The previous node's output."""


class Task(Section):
    """The supervisor's task text."""


class Upstream(Section):
    """Output, tool calls and decision of the runs on incoming edges."""


class PreviousAgents(Section):
    """The outputs of this turn's other agents."""

    from_: _ChannelText | None = Field(default=None, alias="from")
    """The channel that holds the outputs (default `agent_outputs`)."""
    truncate: Positive | None = None
    """The largest number of characters of each agent's summary."""
    structured_data: Flag = True
    """Whether tool results are shown as JSON."""


class Shared(Section):
    """A channel as JSON; `as: json` makes it an indented block."""

    from_: _ChannelText = Field(alias="from")
    """The channel."""
    fields: dict[str, TextValue] | None = None
    """Label to a path into the channel's value; paths without a value are left out."""
    tokens: Positive | None = None
    """The largest number of tokens of the JSON; lists keep their first items, texts their first
    characters."""


class HandoffSection(Section):
    """The handoff that started the run: its payload as JSON, or some fields of it."""

    fields: dict[str, TextValue] | None = None
    """Label to a path into the handoff (`from, to, type, query, payload`)."""


def _channels(value: Any) -> Any:
    if not value:
        raise refuse("must name a channel, or a list of channels")
    for index, name in enumerate(value):
        if name in value[:index]:
            raise refuse(f"channel `{name}` is named twice")
    return value


class Recall(Section):
    """Items of channels, selected by scope, tags, age, score and budget."""

    from_: Annotated[
        Annotated[
            tuple[_ChannelText, ...], Field(min_length=1, json_schema_extra={"uniqueItems": True})
        ]
        | None,
        BeforeValidator(_channels),
        OneOrMore(),
    ] = Field(default=None, alias="from")
    """The channel of items, or a list of channels, which are shown in this order."""
    scopes: tuple[Literal["turn", "session", "project", "global"], ...] | None = None
    """Only items of channels with one of these scopes."""
    tags: tuple[str, ...] | None = None
    """Only items with one of these tags."""
    since_days: Count | None = None
    """Only items of the last days, by the virtual clock."""
    time_ranges: Template = None
    """Only items within one of these `{from, to}` ranges (ISO dates, inclusive)."""
    max: Count | None = None
    """The largest number of items."""
    top: Count | None = None
    """The largest number of items, best scores first."""
    threshold: Number | None = None
    """Only items with at least this score."""
    order: Literal["newest_first", "oldest_first", "score"] | None = None
    """The order of the items."""
    tokens: Count | None = None
    """The largest number of tokens of all items together."""


class Notes(Recall):
    """`recall` with lines `[date] (agent): text`, newest first."""


class Memories(Recall):
    """`recall` under `# Relevant Long-Term Memories`, best score first."""


class Custom(Section):
    """A section that a user's function makes from the root."""

    function: FunctionName
    """A function of the root (state, run, handoff, user, agent); it returns a text, a value or
    nothing."""


class Item(YamlModel):
    """One section of a recipe: its kind and its options."""

    noun: ClassVar[str] = "section"

    instructions: Instructions | None = None
    """The agent's instructions."""
    history: History | None = None
    """The conversation before this run."""
    current_message: CurrentMessage | None = None
    """The user's message, or the handoff's query."""
    input: Input | None = None
    """The previous node's output."""
    task: Task | None = None
    """The supervisor's task text."""
    upstream: Upstream | None = None
    """The runs on incoming edges."""
    previous_agents: PreviousAgents | None = None
    """The outputs of this turn's other agents."""
    shared: Shared | None = None
    """A channel as JSON."""
    handoff: HandoffSection | None = None
    """The handoff that started the run."""
    recall: Recall | None = None
    """Selected items of a channel."""
    notes: Notes | None = None
    """Notes, newest first."""
    memories: Memories | None = None
    """Memories, best first."""
    custom: Custom | None = None
    """A section made by a user's function."""
    custom_name: str = ""
    """The name of that section."""

    @classmethod
    def known_keys(cls) -> tuple[str, ...]:
        return (*KINDS, "custom", "custom_name")

    @property
    def kind(self) -> str:
        """Return the section's kind."""
        return next(key for key in self.model_fields_set if key != "custom_name")

    @property
    def options(self) -> Section:
        """Return the section's options."""
        section: Section = getattr(self, self.kind)
        return section

    @property
    def name(self) -> str:
        """Return the name of the section in claims and in the trace."""
        return self.options.name or self.custom_name or self.kind

    @classmethod
    def describe(cls, described: dict[str, Any]) -> None:
        described["properties"].pop("custom_name", None)
        custom = described["properties"].pop("custom", {})
        for options in described["properties"].values():
            options.pop("default", None)
        # The only built-in section that requires options.
        shared = described["properties"]["shared"]
        shared["anyOf"] = [kind for kind in shared["anyOf"] if kind != {"type": "null"}]
        described["additionalProperties"] = custom.get("anyOf", [{}])[0]
        described["propertyNames"] = {"not": {"enum": list(CONTEXT_CLAIMS)}}
        described["minProperties"] = described["maxProperties"] = 1


KINDS: Final[Mapping[str, type[Section]]] = {
    name: get_args(field.annotation)[0]
    for name, field in Item.model_fields.items()
    if not name.startswith("custom")
}
"""The built-in sections."""


def _item(value: Any) -> Any:
    if isinstance(value, str):
        if value not in KINDS:
            raise refuse(f"unknown section `{value}`", known=tuple(KINDS), word=value)
        return {value: {}}
    if not isinstance(value, dict):
        raise refuse("a section must be a name, or a name with options")
    names = [key for key in value if not key.startswith("x-")]
    if not names:
        raise refuse("a section must be a name, or a name with options")
    if len(names) != 1:
        raise refuse(
            f"a section has one name, not {len(names)}: {', '.join(names)}",
            advice="Start a new list item (`- `) for each section, and indent its options.",
        )
    (name,) = names
    options = {} if value[name] is None else value[name]
    if name in KINDS:
        return {name: options}
    if isinstance(options, dict) and "function" in options and name not in CONTEXT_CLAIMS:
        return {"custom": options, "custom_name": name}
    if name in CONTEXT_CLAIMS:
        raise refuse(f"`{name}` is a claim on contexts and cannot name a section")
    raise refuse(
        f"unknown section `{name}`",
        known=tuple(KINDS),
        word=name,
        advice="A section of your own takes `function: module:callable`.",
    )


RecipeItem = Annotated[Item, BeforeValidator(_item), OrForm({"enum": list(KINDS)})]
RecipeEntry = Annotated[
    Annotated[tuple[RecipeItem, ...], Field(min_length=1), Tag("shared")]
    | Annotated[RecipeItem, Tag("single")],
    Discriminator(lambda value: "shared" if isinstance(value, (list, tuple)) else "single"),
]
Recipe = tuple[RecipeEntry, ...]
"""Sections in order; a nested list is one message that several sections share."""


def _plain_item(kind: str) -> Item:
    # Not validated: that would build the models of all sections when this module is imported.
    return Item.model_construct({kind}, **{kind: KINDS[kind].model_construct()})


DEFAULT_RECIPE: Final[tuple[Item, ...]] = tuple(
    _plain_item(kind) for kind in ("instructions", "handoff", "history", "current_message")
)

SUPERVISED_RECIPE: Final[tuple[Item, ...]] = (*DEFAULT_RECIPE, _plain_item("task"))
"""The default recipe of agents to which a supervisor gives a task."""


def items_of(recipe: Recipe) -> list[Item]:
    """Return all sections of a recipe in order, including those inside a shared message."""
    return [item for _, item in placed_items(recipe, ())]


def placed_items(recipe: Recipe, at: SourcePath) -> Iterator[tuple[SourcePath, Item]]:
    """Yield the same sections, each with its path in the recipe at ``at``."""
    for index, entry in enumerate(recipe):
        if isinstance(entry, tuple):
            yield from (((*at, index, number), item) for number, item in enumerate(entry))
        else:
            yield (*at, index), entry
