"""Compilation of a pipeline: recipes, writes and rules, once for all runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from simkit.core.errors import ScriptMisfit
from simkit.core.messages import Handoff, JsonValue
from simkit.language.json_schema import place_text, schema_errors
from simkit.language.matching import Matcher, compile_matcher, mismatches
from simkit.language.paths import Template
from simkit.language.paths import compile as compile_references
from simkit.runtime.context.assembly import Assembly
from simkit.runtime.context.history import TECHNICAL, HistoryReader
from simkit.runtime.context.rendering import Counter, counter_named
from simkit.runtime.functions import UserFunctions, schema_of
from simkit.runtime.state import channels_of
from simkit.spec.pipeline.agents import hands_over, members_of, ways_of
from simkit.spec.pipeline.model import Contract, Limits, Pipeline, Rule
from simkit.spec.pipeline.models import ModelOptions
from simkit.spec.pipeline.recipe import Filter, items_of
from simkit.trace import events as e
from simkit.trace.store import canonical

QUERY_ARGS: Final[JsonValue] = {
    "type": "object",
    "required": ["path"],
    "properties": {"path": {"type": "string"}},
    "additionalProperties": False,
}
"""The arguments of a tool that reads a channel: a path into its value; an empty one returns all."""

SOURCE_KEY: Final = "source_agent"
TYPE_KEY: Final = "handoff_type"
"""The keys of a payload that simkit knows."""


class CompiledRule:
    """Writes that happen if a condition holds."""

    def __init__(self, rule: Rule) -> None:
        self.when: Matcher | None = (
            compile_matcher(rule.when) if "when" in rule.model_fields_set else None
        )
        self.writes = compile_references(rule.writes)

    def holds(self, root: Mapping[str, Any]) -> bool:
        """Return whether the rule applies."""
        return self.when is None or self.when.holds(root)


class Terms:
    """One compiled contract."""

    def __init__(self, contract: Contract, schemas: Mapping[str, JsonValue]) -> None:
        self.payload = schema_of(contract.payload, schemas)
        """The schema of its payload; None if it has none."""
        self.adds: tuple[str, ...] = ()
        """The keys that simkit adds to a payload that lacks them, since the schema names them."""
        if contract.payload is not None and isinstance(self.payload, dict):
            named = {*self.payload.get("properties", {}), *self.payload.get("required", [])}
            self.adds = tuple(key for key in (SOURCE_KEY, TYPE_KEY) if key in named)
        self.writes = compile_references(contract.writes) if contract.writes else None


class CompiledAgent:
    """One compiled agent."""

    def __init__(
        self,
        name: str,
        definition: str,
        pipeline: Pipeline,
        count: Counter,
        functions: UserFunctions,
    ) -> None:
        """``name`` is the name under which it runs: in a graph, its node's id."""
        agent = pipeline.agents[definition]
        self.name, self.definition, self.instructions = name, definition, agent.instructions
        self.tools: tuple[str, ...] = pipeline.of_agent(definition, "tools")
        self.definitions: tuple[int, ...] = ()
        """The numbers of its tools' definitions in the trace."""
        self.handoffs: tuple[str, ...] = pipeline.of_agent(definition, "handoffs")
        self.hands_over = hands_over(pipeline, definition)
        """Whether its model may pass control at all."""
        self.passes_to = _passes_to(name, self, pipeline)
        """The agents that its model may pass control to, declared or by contract."""
        self.input = canonical(schema_of(agent.input, pipeline.schemas))
        self.output = canonical(schema_of(agent.output, pipeline.schemas))
        self.model = pipeline.model_of(definition) if agent.function is None else None
        self.settings = _settings(self.model, self.output)
        self.parse: str = pipeline.of_agent(definition, "parse")
        self.returns: str = pipeline.of_agent(definition, "returns")
        self.function: Callable[..., Any] | None = (
            functions.named(agent.function) if agent.function else None
        )
        recipe = pipeline.recipe_of(definition)
        self.reads_input = self.function is None and any(
            item.kind in ("input", "upstream") for item in items_of(recipe)
        )
        self.assembly = Assembly(
            name,
            agent.instructions,
            recipe,
            count,
            functions.named,
            pipeline.remembered(
                ("scopes",), lambda: {n: spec.scope for n, spec in pipeline.channels.items()}
            ),
        )
        writes = pipeline.of_agent(definition, "writes")
        if writes is None:
            writes = _default_writes(name, pipeline)
        self.writes: Template | None = compile_references(writes) if writes else None
        self.before = [CompiledRule(rule) for rule in pipeline.of_agent(definition, "before") or ()]
        self.after = [CompiledRule(rule) for rule in pipeline.of_agent(definition, "after") or ()]


