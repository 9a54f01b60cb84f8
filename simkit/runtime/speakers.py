"""Speakers: request settings of a pipeline's models, with tools and answer schemas."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from simkit.core.messages import HANDOFF_PREFIX, JsonValue
from simkit.language.paths import walk, with_parts
from simkit.providers.values import Offer, ParsedRequest
from simkit.runtime.compiled import CompiledAgent, CompiledPipeline
from simkit.runtime.functions import schema_of
from simkit.spec.pipeline.model import Contract
from simkit.trace.store import canonical

ANY_OBJECT: dict[str, JsonValue] = {"type": "object", "properties": {}}
"""The argument schema of a tool without one."""
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_-]")


def spoken_name(name: str) -> str:
    """Return a tool's name in the characters that providers allow: letters, digits, `_` and `-`."""
    return _FOREIGN.sub("_", name)


class Speaker(msgspec.Struct, frozen=True):
    """The request settings of one agent's model."""

    request: ParsedRequest
    """The part that all of its requests share."""
    tools: Mapping[str, Offer]
    """Tool to its offer."""
    handoffs: Mapping[str, Offer]
    """Agent to the tool that passes control to it."""


def speakers_of(compiled: CompiledPipeline) -> dict[str, Speaker]:
    """Return the speaker of each agent with a model."""
    return {
        name: _speaker(agent, compiled)
        for name, agent in compiled.agents.items()
        if agent.model is not None
    }


def _speaker(agent: CompiledAgent, compiled: CompiledPipeline) -> Speaker:
    model = agent.model
    assert model is not None
    parsed_request = ParsedRequest(
        model.protocol,
        model.name,
        (),
        output=_output(agent, compiled),
        settings=canonical(model.settings),
        is_streamed=model.stream,
    )
    return Speaker(
        parsed_request,
        {name: compiled_offer(name, compiled) for name in agent.tools},
        {target: _handoff(agent.name, target, compiled) for target in agent.passes_to},
    )


def _output(agent: CompiledAgent, compiled: CompiledPipeline) -> JsonValue:
    """Return the reply schema for the provider, or None.

    Providers accept schemas of objects only; replies of other kinds are parsed from text.
    """
    schema = agent.output
    is_of_object = isinstance(schema, dict) and schema.get("type") == "object"
    if not is_of_object or agent.parse == "text":
        return None
    return self_contained(schema, compiled.schemas)


def compiled_offer(name: str, compiled: CompiledPipeline) -> Offer:
    """Return what a model is sent of a tool."""
    declared = compiled.pipeline.tools.get(name)
    schema = compiled.tool_args.get(name) or ANY_OBJECT
    text = declared.description if declared is not None else None
    return Offer(spoken_name(name), canonical(self_contained(schema, compiled.schemas)), text or "")


def _query_schema(target: str, contracts: Sequence[Contract]) -> dict[str, Any]:
    """Return the schema of a handoff's query, with its limit if all contracts have one."""
    query: dict[str, Any] = {"type": "string", "description": f"What {target} is asked."}
    longest = [c.query.max_chars for c in contracts if c.query is not None]
    if longest and len(longest) == len(contracts):
        query["maxLength"] = max(longest)
    return query


def _handoff(source: str, target: str, compiled: CompiledPipeline) -> Offer:
    """Return the tool that passes control; its arguments are the handoff's."""
    contracts = compiled.contracts_for(source, target)
    properties: dict[str, Any] = {"query": _query_schema(target, contracts)}
    required = []
    if len(contracts) > 1:
        properties["type"] = {"type": "string", "enum": [c.type for c in contracts]}
        required.append("type")
    named = dict(compiled.schemas)
    payloads = [_payload(c, compiled, named) for c in contracts if c.payload is not None]
    if payloads:
        properties["payload"] = payloads[0] if len(payloads) == 1 else {"anyOf": payloads}
        required += ["payload"] if len(payloads) == len(contracts) else []
    schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    comes_back = bool(contracts) and all(c.mode == "delegate" for c in contracts)
    text = f"Asks {target}, and waits for the answer." if comes_back else f"Hands over to {target}."
    schema = self_contained(schema, named)
    return Offer(spoken_name(f"{HANDOFF_PREFIX}{target}"), schema, text)


def _payload(
    contract: Contract, compiled: CompiledPipeline, named: dict[str, JsonValue]
) -> JsonValue:
    """Return the schema of a payload; one that is a document of its own gets a name."""
    schema = canonical(schema_of(contract.payload, compiled.schemas))
    if not refers_inside(schema):
        return schema
    name = f"{contract.type}_payload"
    named[name] = schema
    return {"$ref": name}


# Schemas as providers take them: each one document of its own


def self_contained(schema: JsonValue, named: Mapping[str, JsonValue]) -> JsonValue:
    """Return a self-contained schema: named schemas are moved under `$defs`."""
    used: dict[str, JsonValue] = {}
    schema_ = _pointing_inside(schema, named, used, "#")
    done: dict[str, JsonValue] = {}
    while waiting := [name for name in used if name not in done]:
        for name in waiting:
            done[name] = _pointing_inside(named[name], named, used, _defined(name))
    if not done or not isinstance(schema_, dict):
        return schema_
    return {**schema_, "$defs": {**schema_.get("$defs", {}), **done}}


def refers_inside(schema: JsonValue) -> bool:
    """Return whether a schema has references to its own parts, and so is one document."""
    return any(
        isinstance(part, Mapping) and str(part.get("$ref")).startswith("#")
        for _, part in walk(schema)
    )


def _defined(name: str) -> str:
    return f"#/$defs/{name.replace('~', '~0').replace('/', '~1')}"


def _pointing_inside(
    value: JsonValue, named: Mapping[str, JsonValue], used: dict[str, JsonValue], at: str
) -> JsonValue:
    """Return a schema at a new place, with its references adapted."""
    moved = with_parts(value, lambda part: _pointing_inside(part, named, used, at))
    target = value.get("$ref") if isinstance(value, Mapping) else None
    if isinstance(target, str):
        name, _, pointer = target.partition("#")
        if name in named:
            used[name] = None
            moved["$ref"] = f"{_defined(name)}{pointer}"
        elif not name:
            moved["$ref"] = f"{at}{pointer}"
    return moved
