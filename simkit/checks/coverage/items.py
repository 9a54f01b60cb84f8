"""The items of coverage: all that a pipeline can do, each with its place and a way to do it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from simkit.checks.lints.handoffs import referenced
from simkit.language.paths import leaves
from simkit.language.yaml import SourcePath
from simkit.spec.pipeline import model as p
from simkit.spec.pipeline import recipe as r
from simkit.spec.pipeline.agents import summarisers_of
from simkit.trace import events as e

Key: TypeAlias = tuple[str, str]
"""Kind and name: ``("tools", "find_order failed")``."""

KINDS: Final = (
    "agents", "routes", "edges", "handoffs", "payload keys", "tools", "sections", "filters",
    "windows", "channels", "rules", "limits", "error policies", "failures", "interrupts",
    "restarts",
)  # fmt: skip
"""The kinds of items, in the order of reports."""
_LIMITS: Final = (
    "agent_runs_per_turn", "handoffs_per_turn", "model_calls_per_run", "turns", "virtual_ms",
)  # fmt: skip
"""The limits that a trace says it reached."""
_CUTS: Final = {
    "scopes": "scopes", "since_days": "since_days", "time_ranges": "time_ranges", "tags": "tags",
    "threshold": "threshold", "max": "max", "top": "max", "tokens": "tokens",
    "preview": "preview", "truncate": "truncate",
}  # fmt: skip
"""Option of a section to the reason in a trace if the option left something out."""
DEPTH_MAX: Final = 4
"""The depth to which the keys of a payload are items; schemas may contain themselves."""
DEFAULTS: Final = "defaults"
"""The owner of what a pipeline says for all agents."""
MODEL_FAILURE: Final[Key] = ("failures", "a model call fails")
RESTART: Final[Key] = ("restarts", "a new process goes on")
INTERRUPT: Final[Key] = ("interrupts", "an agent asks the user")
RESUMPTION: Final[Key] = ("interrupts", "the user answers")


class CoverageItem(msgspec.Struct, frozen=True):
    """One thing that a pipeline can do."""

    key: Key
    path: SourcePath
    """Its place in the pipeline's document."""
    hint: str
    """How a scenario makes it happen."""
    agent: str = ""
    """The agent that must run for it; empty if any may."""


def contract_name(contract: p.Contract | e.ContractFacts) -> str:
    """Return ``triage → billing (refund)`` for a contract, in a file or in a trace."""
    if isinstance(contract, p.Contract):
        sources, target = contract.from_, contract.to
    else:
        sources, target = contract.from_agents, contract.to_agent
    return f"{', '.join(sources)} → {target} ({contract.type})"


def handoff_name(source: str, target: str, type: str = "") -> str:
    """Return ``triage → billing (refund)`` for a handoff; without a type if it has no contract."""
    return f"{source} → {target} ({type})" if type else f"{source} → {target}"