def _settings(model: ModelOptions | None, output: Any) -> dict[str, Any]:
    """Return the settings of a model call, as far as the file gives them."""
    fields = {"model": model.name, **canonical(model.settings)} if model is not None else {}
    return {**fields, "output": output} if output is not None else fields


def _passes_to(name: str, agent: CompiledAgent, pipeline: Pipeline) -> tuple[str, ...]:
    """Return the targets of an agent's handoffs, without those along edges and steps.

    The flow itself makes the latter.
    """
    declared = agent.handoffs
    if not agent.hands_over:
        return ()
    if pipeline.flow.graph is not None or pipeline.flow.supervisor is not None:
        return declared
    by_contract = (c.to for c in pipeline.contracts if name in c.from_ or "*" in c.from_)
    return tuple(dict.fromkeys((*declared, *(to for to in by_contract if to != name))))


def _default_writes(name: str, pipeline: Pipeline) -> dict[str, Any]:
    """Return the default writes of agents: their final message; none for a router's decider."""
    if pipeline.flow.router is not None and pipeline.flow.router.decide == name:
        return {}
    return {pipeline.conversation: ["${run.final_message}"]}


def _numbered_tools(agents: Collection[CompiledAgent]) -> tuple[str, ...]:
    """Return the tools of all agents in order; give each agent the numbers of its own."""
    tools = [*dict.fromkeys(tool for agent in agents for tool in agent.tools)]
    for agent in agents:
        agent.definitions = tuple(tools.index(tool) + 1 for tool in agent.tools)
    return tuple(tools)


class CompiledPipeline:
    """The whole compiled pipeline."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline, self.schemas = pipeline, pipeline.schemas
        self.functions = UserFunctions()
        self.channels = channels_of(pipeline, self.functions)
        self.conversation = pipeline.conversation
        self.flow: Any = None
        """The compiled flow, once a run has needed it (`simkit.runtime.flows.flow_of`)."""
        self.count = counter_named(pipeline.tokens.count)
        self.agents = {
            name: CompiledAgent(name, definition, pipeline, self.count, self.functions)
            for name, definition in members_of(pipeline).items()
        }
        self.offered = _numbered_tools(self.agents.values())
        """The tools that models are offered, in the order of their definitions in the trace."""
        self.contracts = pipeline.contracts
        self.readers: dict[tuple[str, int, int], HistoryReader | None] = {}
        """The readers made so far: agent, history section and contract (0 for none) to reader."""
        self.contracts_by_pair: dict[tuple[str, str], list[Contract]] = {}
        """The pairs that `contracts_for` was asked for so far."""
        self.tool_args = {
            name: QUERY_ARGS
            if tool.reads is not None and tool.args is None
            else schema_of(tool.args, pipeline.schemas)
            for name, tool in pipeline.tools.items()
        }
        self.tool_names = frozenset(
            {*pipeline.tools, *(tool for agent in pipeline.agents.values() for tool in agent.tools)}
        )
        self.watched_tools = frozenset(
            name for name, tool in pipeline.tools.items() if tool.approval
        )
        """The tools whose calls wait for the user's approval."""
        self.tool_reads = {
            name: tool.reads for name, tool in pipeline.tools.items() if tool.reads is not None
        }
        returns = {
            name: schema_of(tool.returns, pipeline.schemas) for name, tool in pipeline.tools.items()
        }
        self.tool_returns = {name: schema for name, schema in returns.items() if schema is not None}
        """Tool to the schema of its result, if it has one."""
        self.terms = {
            id(contract): Terms(contract, pipeline.schemas) for contract in pipeline.contracts
        }
        """A contract's identity to its compiled form; the pipeline keeps the contracts."""

    def reader(
        self, agent: str, index: int, contract: Contract | None = None
    ) -> HistoryReader | None:
        """Return the reader of an agent's history section; None if no history is passed on."""
        key = (agent, index, 0 if contract is None else id(contract))
        if key not in self.readers:
            self.readers[key] = self._reader_of(agent, index, contract)
        return self.readers[key]

    def _reader_of(self, agent: str, index: int, contract: Contract | None) -> HistoryReader | None:
        name, options = self.agents[agent].assembly.histories[index]
        before: tuple[Filter, ...] = ()
        if contract is not None:
            if contract.history == "none":
                return None
            if contract.history == "filters":
                before = TECHNICAL
            elif contract.history != "all":
                before = contract.history
        channel = options.from_ or self.pipeline.conversation
        return HistoryReader(name, channel, options, before, self.count, self.functions.named)

    def writes_of(self, contract: Contract | None) -> Template | None:
        """Return the writes of a handoff under this contract; None if there are none."""
        return self.terms[id(contract)].writes if contract is not None else None

    def contracts_for(self, source: str, target: str) -> list[Contract]:
        """Return the contracts of a pair, in the order of the file; do not change the list."""
        pair, by_pair = (source, target), self.contracts_by_pair
        if pair not in by_pair:
            by_pair[pair] = [
                contract
                for contract in self.contracts
                if contract.to == target and (source in contract.from_ or "*" in contract.from_)
            ]
        return by_pair[pair]


