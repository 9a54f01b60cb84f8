"""Claims on one fact of a run: what to write so that a change of the fact is noticed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simkit.checks.mutants import Fact
from simkit.checks.runs import groups_of
from simkit.core.messages import Message
from simkit.language.paths import with_texts
from simkit.trace.views import TurnView
from simkit.update.first_claims import shape_of
from simkit.update.observed_values import WHOLE_MAX, StableClaims, claim_of


def literal(claims: Any) -> Any:
    """Return claims escaped so that a scenario file reads them as they are."""
    return with_texts(claims, lambda text: text.replace("${", "$${"))


def parts_of(claims: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each single claim of a turn's: of contexts and state, one for each part."""
    for name, claim in claims.items():
        if name == "context":
            for agent, inner in claim.items():
                for section, value in inner.items():
                    yield {name: {agent: {section: value}}}
        elif name == "state":
            for channel, value in claim.items():
                yield {name: {channel: value}}
        else:
            yield {name: claim}


def claims_on(fact: Fact, turn: TurnView, stable: StableClaims) -> Iterator[dict[str, Any]]:
    """Yield sets of claims for the turn's `expect` that speak of a fact, the usual one first."""
    value = stable.without_secrets(stable.lasting(claim_of(fact.value), WHOLE_MAX))
    match fact.claim:
        case "context":
            yield from _on_context(fact, value)
        case "handoffs":
            payload = {fact.key: value} if fact.key else value
            pair = {"from": fact.source, "to": fact.target}
            yield {"handoffs": {"$has": [{**pair, "payload": payload}]}}
        case "state":
            shape = stable.without_secrets(shape_of(fact.value))
            for claim in (shape, value):
                yield {"state": {fact.name: {fact.key: claim} if fact.key else claim}}
        case "agents":
            yield {"agents": groups_of(turn.runs)}
            yield {"handoffs": {"$has": [{"from": fact.source, "to": fact.target}]}}
        case "tool_calls":
            answer = {"args": {fact.key: value}} if fact.key else {"result": value}
            yield {"tool_calls": {"$has": [{"tool": fact.name, **answer}]}}
            yield {"tool_calls": [_call(call, fact, stable) for call in turn.tools]}
        case _:
            yield {"reply": value}


def _on_context(fact: Fact, value: Any) -> Iterator[dict[str, Any]]:
    assert isinstance(fact.value, Message)
    yield {"context": {fact.name: {"includes": [value]}}}
    if fact.section:
        yield {"context": {fact.name: {fact.section: {"$len": fact.size}}}}


def _call(call: Any, fact: Fact, stable: StableClaims) -> Mapping[str, Any]:
    fields = {"tool": call.tool}
    if call.tool == fact.name:
        key = "args" if fact.key else "result"
        fields[key] = stable.without_secrets(stable.lasting(claim_of(getattr(call, key))))
    return fields
