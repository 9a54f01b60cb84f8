"""The names that a scenario may use: those of its pipeline, or any if the pipeline is code.

The names in claims on arguments, payloads and results are those of their schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Final, TypeAlias

import msgspec

from simkit.core.messages import CallLine, as_json
from simkit.language.matching import kinds
from simkit.language.matching.kinds import Kind
from simkit.language.matching.schema_names import Place, RecordPlace, SchemaPlace, unknown_names
from simkit.language.paths import head_of
from simkit.language.yaml import Document, Open, SourcePath
from simkit.spec.fields import ANYTHING
from simkit.spec.lint_catalogue import LINTS
from simkit.spec.pipeline.agents import (
    RUN_SECTION,
    channels_of,
    members_of,
    sections_of,
    speakers_of,
    spoken_channels,
    tools_of,
)
from simkit.spec.pipeline.model import Contract, Pipeline
from simkit.spec.pipeline.recipe import FILTERS, FILTERS_WITH_OPTIONS, Recall, items_of
from simkit.spec.pipeline.recipe import KINDS as SECTION_KINDS
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.model import Scenario
from simkit.spec.scenario.replies import lines_of
from simkit.spec.scenario.simulated_users import SAMPLE
from simkit.trace.events import KINDS

_ADDED: Final = {"source_agent": "", "handoff_type": ""}
"""The keys that simkit adds to a payload whose schema names them."""
_TOOL_OUTPUT: Final = "tool_output"
_ARGS: Final = ("args", "asked")
VALUE_KEYS: Final = frozenset((*_ARGS, "result", "payload"))
"""The keys of an entry whose values have schemas."""
_NOUNS: Final = {"args": "argument", "asked": "argument"}
"""Key of an entry to the noun of a name there; elsewhere it is a key."""


class FileValues(msgspec.Struct, frozen=True):
    """The values in the reply lines and tool results of a file: their names may be claimed, too."""

    args: Mapping[str, Sequence[Any]] = {}
    """Tool to the arguments of its calls."""
    payloads: Mapping[str, Sequence[Any]] = {}
    """Agent to the payloads of handoffs to it."""
    results: Mapping[str, Sequence[Any]] = {}
    """Tool to its results."""
    outputs: Mapping[str, Sequence[Any]] = {}
    """Agent to what its lines say as JSON: a supervisor hands that on as a payload.

    None stands for a text in which there may be JSON with any names.
    """
    is_all: bool = False
    """Whether models answer nothing but these lines and what schemas list.

    Recordings and functions may answer with any names, even with those that a schema forbids.
    """


class ValueSchemas(msgspec.Struct, frozen=True):
    """The schemas of a pipeline's tools and handoffs."""

    args: Mapping[str, Any]
    """Tool to the schema of its arguments."""
    results: Mapping[str, Any] = {}
    """Tool to the schema of its result."""
    contracts: Sequence[Contract] = ()
    schemas: Mapping[str, Any] = {}
    """The schemas that a ``$ref`` may name."""
    computed: frozenset[str] = frozenset()
    """The tools whose results come from a function."""
    hands_over: bool = False
    """Whether a function may make a handoff."""
    outputs: Mapping[str, Any] = {}
    """Agent to the schema of its output."""
    tool_outputs: frozenset[str] = frozenset()
    """The agents whose output is the result of a tool."""
    speakers: Mapping[str, Sequence[str]] = {}
    """Agent to those whose output its flow may hand on in its name."""
    targets: Mapping[str, Sequence[str]] = {}
    """Agent to those to which it may pass control, with or without a contract."""
    is_every_tool: bool = True
    """Whether there are no other tools."""


def schemas_in(pipeline: Pipeline) -> ValueSchemas:
    """Return the schemas that a pipeline declares."""
    members = members_of(pipeline)
    outputs = {name: pipeline.agents[member].output for name, member in members.items()}
    return ValueSchemas(
        {name: tool.args for name, tool in pipeline.tools.items()},
        {name: tool.returns for name, tool in pipeline.tools.items()},
        pipeline.contracts,
        pipeline.schemas,
        frozenset(name for name, tool in pipeline.tools.items() if tool.function or tool.reads),
        any(agent.function is not None for agent in pipeline.agents.values()),
        {name: output for name, output in outputs.items() if output is not None},
        frozenset(
            name
            for name, member in members.items()
            if pipeline.of_agent(member, "returns") == _TOOL_OUTPUT
        ),
        {name: speakers_of(pipeline, name) for name in members},
        {name: pipeline.of_agent(member, "handoffs") for name, member in members.items()},
    )