def compile_pipeline(pipeline: Pipeline) -> CompiledPipeline:
    """Return a compiled pipeline; scenarios of a thread that share the pipeline share it.

    Its user functions report to one run at a time, so that each thread has its own.
    """
    key = ("compiled", threading.get_ident())
    return pipeline.remembered(key, lambda: CompiledPipeline(pipeline))


def facts_of(compiled: CompiledPipeline, limits: Limits) -> e.PipelineFacts:
    """Return the pipeline's metadata for checks, with the limits of this scenario."""
    key = ("facts", limits.irrelevant_share, limits.context_tokens)
    return compiled.pipeline.remembered(key, lambda: _facts_of(compiled, limits))


def _facts_of(compiled: CompiledPipeline, limits: Limits) -> e.PipelineFacts:
    pipeline = compiled.pipeline
    flow = pipeline.flow
    return e.PipelineFacts(
        name=pipeline.pipeline,
        agents={name: _agent_facts(name, pipeline, compiled) for name in compiled.agents},
        channels={
            name: e.ChannelFacts(c.reducer, c.scope, canonical(c.default), c.last)
            for name, c in compiled.channels.items()
        },
        contracts=tuple(
            e.ContractFacts(
                c.from_,
                c.to,
                c.type,
                c.mode,
                c.history if isinstance(c.history, str) else "filters",
                canonical(schema_of(c.payload, pipeline.schemas)),
                c.on_invalid,
            )
            for c in pipeline.contracts
        ),
        edges=ways_of(pipeline),
        flow=flow.kind,
        decider=flow.router.decide if flow.router else "",
        starts=_starts(pipeline),
        conversation=pipeline.conversation,
        tokens=pipeline.tokens.count,
        observes=("sections", "state", "runs", "handoffs"),
        limits={
            "irrelevant_share": limits.irrelevant_share,
            "context_tokens": limits.context_tokens,
        },
        schemas=canonical(pipeline.schemas),
    )


