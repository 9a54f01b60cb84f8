"""Checks of a pipeline: what nothing reads or uses, and graphs that do not end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import msgspec

from simkit.core.errors import ReferenceInvalid
from simkit.language.paths import follow, parse, references_in, walk
from simkit.language.yaml import Document, SourcePath
from simkit.spec.pipeline.agents import AT, ELSE, channels_of, listed, members_of, reach, tools_of
from simkit.spec.pipeline.model import Agent, Contract, Defaults, Edge, GraphFlow, Pipeline
from simkit.spec.pipeline.names import IMPLIED_CHANNELS, placed_schemas
from simkit.spec.pipeline.recipe import LOG, Item, Recipe, items_of, placed_items
from simkit.spec.pipeline.root_names import is_passed_over, keys_in, leads_to, words_below
from simkit.spec.validation.problems import Flaw

INHERITED: Final = ("context", "writes", "before", "after")
"""Keys that agents inherit from ``defaults`` and that may read channels."""
BUILT_IN: Final = "simkit."
"""Functions below this module do not read the state."""


class Read(msgspec.Struct, frozen=True):
    """One place at which a channel is read."""

    channel: str
    path: SourcePath
    agents: tuple[str, ...] = ()
    """The definitions of the agents that read it there; empty for the flow."""
    key: bool = False


class ChannelUse(msgspec.Struct, frozen=True):
    """The reads and writes of a pipeline's channels."""

    reads: tuple[Read, ...]
    read: frozenset[str]
    writes: frozenset[str]
    sees_all: bool
    """Whether something gets the whole state: a function, or ``${state}``."""
    writes_any: bool
    """Whether the name of a written channel is a reference."""


def channel_use(pipeline: Pipeline, document: Document) -> ChannelUse:
    """Return the reads and writes of a pipeline's channels, computed once."""

    def use_of() -> ChannelUse:
        finder = _Finder(pipeline, document)
        reads = tuple(finder.reads())
        channels = tuple(_channels_written(pipeline))
        return ChannelUse(
            reads,
            frozenset(read.channel for read in reads),
            frozenset(channels),
            finder.sees_all or _has_functions(pipeline),
            any("${" in name for name in channels),
        )

    return pipeline.remembered(("channel_use",), use_of)


class _Finder:
    def __init__(self, pipeline: Pipeline, document: Document) -> None:
        self.pipeline, self.document = pipeline, document
        self.channels = channels_of(pipeline)
        self.sees_all = False

    def reads(self) -> Iterator[Read]:
        pipeline = self.pipeline
        for key in INHERITED:
            heirs = tuple(
                name for name, agent_ in pipeline.agents.items() if not _has_own(agent_, key)
            )
            if heirs:
                yield from self._of_owner(pipeline.defaults, ("defaults",), key, heirs)
        for name, agent in pipeline.agents.items():
            for key in ("instructions", *INHERITED):
                yield from self._of_owner(agent, ("agents", name), key, (name,))
        for name, tool in pipeline.tools.items():
            if tool.reads is not None:
                users = (
                    agent_
                    for agent_ in pipeline.agents
                    if name in pipeline.of_agent(agent_, "tools")
                )
                yield Read(tool.reads, ("tools", name, "reads"), tuple(users))
        for index, contract in enumerate(pipeline.contracts):
            if contract.writes:
                yield from self._in_texts(("contracts", index, "writes"), self._sources(contract))
        yield from self._in_texts(("flow",), ())

    def _sources(self, contract: Contract) -> tuple[str, ...]:
        """Return the definitions of the agents with runs that resolve a contract's writes."""
        members = members_of(self.pipeline)
        names = members if "*" in contract.from_ else contract.from_
        return tuple(dict.fromkeys(members[name] for name in names if name in members))

    def _of_owner(
        self, owner: Agent | Defaults, at: SourcePath, key: str, agents: tuple[str, ...]
    ) -> Iterator[Read]:
        """Yield the reads in one key of an agent, or of the defaults."""
        if key == "context":
            # A function gets no context.
            agents = tuple(
                agent for agent in agents if self.pipeline.agents[agent].function is None
            )
            if agents and owner.context is not None:
                yield from self._of_recipe(owner.context, (*at, key), agents)
        if agents:
            yield from self._in_texts((*at, key), agents)

    def _of_recipe(self, recipe: Recipe, at: SourcePath, agents: tuple[str, ...]) -> Iterator[Read]:
        for path, item in placed_items(recipe, at):
            inside = (*path, item.custom_name or item.kind)
            for channel in _channels_of(item, self.pipeline.conversation):
                yield Read(channel, (*inside, "from"), agents)

    def _in_texts(self, at: SourcePath, agents: tuple[str, ...]) -> Iterator[Read]:
        """Yield the reads in references and ``when`` below a place."""
        for path, reference, key in self._paths(at):
            channel = self._channel(reference)
            if channel is not None:
                yield Read(channel, path, agents, key)

    def _paths(self, at: SourcePath) -> Iterator[tuple[SourcePath, str, bool]]:
        for path, text, is_key in words_below(self.document, at):
            yield from ((path, reference, is_key) for _, reference in references_in(text))
        for path, matcher in walk(follow(self.document.data, at), at, is_passed_over):
            if path[-1] == "when":
                yield from self._in_when(matcher, path)

    def _in_when(self, matcher: Any, at: SourcePath) -> Iterator[tuple[SourcePath, str, bool]]:
        for path, key in keys_in(matcher, at):
            inner = list(keys_in(follow(self.document.data, path), path)) if key == "state" else []
            if inner:
                yield from ((where, f"state.{name}", True) for where, name in inner)
            else:
                yield path, key, True

    def _channel(self, reference: str) -> str | None:
        """Return the channel of a path over the root; None if it leads into none."""
        try:
            head, *tail = parse(reference)
        except ReferenceInvalid:
            return None
        if head != "state":
            return None
        if not tail:
            self.sees_all = True
            return None
        if tail[0] in self.channels:
            return str(tail[0])
        rest = reference[len("state") :].lstrip(".")
        return next((name for name in self.channels if leads_to(rest, (name,))), None)


