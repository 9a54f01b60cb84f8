"""Declared pipelines: what their models may answer, and the names of their agents."""

from __future__ import annotations

from collections.abc import Collection

from simkit.core.messages import JsonValue
from simkit.explore.interfaces import Interfaces
from simkit.runtime.compiled import CompiledPipeline
from simkit.runtime.schemas import schema_of
from simkit.spec.pipeline.model import Pipeline
from simkit.trace.store import canonical


def agents_named(pipeline: Pipeline) -> Collection[str]:
    """Return the names under which a declared pipeline's agents run: a graph's are its nodes'."""
    graph = pipeline.flow.graph
    return pipeline.agents if graph is None else graph.nodes


def interfaces_of(ready: CompiledPipeline) -> Interfaces:
    """Return what a pipeline's models are offered, and what their answers must satisfy."""

    def payloads_of(source: str, target: str) -> list[tuple[str | None, JsonValue]]:
        contracts = ready.contracts_for(source, target)
        must_say_type = len(contracts) > 1
        return [
            (
                contract.type if must_say_type else None,
                canonical(schema_of(contract.payload, ready.schemas)),
            )
            for contract in contracts
        ] or [(None, None)]

    def delegates(source: str, target: str) -> bool:
        return any(each.mode == "delegate" for each in ready.contracts_for(source, target))

    return Interfaces(
        payloads_of,
        delegates,
        tuple(ready.agents),
        ready.tool_args,
        ready.tool_returns,
        ready.schemas,
        ready.functions.named,
        is_code=False,
    )