def _starts(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the agents that may start a turn; empty unless the file names them."""
    flow = pipeline.flow
    if flow.router is not None:
        return (flow.router.decide,)
    if flow.graph is not None:
        return tuple(name for name, node in flow.graph.nodes.items() if node.start)
    if flow.supervisor is not None:
        goals = flow.supervisor.goals.values()
        return tuple(dict.fromkeys(next(iter(goal.steps[0])) for goal in goals if goal.steps))
    if flow.handoffs is not None and flow.handoffs.start in pipeline.agents:
        return (flow.handoffs.start,)
    return ()


def _agent_facts(name: str, pipeline: Pipeline, compiled: CompiledPipeline) -> e.AgentFacts:
    ready = compiled.agents[name]
    agent = pipeline.agents[ready.definition]
    sees = pipeline.of_agent(ready.definition, "sees")
    return e.AgentFacts(
        agent.instructions,
        ready.tools,
        ready.handoffs,
        None if sees is None else tuple(sees),
        tuple(canonical(requirement) for requirement in agent.requires),
        tuple(agent.private),
        agent.function is not None,
    )


# Decision on a handoff request: made or rejected. Pure: the request, its contract, the reason.


DEFAULT_TYPE = "handoff"


class Request(msgspec.Struct, frozen=True, gc=False):
    """A handoff request."""

    id: str
    source: str
    target: str
    type: str
    mode: str
    query: str | None
    payload: JsonValue
    contract: Contract | None
    depth: int
    recorded_payload: JsonValue
    """The payload as plain data, shared by events and the model's call: nobody changes it."""

    def facts(self) -> dict[str, JsonValue]:
        """Return the values for ``${handoff…}``, rules and sections."""
        return {
            "from": self.source,
            "to": self.target,
            "type": self.type,
            "mode": self.mode,
            "query": self.query,
            "payload": self.payload,
        }


def requested(
    compiled: CompiledPipeline, identity: str, source: str, reply: Handoff, depth: int
) -> Request:
    """Return the request; type and mode come from the contract if the reply leaves them out."""
    contracts = compiled.contracts_for(source, reply.to) if compiled.contracts else []
    contract: Contract | None
    if not contracts:
        contract = None
    elif reply.type is None:
        if len(contracts) > 1:
            types = ", ".join(c.type for c in contracts)
            raise ScriptMisfit(
                f"the handoff from {source!r} to {reply.to!r} must say its type: "
                f"there are contracts for {types}."
            )
        contract = contracts[0]
    else:
        contract = next((c for c in contracts if c.type == reply.type), None)
    kind = reply.type or (contract.type if contract else DEFAULT_TYPE)
    payload = reply.payload
    if contract is not None and contract.payload is not None:
        payload = _completed(compiled, payload, contract, source, kind)
    mode = contract.mode if contract else "transfer"
    return Request(
        identity, source, reply.to, kind, mode, reply.query, payload, contract, depth,
        None if payload is None else canonical(payload),
    )  # fmt: skip


def _completed(
    compiled: CompiledPipeline, payload: Any, contract: Contract, source: str, kind: str
) -> JsonValue:
    """Add ``source_agent`` and ``handoff_type`` if the payload's schema names them."""
    keys = compiled.terms[id(contract)].adds
    if not keys or not (payload is None or isinstance(payload, dict)):
        return payload
    fields = {SOURCE_KEY: source, TYPE_KEY: kind}
    missing = {key: fields[key] for key in keys if payload is None or key not in payload}
    return {**missing, **(payload or {})} if missing else payload


def reason_against(compiled: CompiledPipeline, request: Request) -> str:
    """Return why a handoff is rejected; empty if it is made."""
    if request.contract is not None:
        breaches = _breaches(compiled, request, request.contract)
        return "; ".join(breaches) if breaches else ""
    contracts = compiled.contracts and compiled.contracts_for(request.source, request.target)
    if contracts:
        known = ", ".join(c.type for c in contracts)
        return f"type {request.type!r} is not registered for this pair; known: {known}"
    declared = compiled.agents[request.source].handoffs
    if request.target in declared:
        return ""
    known = ", ".join(declared) or "none"
    return f"{request.source!r} has no handoff to {request.target!r}; declared: {known}"


def _breaches(compiled: CompiledPipeline, request: Request, contract: Contract) -> list[str]:
    problems = []
    if contract.payload is not None:
        schemas = compiled.pipeline.schemas
        schema = compiled.terms[id(contract)].payload
        for path, text in schema_errors(schema, request.payload, schemas):
            problems.append(f"payload{place_text(path)}: {text}")
    if contract.query is not None and request.query is not None:
        size, most = len(request.query), contract.query.max_chars
        if size > most:
            problems.append(f"query has {size} characters, at most {most} are allowed")
    for rule in contract.rules:
        for miss in mismatches(rule, request.facts()):
            address = ".".join(str(step) for step in miss.path)
            problems.append(f"rule on {address}: wanted {miss.expected}, found {miss.actual}")
    if contract.depth_max is not None and request.depth > contract.depth_max:
        problems.append(f"depth {request.depth} exceeds depth_max {contract.depth_max}")
    return problems