def _has_own(agent: Agent, key: str) -> bool:
    return key in agent.model_fields_set and getattr(agent, key) is not None


def _channels_of(item: Item, conversation: str) -> Iterable[str]:
    """Return the channels that a section shows, by ``from`` or by its kind."""
    named = getattr(item.options, "from_", None)
    if isinstance(named, tuple):
        return named
    if item.history is not None:
        named = named or conversation
        return () if named == LOG else (named,)
    implied = named or IMPLIED_CHANNELS.get(item.kind)
    return (implied,) if implied else ()


def _channels_written(pipeline: Pipeline) -> Iterator[str]:
    yield pipeline.conversation
    owners: tuple[Agent | Defaults, ...] = (pipeline.defaults, *pipeline.agents.values())
    for owner in owners:
        yield from owner.writes or ()
        for rule in (*(owner.before or ()), *(owner.after or ())):
            yield from rule.writes
    for contract in pipeline.contracts:
        yield from contract.writes or ()


def _has_functions(pipeline: Pipeline) -> bool:
    """Return whether user code gets the state: an agent or a section that is a function."""
    agents = pipeline.agents.values()
    if any(
        agent.function is not None and not agent.function.startswith(BUILT_IN) for agent in agents
    ):
        return True
    recipes = (pipeline.defaults.context, *(agent.context for agent in agents))
    return any(item.custom is not None for recipe in recipes for item in items_of(recipe or ()))


# Declarations of a pipeline: private channels that others read, and unused declarations


def private_reads(pipeline: Pipeline, document: Document) -> Iterator[Flaw]:
    """Yield VAL-13: a channel that is private to an agent is read by another."""
    owners: dict[str, list[str]] = {}
    for name, agent in pipeline.agents.items():
        for channel in agent.private:
            owners.setdefault(channel, []).append(name)
    if not owners:
        return
    for read in channel_use(pipeline, document).reads:
        others = [
            agent_ for agent_ in read.agents if agent_ not in owners.get(read.channel, read.agents)
        ]
        if others:
            verb = "agent {} reads" if len(others) == 1 else "agents {} read"
            problem = (
                f"{verb.format(listed(others))} channel `{read.channel}`, which is private to "
                f"{listed(owners[read.channel])}"
            )
            yield Flaw("VAL-13", read.path, problem, key=read.key)


def unused(pipeline: Pipeline) -> Iterator[Flaw]:
    """Yield VAL-14: tools that no agent has, schemas without a reference."""
    offered = {tool for name in pipeline.agents for tool in tools_of(pipeline, name)}
    for name in pipeline.tools:
        if name not in offered:
            yield Flaw("VAL-14", ("tools", name), f"no agent has tool `{name}`", key=True)
    referred = _schemas_referred_to(pipeline)
    for name in pipeline.schemas:
        if name not in referred:
            problem = f"nothing refers to schema `{name}`"
            yield Flaw("VAL-14", ("schemas", name), problem, key=True)