def values_in(scenario: Scenario) -> FileValues:
    """Return the values that a scenario's lines and tool results have."""
    args: dict[str, list[Any]] = {}
    payloads: dict[str, list[Any]] = {}
    results: dict[str, list[Any]] = {}
    outputs: dict[str, list[Any]] = {}
    is_all = scenario.cassette is None
    for turn in scenario.turns:
        for agent, lines in turn.replies.items():
            for line in lines_of(lines):
                if "json_" in line.model_fields_set:
                    outputs.setdefault(agent, []).append(line.json_)
                elif line.text is not None and "{" in line.text:
                    outputs.setdefault(agent, []).append(as_json(line.text))
                is_all &= line.function is None
                calls: Sequence[CallLine] = line.calls or ()
                for call in calls:
                    args.setdefault(call.tool, []).append(call.args)
                if line.handoff is not None:
                    payloads.setdefault(line.handoff.to, []).append(line.handoff.payload)
        for tool, result in turn.tool_results.items():
            for answer in result.answers:
                results.setdefault(tool, []).extend(_options(answer.returns))
    return FileValues(args, payloads, results, outputs, is_all)


def _options(value: Any) -> Iterator[Any]:
    """Yield the values one of which a simulation chooses."""
    options = value.get(SAMPLE) if isinstance(value, Mapping) else None
    if isinstance(options, (list, tuple)):
        yield from options
    else:
        yield value


class ValueNames:
    """The check of the names in claims against the schemas of values."""

    def __init__(self, schemas: ValueSchemas, values: Callable[[], FileValues]) -> None:
        self._schemas, self._find_values = schemas, values

    @cached_property
    def _values(self) -> FileValues:
        # Most files claim no name of a value, and all their lines would be searched.
        return self._find_values()

    def check(self, document: Document, at: SourcePath, entry: Mapping[str, Any]) -> None:
        """Raise SourceError for the first name in a tool call, handoff or event that no value has.

        Where a schema allows any name, or is not known, nothing is checked.
        """
        if not any(head_of(key) in VALUE_KEYS for key in entry if not key.startswith("$")):
            return
        for unknown in unknown_names(entry, RecordPlace(self._places(entry))):
            head = next(head_of(step) for step in unknown.path if isinstance(step, str))
            noun = _NOUNS.get(head, "key")
            raise document.error(
                (*at, *unknown.path),
                f"{_subject(head, entry)} has no {noun} `{unknown.name}`, so this could never "
                "match",
                word=unknown.name,
                known=unknown.known,
                key=True,
            )

    def _places(self, entry: Mapping[str, Any]) -> dict[str, Place]:
        """Return the places of the values in an entry."""
        schemas, values = self._schemas, self._values
        every = schemas.args if schemas.is_every_tool else ("",)
        tools = _named(entry.get("tool", entry.get("name")), every)
        args = self._place(tools, schemas.args, values.args, values.is_all)
        is_scripted = schemas.computed.isdisjoint(tools)
        places: dict[str, Place] = dict.fromkeys(_ARGS, args)
        places["result"] = self._place(tools, schemas.results, values.results, is_scripted)
        places["payload"] = self._payload(entry)
        return places

    def _place(
        self,
        tools: Sequence[str],
        schemas: Mapping[str, Any],
        values: Mapping[str, Sequence[Any]],
        is_known: bool,
    ) -> Place:
        return SchemaPlace(
            [schemas.get(tool) if is_known else None for tool in tools],
            self._schemas.schemas,
            [value for tool in tools for value in values.get(tool, ())],
        )

    def _payloads_agreed(
        self, sources: Sequence[str], targets: Sequence[str], kind: Any
    ) -> Iterator[Any]:
        """Yield the schemas of the payloads of all possible handoffs; None for one without.

        No source, or no target, stands for any. No type stands for every one.
        """
        contracts = [
            contract
            for contract in self._schemas.contracts
            if _is_either(sources, *contract.from_) and _is_either(targets, contract.to)
        ]
        for contract in contracts:
            if not isinstance(kind, str) or kind == contract.type:
                yield contract.payload
        agreed = {(source, contract.to) for contract in contracts for source in contract.from_}
        for source, allowed in self._schemas.targets.items():
            for target in allowed if _is_either(sources, source) else ():
                is_agreed = not agreed.isdisjoint({(source, target), ("*", target)})
                if _is_either(targets, target) and not is_agreed:
                    yield None

    def _payload(self, entry: Mapping[str, Any]) -> Place:
        schemas, values = self._schemas, self._values
        sources, targets = (
            _named(entry.get(key, entry.get(f"{key}_agent")), ()) for key in ("from", "to")
        )
        fits = [*self._payloads_agreed(sources, targets, entry.get("type"))]
        # A supervisor hands on what the source said, also where the contract then refuses it; an
        # agent to which the source passed control speaks in its place.
        speakers = {
            name for key in sources or schemas.speakers for name in schemas.speakers.get(key, ())
        }
        answers = [value for name in speakers for value in values.outputs.get(name, ())]
        is_known = (
            values.is_all
            and not schemas.hands_over
            and schemas.tool_outputs.isdisjoint(speakers)
            and None not in answers
        )
        outputs = [schemas.outputs[name] for name in speakers if name in schemas.outputs]
        lines = (values.payloads.get(name, ()) for name in targets or values.payloads)
        return SchemaPlace(
            [*fits, *outputs] if is_known else [None],
            schemas.schemas,
            [_ADDED, *chain.from_iterable(lines), *answers],
        )


