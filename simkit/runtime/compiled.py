"""A pipeline made ready to run: recipes, writes and rules compiled once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from simkit import events as e
from simkit.context.assembly import Assembly
from simkit.context.filters import TECHNICAL
from simkit.context.history import HistoryReader
from simkit.context.tokens import Counter, counter_named
from simkit.errors import Unsupported
from simkit.matching import Matcher, compile_matcher
from simkit.messages import JsonValue
from simkit.pipeline.model import Contract, Limits, Pipeline, Rule
from simkit.pipeline.recipe import Filter
from simkit.references import Template
from simkit.references import compile as compile_references
from simkit.runtime.functions import UserFunctions, function_named
from simkit.runtime.state import channels_of
from simkit.trace import canonical


class CompiledRule:
    """Writes that happen if something holds."""

    __slots__ = ("when", "writes")

    def __init__(self, rule: Rule) -> None:
        self.when: Matcher | None = (
            compile_matcher(rule.when) if "when" in rule.model_fields_set else None
        )
        self.writes = compile_references(rule.writes)

    def holds(self, root: Mapping[str, Any]) -> bool:
        """Whether the rule applies."""
        return self.when is None or self.when.holds(root)


class CompiledAgent:
    """One agent made ready to run."""

    __slots__ = (
        "after", "assembly", "before", "function", "handoffs", "instructions", "name", "output",
        "parse", "returns", "settings", "tools", "writes",
    )  # fmt: skip

    def __init__(
        self, name: str, pipeline: Pipeline, count: Counter, functions: UserFunctions
    ) -> None:
        agent = pipeline.agents[name]
        self.name, self.instructions = name, agent.instructions
        self.tools: tuple[str, ...] = pipeline.of_agent(name, "tools")
        self.handoffs: tuple[str, ...] = pipeline.of_agent(name, "handoffs")
        self.output = canonical(schema_of(agent.output, pipeline.schemas))
        self.settings = {"output": self.output} if self.output is not None else {}
        self.parse: str = pipeline.of_agent(name, "parse")
        self.returns: str = pipeline.of_agent(name, "returns")
        self.function: Callable[..., Any] | None = (
            functions.named(agent.function) if agent.function else None
        )
        self.assembly = Assembly(
            agent.instructions, pipeline.recipe_of(name), count, functions.named
        )
        writes = pipeline.of_agent(name, "writes")
        if writes is None:
            writes = _default_writes(name, pipeline)
        self.writes: Template | None = compile_references(writes) if writes else None
        self.before = [CompiledRule(rule) for rule in pipeline.of_agent(name, "before") or ()]
        self.after = [CompiledRule(rule) for rule in pipeline.of_agent(name, "after") or ()]


def _default_writes(name: str, pipeline: Pipeline) -> dict[str, Any]:
    """What agents leave where nobody says: their final message; a router's decider nothing."""
    if pipeline.flow.router is not None and pipeline.flow.router.decide == name:
        return {}
    return {pipeline.conversation: ["${run.final_message}"]}


def schema_of(schema: JsonValue, named: Mapping[str, JsonValue]) -> JsonValue:
    """Returns a schema with ``{$ref: Name}`` looked up, and ``module:Model`` asked."""
    if isinstance(schema, dict) and set(schema) == {"$ref"}:
        return named.get(schema["$ref"], schema)
    if isinstance(schema, str):
        model = function_named(schema)
        describe = getattr(model, "model_json_schema", None)
        if describe is None:
            raise Unsupported(f"`{schema}` is no pydantic model")
        return describe()
    return schema


