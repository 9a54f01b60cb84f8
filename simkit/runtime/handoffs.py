"""Decision on a handoff request: made or rejected. Pure: the request, its contract, the reason."""

from __future__ import annotations

from typing import Any

import msgspec

from simkit.core.errors import ScriptMisfit
from simkit.core.messages import Handoff, JsonValue
from simkit.language.json_schema import place_text, schema_errors
from simkit.language.matching import mismatches
from simkit.runtime.compiled import SOURCE_KEY, TYPE_KEY, CompiledPipeline
from simkit.spec.pipeline.model import Contract
from simkit.trace.store import canonical

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
    known = {SOURCE_KEY: source, TYPE_KEY: kind}
    missing = {key: known[key] for key in keys if payload is None or key not in payload}
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
            place = ".".join(str(step) for step in miss.path)
            problems.append(f"rule on {place}: wanted {miss.expected}, found {miss.actual}")
    if contract.depth_max is not None and request.depth > contract.depth_max:
        problems.append(f"depth {request.depth} exceeds depth_max {contract.depth_max}")
    return problems