def _is_either(names: Sequence[str], *options: str) -> bool:
    """Return whether a name is among some; no names, and the option ``*``, stand for any."""
    return not names or not {*names, "*"}.isdisjoint(options)


def _named(matcher: Any, known: Iterable[str]) -> Sequence[str]:
    """Return what a matcher names: a text, or several; all that are known if it is another."""
    if isinstance(matcher, str):
        return (matcher,)
    if isinstance(matcher, Mapping) and len(matcher) == 1:
        ((key, options),) = matcher.items()
        if key in ("$in", "$either") and all(isinstance(option, str) for option in options):
            return tuple(options)
    return tuple(known)


def _subject(head: str, entry: Mapping[str, Any]) -> str:
    """Return what has the names."""
    tool = entry.get("tool", entry.get("name"))
    if head == "payload":
        return "the handoff's payload"
    if not isinstance(tool, str):
        return "no such tool call" if head in _ARGS else "no such result"
    return f"tool `{tool}`" if head in _ARGS else f"the result of tool `{tool}`"


Subject: TypeAlias = Pipeline | App
"""The pipeline that a scenario tests."""
NAMES: Final[Mapping[str, Iterable[str]]] = {
    "event": KINDS,
    "kind of cut": ("message", "tool_calls", "content"),
    "lint": tuple(LINTS),
    # The levels of `logging`; code may define others.
    "log level": Open(("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")),
    "mode": ("transfer", "delegate", "replace"),
    "outcome": ("made", "pending", "rejected"),
    "reason": (
        "scopes", "since_days", "time_ranges", "tags", "threshold", "max", "tokens", "preview",
        "truncate", "when",
    ),
}  # fmt: skip
"""Noun to its names, if they are the same for every pipeline."""


