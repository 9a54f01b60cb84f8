"""Agents of a pipeline: their names, tools, sections, and how control reaches them; graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from itertools import chain, pairwise
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from simkit.language.paths import compile as compile_references
from simkit.language.paths import parse, references_in
from simkit.language.yaml import Document, SourcePath
from simkit.spec.pipeline.model import Edge, GraphFlow, Pipeline
from simkit.spec.pipeline.recipe import items_of

RUN_SECTION: Final = "run"
"""The section with the agent run's own messages."""
SUMMARY_SECTIONS: Final = ("instructions", "summary", "history")
"""The sections of an agent that summarizes for another."""


ResultT = TypeVar("ResultT")
ParamsP = ParamSpec("ParamsP")


def _once(
    find: Callable[Concatenate[Pipeline, ParamsP], ResultT],
) -> Callable[Concatenate[Pipeline, ParamsP], ResultT]:
    """Cache a function of the pipeline, however many scenarios call it."""

    @wraps(find)
    def value_of(pipeline: Pipeline, /, *args: ParamsP.args, **kwargs: ParamsP.kwargs) -> ResultT:
        return pipeline.remembered((find.__name__, *args), lambda: find(pipeline, *args, **kwargs))

    return value_of


@_once
def members_of(pipeline: Pipeline) -> dict[str, str]:
    """Return the agents by the names under which they run, with the names of their definitions.

    In a graph, a node's id is the agent's name everywhere.
    """
    graph = pipeline.flow.graph
    if graph is None:
        return {name: name for name in pipeline.agents}
    nodes = {name: node.agent or name for name, node in graph.nodes.items()}
    names = {*nodes, *nodes.values()}
    return {**nodes, **{name: name for name in pipeline.agents if name not in names}}


