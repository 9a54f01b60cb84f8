"""Names in a pipeline file: each must exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from simkit.core.errors import MatcherError
from simkit.language.json_schema import check_schema, schema_errors
from simkit.language.paths import compile as compile_references
from simkit.language.paths import head_of
from simkit.language.yaml import Document, SourcePath
from simkit.spec.fields import ANYTHING, require
from simkit.spec.lint_catalogue import FINDINGS
from simkit.spec.pipeline import model, root_names
from simkit.spec.pipeline.agents import (
    GraphCheck,
    channels_of,
    members_of,
    names_in,
    spoken_channels,
    ways_of,
)
from simkit.spec.pipeline.recipe import FilterSpec, Item, OlderThan, Recall, Recipe, placed_items
from simkit.spec.refers_to import name_references
from simkit.spec.scenario.claims import CONTEXT_CLAIMS

IMPLIED_CHANNELS: Final = {
    "recall": "items",
    "notes": "notes",
    "memories": "memories",
    "previous_agents": "agent_outputs",
}
"""The channels of sections that have no `from`."""

WHOLE_TEXTS: Final = ("instructions", "task", "history", "current_message")
"""Sections that show texts, not values."""


def check_pipeline(pipeline: model.Pipeline, document: Document) -> None:
    """Raise SourceError for the first unknown name."""
    for code in pipeline.lints:
        require(document, ("lints", code), "finding", code, FINDINGS, key=True)
    check = _Check(pipeline, document)
    check.nodes()
    check.names()
    check.schemas()
    check.tools()
    check.messages()
    check.agent(pipeline.defaults, ("defaults",))
    for name, agent in pipeline.agents.items():
        check.agent(agent, ("agents", name))
    check.models()
    check.contracts()
    check.flow()


def placed_schemas(pipeline: model.Pipeline) -> Iterator[tuple[SourcePath, Any]]:
    """Yield every schema of a pipeline with its path; None where one could stand."""
    for name, schema in pipeline.schemas.items():
        yield ("schemas", name), schema
    for name, channel in pipeline.channels.items():
        yield ("channels", name, "schema"), channel.schema_
    for name, agent in pipeline.agents.items():
        yield ("agents", name, "input"), agent.input
        yield ("agents", name, "output"), agent.output
    for name, tool in pipeline.tools.items():
        yield ("tools", name, "args"), tool.args
        yield ("tools", name, "returns"), tool.returns
    for index, contract in enumerate(pipeline.contracts):
        yield ("contracts", index, "payload"), contract.payload


class _Check:
    def __init__(self, pipeline: model.Pipeline, document: Document) -> None:
        self.pipeline, self.document = pipeline, document
        self.channels = channels_of(pipeline)
        self.agents = tuple(members_of(pipeline))

    def nodes(self) -> None:
        """Check that each node of a graph says which agent it runs."""
        graph, agents = self.pipeline.flow.graph, self.pipeline.agents
        for name, node in graph.nodes.items() if graph else ():
            if node.agent is None and name not in agents:
                raise self.document.error(
                    ("flow", "graph", "nodes", name),
                    f"node `{name}` is no agent's name",
                    word=name,
                    known=agents,
                    advice="Name the agent: `agent: NAME`.",
                    key=True,
                )

    def names(self) -> None:
        """Check each name that a field of the pipeline gives: it must exist."""
        pipeline = self.pipeline
        graph = pipeline.flow.graph
        known: dict[str, Iterable[str]] = {
            "agent": self.agents,
            "channel": self.channels,
            "definition": pipeline.agents,
            "node": graph.nodes if graph else (),
            "tool": pipeline.tools if "tools" in pipeline.model_fields_set else ANYTHING,
        }
        for path, word, refers_to, is_key in name_references(pipeline, self.document.data):
            noun, names = refers_to.kind, known[refers_to.kind]
            if refers_to.also and names is not ANYTHING:
                names = (*names, *refers_to.also)
            self.require(path, "agent" if noun == "definition" else noun, word, names, is_key)

    def require(
        self, path: SourcePath, noun: str, word: str, known: Iterable[str], key: bool = False
    ) -> None:
        """Reject an unknown word."""
        nodes = self._nodes_of(word) if noun == "agent" and word not in known else []
        if nodes:
            raise self.document.error(
                path,
                f"agent `{word}` goes by the name of its node here",
                key=key,
                advice=f"In a graph, nodes are what runs: {', '.join(nodes)}.",
            )
        require(self.document, path, noun, word, known, key)

    def _nodes_of(self, definition: str) -> list[str]:
        graph = self.pipeline.flow.graph
        nodes = graph.nodes.items() if graph and definition in self.pipeline.agents else ()
        return [f"`{name}`" for name, node in nodes if node.agent == definition]

    # Schemas

    def schemas(self) -> None:
        """Check the references of every schema to named schemas."""
        for path, schema in placed_schemas(self.pipeline):
            if schema is None or isinstance(schema, str):
                continue
            try:
                check_schema(schema, self.pipeline.schemas)
            except MatcherError as problem:
                raise self.document.error_of(problem, path) from None
        for name, channel in self.pipeline.channels.items():
            schema, begins = channel.schema_, channel.default
            if schema is None or isinstance(schema, str) or begins is None:
                continue
            for at, word_error in schema_errors(schema, begins, self.pipeline.schemas):
                raise self.document.error(("channels", name, "default", *at), word_error)

    def tools(self) -> None:
        """Check the channels that tools read."""
        for name, tool in self.pipeline.tools.items():
            if tool.reads is None:
                continue
            at = ("tools", name, "reads")
            channel = self.pipeline.channels.get(tool.reads)
            if channel is not None and channel.scope == "agent_run":
                raise self.document.error(
                    at, f"channel `{tool.reads}` has scope agent_run: nothing is ever found there"
                )
            if tool.function is not None:
                raise self.document.error(
                    ("tools", name, "function"),
                    f"tool `{name}` reads a channel, so no function answers it",
                    advice="Keep `reads:` or `function:`.",
                    key=True,
                )

    def messages(self) -> None:
        """Check that what holds messages outlives a run: the conversation, and what is read."""
        for name in spoken_channels(self.pipeline):
            channel = self.pipeline.channels.get(name)
            if channel is not None and channel.scope == "agent_run":
                raise self.document.error(
                    ("channels", name, "scope"),
                    f"channel `{name}` holds a conversation, so it cannot have scope agent_run",
                    advice="Give it scope `turn`, or longer.",
                )

    def models(self) -> None:
        """Check that models are set only for agents that are not functions."""
        agents = self.pipeline.agents
        for name in self.pipeline.models:
            if name in agents and agents[name].function is not None:
                problem = f"agent `{name}` is a function: no model answers for it"
                raise self.document.error(("models", name), problem, key=True)

    # Agents

    def agent(self, agent: model.Agent | model.Defaults, at: SourcePath) -> None:
        """Check the names in an agent, or in the defaults."""
        self._rules((*at, "before"), agent.before)
        self._rules((*at, "after"), agent.after)
        if agent.context is not None:
            self._recipe((*at, "context"), agent.context)
        contracts = [each for each in self.pipeline.contracts if each.to == at[-1]]
        payloads = [each.payload for each in contracts if isinstance(each.payload, Mapping)]
        schemas = [self.pipeline.schemas.get(each.get("$ref", ""), each) for each in payloads]
        names = (s.get(part, ()) for s in schemas for part in ("properties", "required"))
        keys = {key for part in names for key in part}
        for part in ("instructions", "writes", "before", "after", "context"):
            root_names.check_references(self.document, (*at, part), self.channels, keys)

    def _rules(self, at: SourcePath, rules: tuple[model.Rule, ...] | None) -> None:
        for index, rule in enumerate(rules or ()):
            root_names.check_when(self.document, (*at, index, "when"), rule.when, self.channels)

    # Recipes

    def _recipe(self, at: SourcePath, recipe: Recipe) -> None:
        visited: set[str] = set()
        for path, item in placed_items(recipe, at):
            self._section(path, item)
            if item.name in visited:
                raise self.document.error(
                    path,
                    f"section `{item.name}` is in this recipe twice",
                    advice="Give one of them a `name:` of its own, which claims then use.",
                )
            # Instructions may be split; they are one section in claims.
            if item.name != "instructions":
                visited.add(item.name)

    def _section(self, path: SourcePath, item: Item) -> None:
        inside: SourcePath = (*path, item.custom_name or item.kind)
        if item.name in (*CONTEXT_CLAIMS, "run"):
            raise self.document.error(
                (*inside, "name"), f"`{item.name}` is a claim on contexts and cannot name a section"
            )
        root_names.check_when(self.document, (*inside, "when"), item.options.when, self.channels)
        self._source(path, item)
        self._without_effect(inside, item)
        if item.history is not None:
            self._filters((*inside, "filters"), item.history.filters)

    def _source(self, path: SourcePath, item: Item) -> None:
        """Check that the channel exists that a section without `from` reads."""
        if getattr(item.options, "from_", None) is not None:
            return
        if (implied := IMPLIED_CHANNELS.get(item.kind)) and implied not in self.channels:
            raise self.document.error(
                path,
                f"section `{item.kind}` reads channel `{implied}`, which is not there",
                word=implied,
                known=self.channels,
                advice="Declare it under `channels:`, or name another with `from:`.",
            )

    def _without_effect(self, inside: SourcePath, item: Item) -> None:
        """Reject options that could have no effect."""
        options = item.options
        if item.history is not None and options.format is not None:
            raise self.document.error(
                (*inside, "format"),
                "a history shows messages and takes no `format`",
                advice="`as: text` renders it; `title` and `after` stand around it.",
            )
        if item.kind in WHOLE_TEXTS and options.preview is not None:
            raise self.document.error(
                (*inside, "preview"),
                f"section `{item.kind}` has no paths to preview",
                advice="Paths lead into values: input, shared, handoff, previous_agents, recall.",
            )
        if item.shared is not None and item.shared.fields == {}:
            raise self.document.error(
                (*inside, "fields"),
                "no field is named: the section could never show anything",
                advice="Without `fields` the whole value is shown.",
            )
        if isinstance(options, Recall):
            self._scopes(inside, options, options.from_ or (IMPLIED_CHANNELS[item.kind],))

    def _scopes(self, inside: SourcePath, options: Recall, channels: Iterable[str]) -> None:
        """Reject scopes that none of the section's channels has."""
        declared = self.pipeline.channels
        scopes = {
            name: declared[name].scope if name in declared else "session" for name in channels
        }
        if options.scopes is None or not set(scopes.values()).isdisjoint(options.scopes):
            return
        if len(scopes) == 1:
            ((name, scope),) = scopes.items()
            problem = f"channel `{name}` has scope {scope}, which is not among them"
        else:
            listed = ", ".join(f"`{name}` ({scope})" for name, scope in scopes.items())
            problem = f"none of the channels has one of them: {listed}"
        raise self.document.error(
            (*inside, "scopes"), f"{problem}: the section could never show anything"
        )

    def _filters(self, at: SourcePath, filters: Iterable[str | FilterSpec]) -> None:
        for index, filter in enumerate(filters):
            if isinstance(filter, str):
                continue
            said_by = filter.drop.get("agent") if isinstance(filter.drop, Mapping) else None
            if isinstance(said_by, str):
                self.require((*at, index, "drop", "agent"), "agent", said_by, self.agents)
            if filter.older_than is not None:
                self._older_than((*at, index, "older_than"), filter.older_than)

    def _older_than(self, at: SourcePath, options: OlderThan) -> None:
        """Reject an age that no message can have, or that has no effect."""
        if not (options.rounds or options.messages or options.tokens):
            raise self.document.error(
                at,
                "`older_than` has no age",
                advice="Say how much is newer: `rounds: 2`, `messages: 10` or `tokens: 2000`.",
            )
        if options.filters == ():
            raise self.document.error((*at, "filters"), "no filter is named: nothing is dropped")
        self._filters((*at, "filters"), options.filters or ())

    # Contracts

    def contracts(self) -> None:
        """Check the agents and channels of each contract, and that no two contracts are equal."""
        first_places: dict[tuple[str, str, str], int] = {}
        for index, contract in enumerate(self.pipeline.contracts):
            at: SourcePath = ("contracts", index)
            self._contract(at, contract)
            for source in contract.from_:
                first = first_places.setdefault((source, contract.to, contract.type), index)
                if first != index:
                    raise self.document.error(
                        at,
                        f"there are two contracts from `{source}` to `{contract.to}` of type "
                        f"`{contract.type}`; the first is contracts[{first}]",
                        advice="Give one of them another `type:`, or remove it.",
                    )

    def _contract(self, at: SourcePath, contract: model.Contract) -> None:
        self._contract_writes((*at, "writes"), contract)
        if not isinstance(contract.history, str):
            self._filters((*at, "history"), contract.history)
        for index, rule in enumerate(contract.rules):
            for path, key in root_names.keys_in(rule, (*at, "rules", index)):
                if not root_names.leads_to(key, root_names.HANDOFF_FIELDS):
                    word = head_of(key)
                    self.require(
                        path, "field of a handoff", word, root_names.HANDOFF_FIELDS, key=True
                    )

    def _contract_writes(self, at: SourcePath, contract: model.Contract) -> None:
        for name in contract.writes or ():
            channel = self.pipeline.channels.get(name)
            if channel is not None and channel.scope == "agent_run":
                raise self.document.error(
                    (*at, name),
                    f"channel `{name}` has scope agent_run: no target would ever receive it",
                    advice="Give it scope `turn`, or longer.",
                    key=True,
                )
        root_names.check_references(self.document, at, self.channels)

    # Flow

    def flow(self) -> None:
        """Check the names in the flow."""
        flow = self.pipeline.flow
        if flow.router is not None:
            self._route(("flow", "router", "to"), flow.router.to)
        if flow.handoffs is not None:
            self._route(("flow", "handoffs", "start"), flow.handoffs.start)
        if flow.graph is not None:
            GraphCheck(flow.graph, self.document).check()
        if flow.supervisor is not None:
            self._supervisor(flow.supervisor)
        self._modes_of_ways()
        root_names.check_references(self.document, ("flow",), self.channels)

    def _modes_of_ways(self) -> None:
        """Reject a contract that would make an edge or a step return to its source."""
        ways = set(ways_of(self.pipeline))
        for index, contract in enumerate(self.pipeline.contracts):
            sources = {a for a, b in ways if b == contract.to} & {*contract.from_}
            wrong = "approval" if contract.approval else "mode"
            if sources and (contract.approval or contract.mode != "transfer"):
                value = "true" if contract.approval else contract.mode
                raise self.document.error(
                    ("contracts", index, wrong),
                    f"control goes on from `{sorted(sources)[0]}` to `{contract.to}` by itself, so "
                    f"their contract cannot have {wrong} `{value}`",
                    advice="An edge or a step is a transfer.",
                )

    def _route(self, path: SourcePath, value: Any) -> None:
        if isinstance(value, dict):
            for word in value:
                self.require((*path, word), "key", word, ("parallel",), key=True)
        if compile_references(value).is_constant:
            names = names_in(value)
            if not names:
                raise self.document.error(
                    path, "must be a reference, or an agent's name", known=self.agents
                )
            for name in names:
                self.require(path, "agent", name, self.agents)

    def _supervisor(self, flow: model.SupervisorFlow) -> None:
        if not flow.goals:
            raise self.document.error(("flow", "supervisor", "goals"), "there is no goal")
        for goal, value in flow.goals.items():
            steps = ("flow", "supervisor", "goals", goal, "steps")
            if not value.steps:
                raise self.document.error(steps, f"goal `{goal}` has no steps")
            for index, step in enumerate(value.steps):
                at = (*steps, index)
                if len(step) != 1:
                    raise self.document.error(
                        at,
                        f"a step is one agent and its task, not {len(step)}",
                        advice="Start a new list item (`- `) for each step.",
                    )