class KnownNames(msgspec.Struct, frozen=True):
    """Known names by kind; ANYTHING if simkit cannot know them."""

    agents: Sequence[str] = ANYTHING
    channels: Sequence[str] = ANYTHING
    tools: Sequence[str] = ANYTHING
    sections: Sequence[str] = ANYTHING
    filters: Sequence[str] = ANYTHING
    """The pipeline's own history filters."""
    declared_tools: Sequence[str] = ANYTHING
    """The pipeline's tools, whether or not an agent is offered them."""
    all_sections: frozenset[str] = frozenset()
    """The sections of all recipes, and those that any recipe may have."""
    sections_of: Callable[[str], Sequence[str]] = lambda agent: ANYTHING
    tools_of: Callable[[str], Sequence[str]] = lambda agent: ANYTHING
    state: Kind = kinds.STATE
    """The kind of the channels' values, as far as their reducers determine it."""
    recalled: frozenset[str] = frozenset()
    """The channels with items that may have scores."""
    result_names: frozenset[str] = frozenset()
    """The channels that hold messages."""
    goals: Sequence[str] = ANYTHING
    """A supervisor's goals."""
    values: ValueSchemas = ValueSchemas({})
    """The schemas of tools and handoffs; empty if they are not known."""
    servers: Sequence[str] = ANYTHING

    def of(self, noun: str) -> Iterable[str]:
        """Return the names of a noun such as `agent`, `tool`, `mode`."""
        if noun == "filter":
            own = self.filters
            return own if own is ANYTHING else (*FILTERS, *FILTERS_WITH_OPTIONS, "window", *own)
        names: Iterable[str] = NAMES[noun] if noun in NAMES else getattr(self, f"{noun}s")
        return names


def known_in(subject: Subject) -> KnownNames:
    """Return the names that a pipeline declares."""
    if isinstance(subject, App):
        named = (rule.sections or () for rule in subject.agents.values())
        sections = frozenset((*SECTION_KINDS, RUN_SECTION, *chain.from_iterable(named)))
        return KnownNames(servers=tuple(subject.servers), all_sections=sections)
    return subject.remembered(("names",), lambda: _names_in(subject))


def _names_in(subject: Pipeline) -> KnownNames:
    members = members_of(subject)
    definitions = dict.fromkeys(members.values())
    tools = tuple(
        dict.fromkeys(tool for name in subject.agents for tool in tools_of(subject, name))
    )
    sections = tuple(
        dict.fromkeys(
            name for definition in definitions for name in sections_of(subject, definition)
        )
    )
    return KnownNames(
        tuple(members),
        channels_of(subject),
        tools,
        sections,
        _own_filters(subject),
        tuple(dict.fromkeys((*tools, *subject.tools))),
        frozenset((*sections, *SECTION_KINDS)),
        lambda agent: sections_of(subject, members[agent]),
        lambda agent: tools_of(subject, members[agent]),
        kinds.STATE._replace(fields=dict(_kinds_of_channels(subject))),
        frozenset(_recalled(subject)),
        spoken_channels(subject),
        tuple(subject.flow.supervisor.goals) if subject.flow.supervisor is not None else (),
        schemas_in(subject),
        (),
    )


_LISTED: Final = ("append", "union", "by_id")
_KIND_BY_TYPE: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(_LISTED, kinds.list_of(None, "a channel that is a list")),
    "add": kinds.NUMBER._replace(noun="a channel that is a number"),
    "merge": kinds.mapping_of(None, "a channel that is a mapping"),
    "merge_deep": kinds.mapping_of(None, "a channel that is a mapping"),
}
"""Reducer to the kind of its channel's values."""


def _kinds_of_channels(pipeline: Pipeline) -> Iterator[tuple[str, Kind]]:
    text_kinds = spoken_channels(pipeline)
    for name in channels_of(pipeline):
        channel = pipeline.channels.get(name)
        reducer = "append" if channel is None else channel.reducer_name
        if name in text_kinds and reducer in _LISTED:
            yield name, kinds.MESSAGES._replace(noun="a channel of messages")
        elif reducer in _KIND_BY_TYPE:
            yield name, _KIND_BY_TYPE[reducer]


def _recalled(pipeline: Pipeline) -> Iterator[str]:
    for name in pipeline.agents:
        for item in items_of(pipeline.recipe_of(name)):
            if isinstance(item.options, Recall):
                yield from item.options.from_ or (item.kind,)


def _own_filters(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the pipeline's filters that are user functions."""
    filter_names: list[str] = []
    for name in pipeline.agents:
        for item in items_of(pipeline.recipe_of(name)):
            filters = item.history.filters if item.history is not None else ()
            filter_names += [
                filter for filter in filters if isinstance(filter, str) and ":" in filter
            ]
    return tuple(dict.fromkeys(filter_names))
