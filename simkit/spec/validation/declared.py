"""Declarations of a pipeline: private channels that others read, and unused declarations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from simkit.language.yaml import Document
from simkit.spec.pipeline.agents import tools_of
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.validation.channels import channel_use
from simkit.spec.validation.problems import Flaw


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
                f"{verb.format(_listed(others))} channel `{read.channel}`, which is private to "
                f"{_listed(owners[read.channel])}"
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
    agents, tools = pipeline.agents.values(), pipeline.tools.values()
    waiting = list(
        _references(
            [
                *(part for agent in agents for part in (agent.input, agent.output)),
                *(part for tool in tools for part in (tool.args, tool.returns)),
                *(channel.schema_ for channel in pipeline.channels.values()),
                *(contract.payload for contract in pipeline.contracts),
            ]
        )
    )
    schema_names: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in schema_names:
            schema_names.add(name)
            waiting += _references(pipeline.schemas.get(name))
    return schema_names


def _references(schema: Any) -> Iterator[str]:
    """Yield the names in ``$ref`` inside a schema."""
    if isinstance(schema, Mapping):
        for key, inner in schema.items():
            if key == "$ref" and isinstance(inner, str):
                yield inner.partition("#")[0]
            else:
                yield from _references(inner)
    elif isinstance(schema, (list, tuple)):
        for inner in schema:
            yield from _references(inner)


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