def payload_keys(
    schema: Any, schemas: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield the path of each key that a payload's schema names, and whether it must be there."""
    schema = referenced(schema, schemas)
    if not isinstance(schema, Mapping):
        return
    properties = schema.get("properties") or {}
    required = schema.get("required") or ()
    for key in dict.fromkeys((*properties, *required)):
        yield (*path, key), key in required
        if len(path) < DEPTH_MAX:
            yield from payload_keys(properties.get(key), schemas, (*path, key))


def facts_items(
    facts: e.PipelineFacts, context_events: Sequence[e.ContextBuilt]
) -> Iterator[CoverageItem]:
    """Yield the items of a pipeline that is code: what its driver and its requests say of it."""
    for name, agent in facts.agents.items():
        yield _agent_item(name, ("agents", name))
        yield from _tool_items(agent.tools, lambda _: ())
        # An open pipeline may pass control anywhere: a list of all agents says nothing.
        for target in () if facts.is_open else agent.handoffs:
            yield _handoff_item(handoff_name(name, target), (), name, target)
    for event in context_events:
        passing = dict(event.handoff_tools)
        # A tool that must be called is the form of an answer: nothing runs, so that nothing fails.
        forced = (event.settings or {}).get("tool_choice")
        tools = [tool for tool in event.tools if tool not in passing and tool != forced]
        yield from _tool_items(tools, lambda _: ())
        for target in filter(None, passing.values()):
            yield _handoff_item(handoff_name(event.agent, target), (), event.agent, target)
    for source, target in facts.edges:
        # Code that may go anywhere may also go to itself; nobody means that.
        if source != target:
            yield _edge_item(source, target, ())
    for name, channel in facts.channels.items():
        yield from _channel_items(name, channel.reducer, channel.scope, ())
    for contract in facts.contracts:
        yield from _payload_items(contract_name(contract), contract.payload, facts.schemas, ())
    yield _FAILURE


class DeclaredItems:
    """The items of a declared pipeline, with their places in its document."""

    def __init__(self, pipeline: p.Pipeline) -> None:
        self._pipeline = pipeline
        graph = pipeline.flow.graph
        self.nodes: dict[str, str] = (
            {name: node.agent or name for name, node in graph.nodes.items()} if graph else {}
        )
        """Node of a graph to the agent that defines it."""

    def items(self) -> Iterator[CoverageItem]:
        """Yield the items in the order of the file's parts."""
        yield from self._agents()
        yield from self._flow()
        yield from self._handoffs()
        yield from _tool_items(self._tools(), lambda tool: self._tool_path(tool))
        yield from self._recipes()
        writable = {*self._channels_with_writes()}
        for name, channel in self._pipeline.channels.items():
            # Scenarios may give a channel that nothing in the pipeline writes.
            if name in writable:
                path = ("channels", name)
                yield from _channel_items(name, channel.reducer_name, channel.scope, path)
        yield from self._rules()
        yield from self._limits()
        yield _FAILURE
        scopes = {channel.scope for channel in self._pipeline.channels.values()}
        if self._pipeline.store is not None or scopes & {"project", "global"}:
            hint = "`restart: true` on a later turn: a new process that reads only the store"
            yield CoverageItem(RESTART, (), hint)

    def owner_of(self, agent: str, key: str) -> str:
        """Return who says an agent's value for a key: the agent, or the defaults."""
        name = self.nodes.get(agent, agent)
        spec = self._pipeline.agents.get(name)
        own = spec is not None and key in spec.model_fields_set and getattr(spec, key) is not None
        return name if own else DEFAULTS

    def _agents(self) -> Iterator[CoverageItem]:
        if self.nodes:
            for name in self.nodes:
                yield _agent_item(name, ("flow", "graph", "nodes", name))
            return
        for name in self._pipeline.agents:
            yield _agent_item(name, ("agents", name))

    def _flow(self) -> Iterator[CoverageItem]:
        flow = self._pipeline.flow
        if flow.router is not None:
            yield from self._routes(flow.router)
        elif flow.graph is not None:
            for index, edge in enumerate(flow.graph.edges):
                path = ("flow", "graph", "edges", index)
                if flow.graph.nodes[edge.from_].role == "decision":
                    yield _route_item(edge, path)
                else:
                    yield _edge_item(edge.from_, edge.to, path)
        elif flow.supervisor is not None:
            for goal, spec in flow.supervisor.goals.items():
                before = ""
                for index, step in enumerate(spec.steps):
                    (name,) = step
                    if before:
                        at = ("flow", "supervisor", "goals", goal, "steps", index)
                        yield _edge_item(before, name, at)
                    before = name

    def _routes(self, router: p.RouterFlow) -> Iterator[CoverageItem]:
        """Yield the targets in the decider's schema; else each agent that only it can start."""
        head, _, key = str(router.to).removeprefix("${").removesuffix("}").rpartition(".")
        schema = self._pipeline.agents[router.decide].output
        schema = referenced(schema, self._pipeline.schemas)
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        value = (properties or {}).get(key) if head == "run.output" else None
        agents = {*self._pipeline.agents}
        names = [name for name in leaves(value) if name in agents]
        if not names:
            others = {router.decide, *self._handoff_targets(), *summarisers_of(self._pipeline)}
            names = [name for name in self._pipeline.agents if name not in others]
        for name in names:
            reply = f"json: {{{key}: {name}}}" if head == "run.output" else f"one that names {name}"
            yield CoverageItem(
                ("routes", f"{router.decide} → {name}"),
                ("agents", name),
                f"a reply of `{router.decide}`: `{reply}`",
                router.decide,
            )

    def _handoff_targets(self) -> Iterator[str]:
        for name in self._pipeline.agents:
            yield from self._pipeline.of_agent(name, "handoffs")
        yield from (contract.to for contract in self._pipeline.contracts)

    def _handoffs(self) -> Iterator[CoverageItem]:
        agreed: set[tuple[str, str]] = set()
        for index, contract in enumerate(self._pipeline.contracts):
            path = ("contracts", index)
            for source in contract.from_:
                agreed.add((source, contract.to))
                name = handoff_name(source, contract.to, contract.type)
                yield _handoff_item(name, path, source, contract.to)
            name = contract_name(contract)
            yield from _payload_items(name, contract.payload, self._pipeline.schemas, path)
            if contract.payload is not None or contract.rules or contract.query:
                hint = f"a handoff to `{contract.to}` that breaks the contract"
                key = ("error policies", f"{name}: {contract.on_invalid}")
                yield CoverageItem(key, (*path, "on_invalid"), hint)
            if contract.timeout_ms is not None:
                hint = f"a reply of `{contract.to}` with `latency_ms` above {contract.timeout_ms}"
                yield CoverageItem(
                    ("error policies", f"{name}: timeout_ms"), (*path, "timeout_ms"), hint
                )
        for name in self._pipeline.agents:
            is_own = self.owner_of(name, "handoffs") == name
            base: SourcePath = ("agents", name) if is_own else (DEFAULTS,)
            for index, target in enumerate(self._pipeline.of_agent(name, "handoffs")):
                if target != name and not {(name, target), ("*", target)} & agreed:
                    at = (*base, "handoffs", index)
                    yield _handoff_item(handoff_name(name, target), at, name, target)

    def _tools(self) -> Iterator[str]:
        yield from self._pipeline.tools
        for name in self._pipeline.agents:
            yield from self._pipeline.of_agent(name, "tools")

    def _tool_path(self, tool: str) -> SourcePath:
        if tool in self._pipeline.tools:
            return ("tools", tool)
        user = next(n for n in self._pipeline.agents if tool in self._pipeline.of_agent(n, "tools"))
        return ("agents", user, "tools")

    def _recipes(self) -> Iterator[CoverageItem]:
        for base, owner, spec in self._owners():
            for index, entry in enumerate(spec.context or ()):
                if isinstance(entry, tuple):
                    for inner, item in enumerate(entry):
                        yield from self._section((*base, "context", index, inner), item, owner)
                else:
                    yield from self._section((*base, "context", index), entry, owner)

    def _owners(self) -> Iterator[tuple[SourcePath, str, p.Agent | p.Defaults]]:
        yield (DEFAULTS,), DEFAULTS, self._pipeline.defaults
        for name, agent in self._pipeline.agents.items():
            yield ("agents", name), name, agent

    def _section(self, path: SourcePath, item: r.Item, owner: str) -> Iterator[CoverageItem]:
        options, agent = item.options, "" if owner == DEFAULTS else owner
        name = f"{owner}: {item.name}"
        hint = f"a context in which section `{item.name}` shows something"
        yield CoverageItem(("sections", name), path, hint, agent)
        inside = (*path, item.custom_name or item.kind)
        if isinstance(options, r.History):
            for index, filter in enumerate(options.filters):
                for by, deeper in _filter_names(filter, (*inside, "filters", index)):
                    hint = f"earlier messages that `{by}` drops, such as tool traffic"
                    yield CoverageItem(("filters", f"{name} {by}"), deeper, hint, agent)
            window = options.window
            if window is not None and any((window.rounds, window.messages, window.tokens)):
                hint = "more messages than the window shows"
                yield CoverageItem(("windows", f"{name} window"), (*inside, "window"), hint, agent)
        for option, by in _CUTS.items():
            if getattr(options, option, None):
                hint = f"content that `{option}` leaves out or cuts"
                yield CoverageItem(("windows", f"{name} {by}"), (*inside, option), hint, agent)

    def _rules(self) -> Iterator[CoverageItem]:
        for base, owner, spec in self._owners():
            for key in ("before", "after"):
                if getattr(spec, key):
                    hint = f"a run for which a rule under `{key}` holds"
                    agent = "" if owner == DEFAULTS else owner
                    yield CoverageItem(("rules", f"{owner}: {key}"), (*base, key), hint, agent)

    def _channels_with_writes(self) -> Iterator[str]:
        yield self._pipeline.conversation
        for _, _, spec in self._owners():
            yield from spec.writes or ()
            for rule in (*(spec.before or ()), *(spec.after or ())):
                yield from rule.writes
        for contract in self._pipeline.contracts:
            yield from contract.writes or ()

    def _limits(self) -> Iterator[CoverageItem]:
        for name in _LIMITS:
            if name in self._pipeline.limits.model_fields_set:
                hint = f"a turn that goes on until `{name}` stops it"
                yield CoverageItem(("limits", name), ("limits", name), hint)


def _filter_names(filter: r.Filter, path: SourcePath) -> Iterator[tuple[str, SourcePath]]:
    """Yield the names under which a filter's cuts are in a trace, each with its place."""
    if isinstance(filter, str):
        yield filter, path
    elif filter.older_than is None:
        yield "agents" if filter.agents is not None else "drop", path
    elif filter.older_than.filters is None:
        yield "older_than", path
    else:
        for index, inner in enumerate(filter.older_than.filters):
            yield from _filter_names(inner, (*path, "older_than", "filters", index))


_FAILURE: Final = CoverageItem(
    MODEL_FAILURE, (), "a reply line `error: rate_limit` (or `timeout`, `refusal`)"
)


def _agent_item(name: str, path: SourcePath) -> CoverageItem:
    return CoverageItem(("agents", name), path, f"a turn in which `{name}` runs")


def _edge_item(source: str, target: str, path: SourcePath) -> CoverageItem:
    hint = f"a turn that goes from `{source}` to `{target}`"
    return CoverageItem(("edges", f"{source} → {target}"), path, hint, source)


def _route_item(edge: p.Edge, path: SourcePath) -> CoverageItem:
    label = edge.label or ""
    hint = (
        f"a reply of `{edge.from_}` that no label matches"
        if label == "else"
        else f"a reply of `{edge.from_}` that decides `{label}`"
    )
    return CoverageItem(("routes", f"{edge.from_}: {label}"), path, hint, edge.from_)


def _handoff_item(name: str, path: SourcePath, source: str, target: str) -> CoverageItem:
    agent = "" if source == "*" else source
    author = "an agent" if source == "*" else f"`{source}`"
    hint = f"a reply of {author}: `handoff: {{to: {target}}}`"
    return CoverageItem(("handoffs", name), path, hint, agent)


def _payload_items(
    name: str, schema: Any, schemas: Mapping[str, Any], path: SourcePath
) -> Iterator[CoverageItem]:
    for keys, is_required in payload_keys(schema, schemas):
        key_path = (*path, "payload", *(step for key in keys for step in ("properties", key)))
        text = ".".join(keys)
        hint = f"a handoff whose payload has `{text}`"
        yield CoverageItem(("payload keys", f"{name}: {text} present"), key_path, hint)
        if not is_required:
            hint = f"a handoff whose payload has no `{text}`"
            yield CoverageItem(("payload keys", f"{name}: {text} absent"), key_path, hint)


def _tool_items(tools: Any, path_of: Any) -> Iterator[CoverageItem]:
    for tool in dict.fromkeys(tools):
        path = path_of(tool)
        hint = f"a reply that calls `{tool}`"
        yield CoverageItem(("tools", f"{tool} answered"), path, hint)
        hint = f"`tool_results: {{{tool}: {{error: it is down}}}}`"
        yield CoverageItem(("tools", f"{tool} failed"), path, hint)


def _channel_items(name: str, reducer: str, scope: str, path: SourcePath) -> Iterator[CoverageItem]:
    yield CoverageItem(("channels", f"{name} written"), path, f"a run that writes `{name}`")
    if reducer != "replace" and scope != "agent_run":
        hint = f"a second write, so that `{reducer}` has something to join"
        yield CoverageItem(("channels", f"{name} joined"), path, hint)