@_once
def channels_of(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the names of the channels; the conversation is one, declared or not."""
    return tuple(dict.fromkeys((*pipeline.channels, pipeline.conversation)))


@_once
def spoken_channels(pipeline: Pipeline) -> frozenset[str]:
    """Return the channels that hold messages: the conversation, and those that histories read."""
    items = chain.from_iterable(items_of(pipeline.recipe_of(name)) for name in pipeline.agents)
    read = {item.history.from_ for item in items if item.history is not None}
    return frozenset({pipeline.conversation, *filter(None, read)} - {"log"})


def ways_of(pipeline: Pipeline) -> tuple[tuple[str, str], ...]:
    """Return the declared transitions between agents: a graph's edges, a supervisor's steps."""
    flow = pipeline.flow
    if flow.graph is not None:
        return tuple((edge.from_, edge.to) for edge in flow.graph.edges)
    if flow.supervisor is None:
        return ()
    steps = [next(iter(step)) for goal in flow.supervisor.goals.values() for step in goal.steps]
    return tuple(dict.fromkeys(pairwise(steps)))


def tools_of(pipeline: Pipeline, definition: str) -> tuple[str, ...]:
    """Return the tools that an agent is offered."""
    tools: tuple[str, ...] = pipeline.of_agent(definition, "tools")
    return tools


@_once
def sections_of(pipeline: Pipeline, definition: str) -> tuple[str, ...]:
    """Return the sections that an agent's contexts may have."""
    sections = [item.name for item in items_of(pipeline.recipe_of(definition))]
    also = SUMMARY_SECTIONS if definition in summarisers_of(pipeline) else ()
    return tuple(dict.fromkeys((*sections, *also, RUN_SECTION)))


@_once
def summarisers_of(pipeline: Pipeline) -> frozenset[str]:
    """Return the agents that summarize another's history."""
    return frozenset(
        item.history.summary
        for name in pipeline.agents
        for item in items_of(pipeline.recipe_of(name))
        if item.history is not None and item.history.summary is not None
    )


@_once
def startable(pipeline: Pipeline, summarising: bool = True) -> frozenset[str]:
    """Return the agents that the flow can start, directly or through others, or to summarize.

    If the file does not say which agents start a turn, return all of them.
    """
    members, starts = members_of(pipeline), _starts(pipeline)
    if starts is None:
        return frozenset(members)
    first = {*starts, *(summarisers_of(pipeline) if summarising else ())} & members.keys()
    return frozenset(reach(first, lambda name: _targets(pipeline, name)))


@_once
def speakers_of(pipeline: Pipeline, name: str) -> tuple[str, ...]:
    """Return the agents whose output a flow hands on as that of a node or step.

    They are its own agent, and those to which it may pass control.
    """
    return tuple(sorted(reach([name], lambda each: _targets(pipeline, each))))


def hands_over(pipeline: Pipeline, definition: str) -> bool:
    """Return whether an agent's model may pass control at all; `handoffs: []` forbids it."""
    is_written = "handoffs" in pipeline.agents[definition].model_fields_set
    is_written = is_written or pipeline.defaults.handoffs is not None
    return bool(pipeline.of_agent(definition, "handoffs")) or not is_written


@_once
def _targets(pipeline: Pipeline, name: str) -> tuple[str, ...]:
    members = members_of(pipeline)
    targets = [*pipeline.of_agent(members[name], "handoffs")]
    if hands_over(pipeline, members[name]):
        targets.extend(each.to for each in pipeline.contracts if {name, "*"} & {*each.from_})
    return tuple(target for target in targets if target in members)


def _starts(pipeline: Pipeline) -> set[str] | None:
    """Return the agents that the flow itself starts; None if the file does not say."""
    flow = pipeline.flow
    if flow.graph is not None:
        return set(flow.graph.nodes)
    if flow.supervisor is not None:
        goals = flow.supervisor.goals.values()
        return {name for goal in goals for step in goal.steps for name in step}
    if flow.handoffs is not None:
        return _constant_names(flow.handoffs.start)
    if flow.router is None:
        return None
    chosen = _constant_names(flow.router.to)
    if chosen is None:
        chosen = _named_by_output(pipeline, flow.router.decide, flow.router.to)
    return None if chosen is None else {flow.router.decide, *chosen}


def _constant_names(value: Any) -> set[str] | None:
    return set(names_in(value)) if compile_references(value).is_constant else None


def names_in(value: Any) -> list[str]:
    """Return the agents of a route that are written without a reference."""
    if isinstance(value, Mapping):
        value = value.get("parallel", ())
    values = value if isinstance(value, (list, tuple)) else [value]
    return [name for name in values if isinstance(name, str)]


def _named_by_output(pipeline: Pipeline, decider: str, route: Any) -> set[str] | None:
    """Return the values that the decider's output schema allows at the route's path, or None."""
    references = references_in(route)
    if (
        len(references) != 1
        or route != f"${{{references[0][1]}}}"
        or decider not in pipeline.agents
    ):
        return None
    head, *tail = parse(references[0][1])
    if head != "run" or tail[:1] != ["output"]:
        return None
    schema = _resolved(pipeline, pipeline.agents[decider].output)
    for part in tail[1:]:
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        schema = _resolved(pipeline, (properties or {}).get(part))
    return _enumerated(pipeline, schema)


def _enumerated(pipeline: Pipeline, schema: Any) -> set[str] | None:
    """Return the texts that a schema allows, also inside a list; None if it allows any."""
    schema = _resolved(pipeline, schema)
    if not isinstance(schema, Mapping):
        return None
    if "const" in schema:
        return {schema["const"]} if isinstance(schema["const"], str) else None
    if isinstance(schema.get("enum"), list):
        return {name for name in schema["enum"] if isinstance(name, str)}
    if "items" in schema:
        return _enumerated(pipeline, schema["items"])
    branches = schema.get("anyOf") or schema.get("oneOf")
    if not isinstance(branches, list):
        return None
    options = [_enumerated(pipeline, branch) for branch in branches]
    return None if None in options else set().union(*(names for names in options if names))


def _resolved(pipeline: Pipeline, schema: Any) -> Any:
    if isinstance(schema, Mapping) and set(schema) == {"$ref"}:
        return pipeline.schemas.get(str(schema["$ref"]))
    return schema


# The shape of a graph: its start, reachability, and that every node has a way out


AT: Final[SourcePath] = ("flow", "graph")
ELSE: Final = "else"
"""The label of the edge that is taken if no other matches."""


def reach(starts: Iterable[str], onward: Callable[[str], Iterable[str]]) -> set[str]:
    """Return all names reachable from some of them, with these."""
    names: set[str] = set()
    waiting = [*starts]
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            waiting += onward(name)
    return names


def listed(names: Iterable[str]) -> str:
    """Return names as messages list them: `a`, `b`."""
    return ", ".join(f"`{name}`" for name in names)


class GraphCheck:
    """Checks of a graph against the roles of its nodes; its names are already checked."""

    def __init__(self, graph: GraphFlow, document: Document) -> None:
        self._graph, self._document = graph, document
        self._out: dict[str, list[tuple[int, Edge]]] = {name: [] for name in graph.nodes}
        for index, edge in enumerate(graph.edges):
            self._out[edge.from_].append((index, edge))

    def check(self) -> None:
        """Raise SourceError for missing parts, or for the first thing that could not run."""
        lacks = self._lacks()
        if len(lacks) > 1:
            advice = "\n  ".join(f"- {lack}" for lack in lacks)
            raise self._document.error(AT, "the graph is not whole", advice=advice, key=True)
        start = self._check_start()
        self._check_route()
        for name in self._graph.nodes:
            self._check_ways(name)
        self._check_reached(start)
        for name, node in self._graph.nodes.items():
            if not self._out[name] and not node.exit:
                raise self._problem(
                    ("nodes", name),
                    f"no edge leads on from node `{name}`, and it is no exit",
                    "Add an edge from it, or `exit: true` where a turn may end.",
                )

    def _problem(self, path: SourcePath, problem: str, advice: str = "") -> Exception:
        is_key = path[:1] == ("nodes",)
        return self._document.error((*AT, *path), problem, advice=advice, key=is_key)

    def _lacks(self) -> list[str]:
        """Describe what an incomplete graph needs: a start, and edges between all nodes."""
        nodes = self._graph.nodes
        reached = {edge.to for edge in self._graph.edges}
        starts = [name for name, node in nodes.items() if node.start]
        apart = [name for name, node in nodes.items() if name not in reached and not node.start]
        ends = [name for name, node in nodes.items() if not self._out[name] and not node.exit]
        lacks = [] if starts else ["no node has `start: true`"]
        if not starts:
            apart = apart[1:]
        if apart:
            lacks.append(f"no edge leads to {listed(apart)}")
        if ends:
            lacks.append(f"no edge leads on from {listed(ends)}: an end is `exit: true`")
        return lacks

    def _check_start(self) -> str:
        starts = [name for name, node in self._graph.nodes.items() if node.start]
        if not starts:
            raise self._document.error(
                (*AT, "nodes"),
                "the graph has no node with `start: true`",
                advice="Say at which node a turn begins.",
                key=True,
            )
        if len(starts) > 1:
            raise self._problem(
                ("nodes", starts[1]),
                f"a graph has one start, not {len(starts)}: {', '.join(starts)}",
                "A `role: split` node that leads to them starts several at once.",
            )
        return starts[0]

    def _check_route(self) -> None:
        route: Any = self._graph.route_by
        if route is not None and len(route.model_fields_set) != 1:
            raise self._document.error(
                (*AT, "route_by"), "`route_by` takes `equals` or `contains`, one of them", key=True
            )

    def _check_ways(self, name: str) -> None:
        role, ways = self._graph.nodes[name].role, self._out[name]
        self._check_twice(ways)
        if role == "decision":
            for index, edge in ways:
                if edge.label is None:
                    raise self._problem(
                        ("edges", index),
                        f"`{name}` decides, so its edge to `{edge.to}` needs a `label:`",
                        f"It is taken if the label matches; `{ELSE}` is taken if no other does.",
                    )
            if not ways:
                raise self._problem(("nodes", name), f"`{name}` decides, but no edge leaves it")
            return
        labelled = next(((index, edge) for index, edge in ways if edge.label is not None), None)
        if labelled is not None:
            index, edge = labelled
            raise self._problem(
                ("edges", index),
                f"nothing looks at label `{edge.label}`: node `{name}` has role {role}",
                "Labels are for nodes with `role: decision`.",
            )
        if role != "split" and len(ways) > 1:
            targets = ", ".join(edge.to for _, edge in ways)
            raise self._problem(
                ("nodes", name),
                f"node `{name}` has role {role}, but {len(ways)} ways on: {targets}",
                "`role: split` takes all of them at once, `role: decision` one, by its label.",
            )

    def _check_twice(self, ways: list[tuple[int, Edge]]) -> None:
        """Reject a duplicate edge: a split would take both."""
        first_places: dict[tuple[str, str | None], int] = {}
        for index, edge in ways:
            first = first_places.setdefault((edge.to, edge.label), index)
            if first != index:
                raise self._problem(
                    ("edges", index),
                    f"there are two edges from `{edge.from_}` to `{edge.to}`; the first is "
                    f"edges[{first}]",
                    "Remove one of them.",
                )

    def _check_reached(self, start: str) -> None:
        reached = reach([start], lambda name: (edge.to for _, edge in self._out[name]))
        for name in self._graph.nodes:
            if name not in reached:
                raise self._problem(
                    ("nodes", name),
                    f"nothing leads to node `{name}`",
                    f"Add an edge to it from what `{start}` leads to, or remove it.",
                )