def unused_channels(
    pipeline: Pipeline, document: Document, mentioned: Collection[str]
) -> Iterator[Flaw]:
    """Yield VAL-14: channels that neither the pipeline nor a scenario uses."""
    use = channel_use(pipeline, document)
    if use.sees_all or use.writes_any:
        return
    carried = {name for contract in pipeline.contracts for name in contract.carries or ()}
    for name in pipeline.channels:
        if not any(name in names for names in (use.read, use.writes, carried, mentioned)):
            problem = f"nothing reads or writes channel `{name}`, and no scenario mentions it"
            yield Flaw("VAL-14", ("channels", name), problem, key=True)


def _schemas_referred_to(pipeline: Pipeline) -> set[str]:
    schemas = [schema for path, schema in placed_schemas(pipeline) if path[0] != "schemas"]
    return reach(_references(schemas), lambda name: _references(pipeline.schemas.get(name)))


def _references(schema: Any) -> Iterator[str]:
    """Yield the names in ``$ref`` inside a schema."""
    for path, inner in walk(schema):
        if path[-1:] == ("$ref",) and isinstance(inner, str):
            yield inner.partition("#")[0]


# Graphs that can run, but have loops without a way out, or overlapping labels


NODES_MAX: Final = 8
"""The number of nodes that a message names."""


def graph_flaws(pipeline: Pipeline) -> Iterator[Flaw]:
    """Yield VAL-11, loops without a way out, and VAL-12, labels that fit the same words."""
    graph = pipeline.flow.graph
    if graph is None:
        return
    trapped = _trapped(graph)
    if trapped:
        named = listed(trapped[:NODES_MAX])
        more = ", …" if len(trapped) > NODES_MAX else ""
        problem = (
            f"no way leads from {named}{more} to an end: only an interrupt, an error or "
            f"`agent_runs_per_turn` ({pipeline.limits.agent_runs_per_turn}) ends the turn"
        )
        yield Flaw("VAL-11", (*AT, "nodes", trapped[0]), problem, key=True)
    contains = graph.route_by is not None and "contains" in graph.route_by.model_fields_set
    for name, edges in _labelled(graph).items():
        yield from _label_flaws(name, edges, contains)


def _trapped(graph: GraphFlow) -> list[str]:
    """Return the nodes from which no path leads to an end, in the order of the file."""
    before: dict[str, list[str]] = defaultdict(list)
    edges: dict[str, list[Edge]] = defaultdict(list)
    for edge in graph.edges:
        before[edge.to].append(edge.from_)
        edges[edge.from_].append(edge)
    # An edge that can always be taken is taken; `exit: true` then has no effect.
    ends = [
        name
        for name, node in graph.nodes.items()
        if not edges[name]
        or (node.exit and node.role == "decision" and ELSE not in [e.label for e in edges[name]])
    ]
    leaves = reach(ends, lambda name: before[name])
    return [name for name in graph.nodes if name not in leaves]


def _labelled(graph: GraphFlow) -> dict[str, list[tuple[int, str]]]:
    by_label: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for index, edge in enumerate(graph.edges):
        if edge.label not in (None, ELSE) and graph.nodes[edge.from_].role == "decision":
            by_label[edge.from_].append((index, edge.label or ""))
    return by_label


def _label_flaws(node: str, edges: list[tuple[int, str]], contains: bool) -> Iterator[Flaw]:
    first: dict[str, int] = {}
    for index, label in edges:
        if label in first:
            problem = (
                f"edges[{first[label]}] of `{node}` has label `{label}` too, and is taken first"
            )
            yield Flaw("VAL-12", (*AT, "edges", index, "label"), problem)
        first.setdefault(label, index)
    if contains:
        for label, inner in _nested(first):
            index, other = first[label], first[inner]
            if other < index:
                problem = (
                    f"this edge of `{node}` is never taken: label `{inner}`, which stands in "
                    f"`{label}`, is that of edges[{other}] and is tried first"
                )
            else:
                problem = f"what holds label `{label}` of `{node}` holds `{inner}` too"
            yield Flaw("VAL-12", (*AT, "edges", max(index, other), "label"), problem)


def _nested(labels: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each label with the first one that it contains; linear if lengths are few."""
    lengths = sorted({len(label) for label in labels})
    for label in labels:
        inner = next(
            (
                part
                for length in lengths
                if length < len(label)
                for start in range(len(label) - length + 1)
                if (part := label[start : start + length]) in labels
            ),
            None,
        )
        if inner is not None:
            yield label, inner