class CompiledPipeline:
    """The whole pipeline made ready to run."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline, self.schemas = pipeline, pipeline.schemas
        self.functions = UserFunctions()
        self.count = counter_named(pipeline.tokens.count)
        self.agents = {
            name: CompiledAgent(name, pipeline, self.count, self.functions)
            for name in pipeline.agents
        }
        self.contracts = pipeline.contracts
        self.tool_args = {
            name: schema_of(tool.args, pipeline.schemas) for name, tool in pipeline.tools.items()
        }
        self.tool_returns = {
            name: schema_of(tool.returns, pipeline.schemas) for name, tool in pipeline.tools.items()
        }
        self._readers: dict[tuple[str, int, int], HistoryReader | None] = {}

    def reader(self, agent: str, place: int, contract: Contract | None) -> HistoryReader | None:
        """Returns what reads an agent's history section; None where nothing travels."""
        key = (agent, place, id(contract) if contract is not None else 0)
        if key not in self._readers:
            self._readers[key] = self._make_reader(agent, place, contract)
        return self._readers[key]

    def _make_reader(
        self, agent: str, place: int, contract: Contract | None
    ) -> HistoryReader | None:
        name, options = self.agents[agent].assembly.histories[place]
        before: tuple[Filter, ...] = ()
        if contract is not None:
            if contract.history == "none":
                return None
            if contract.history == "filters":
                before = TECHNICAL
            elif contract.history != "all":
                before = contract.history
        return HistoryReader(name, options, before, self.count, self.functions.named)

    def contracts_for(self, source: str, target: str) -> list[Contract]:
        """The contracts of a pair, in the order of the file."""
        return [
            contract
            for contract in self.contracts
            if contract.to == target and (source in contract.from_ or "*" in contract.from_)
        ]


class _Compiled(threading.local):
    """What this thread has compiled; user functions report to one run at a time."""

    def __init__(self) -> None:
        self.known: dict[int, CompiledPipeline] = {}


_COMPILED: Final = _Compiled()
_COMPILED_MAX: Final = 64


def compiled(pipeline: Pipeline) -> CompiledPipeline:
    """Returns a pipeline made ready to run, compiled once for all scenarios that share it."""
    known = _COMPILED.known
    found = known.get(id(pipeline))
    if found is None or found.pipeline is not pipeline:
        if len(known) >= _COMPILED_MAX:
            known.clear()
        found = known[id(pipeline)] = CompiledPipeline(pipeline)
    return found


def facts_of(compiled: CompiledPipeline, limits: Limits) -> e.PipelineFacts:
    """What judges need to know of the pipeline, under the limits of this scenario."""
    pipeline = compiled.pipeline
    channels = channels_of(pipeline, compiled.functions)
    flow = pipeline.flow
    graph = flow.graph
    return e.PipelineFacts(
        name=pipeline.pipeline,
        agents={name: _agent_facts(name, pipeline, compiled) for name in pipeline.agents},
        channels={
            name: e.ChannelFacts(c.reducer, c.scope, canonical(c.default), c.last)
            for name, c in channels.items()
        },
        contracts=tuple(
            e.ContractFacts(
                c.from_, c.to, c.type, c.mode,
                c.history if isinstance(c.history, str) else "filters",
                canonical(schema_of(c.payload, pipeline.schemas)), c.on_invalid,
            )
            for c in pipeline.contracts
        ),
        edges=tuple((edge.from_, edge.to) for edge in graph.edges) if graph else (),
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
    )  # fmt: skip


def _starts(pipeline: Pipeline) -> tuple[str, ...]:
    """The agents that may start a turn: known only where the file names them."""
    flow = pipeline.flow
    if flow.router is not None:
        return (flow.router.decide,)
    if flow.handoffs is not None and flow.handoffs.start in pipeline.agents:
        return (flow.handoffs.start,)
    return ()


def _agent_facts(name: str, pipeline: Pipeline, compiled: CompiledPipeline) -> e.AgentFacts:
    agent = pipeline.agents[name]
    ready = compiled.agents[name]
    sees = pipeline.of_agent(name, "sees")
    return e.AgentFacts(
        agent.instructions, ready.tools, ready.handoffs,
        None if sees is None else tuple(sees), tuple(canonical(one) for one in agent.requires),
        tuple(agent.private),
        agent.function is not None,
    )  # fmt: skip
