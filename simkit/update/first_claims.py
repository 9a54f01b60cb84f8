"""First claims: a complete set for a turn: agents, contexts, results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from simkit.checks.mutants import Fact
from simkit.checks.observing import unobservable
from simkit.checks.runs import groups_of
from simkit.checks.scope import Scope, scope_of_turn
from simkit.checks.unclaimed import UNFINISHED
from simkit.core.messages import Message
from simkit.language.matching.values import is_list
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.writing import flow
from simkit.trace.views import CallView, TurnView, View
from simkit.update.observed_values import (
    MESSAGES_MAX,
    WHOLE_MAX,
    StableClaims,
    claim_of,
    claim_of_handoff,
    claim_of_tool_call,
    holds,
)

STATE_MAX: Final = 300
"""The length of a channel's value up to which it is claimed whole; above, only its shape."""
TEXT_MAX: Final = 60
"""The length of a text within a larger value up to which it is claimed."""
_INSTRUCTIONS: Final = "instructions"


def first_claims(
    view: View, index: int, stable: StableClaims, *, with_contexts: bool = True
) -> dict[str, Any]:
    """Return claims that hold for a turn; empty if it did not finish.

    They contain no secrets. ``with_contexts``: also claim the contexts of code.
    """
    turn = view.turns[index]
    scope = scope_of_turn(turn, index, Expect(), view)
    if not turn.finished or (turn.error is not None and turn.error.type in UNFINISHED):
        return {}
    claims = dict(_claims(scope, stable if with_contexts else None))
    if scope.pipeline.is_code and "tool_calls" in claims:  # Functions ran for real.
        claims["tool_calls"] = stable.lasting(claims["tool_calls"])
    return {
        name: stable.without_secrets(claims[name])
        for name in claims
        if not unobservable(scope, name)
    }


def _claims(scope: Scope, stable: StableClaims | None) -> Iterator[tuple[str, Any]]:
    yield "agents", groups_of(scope.runs)
    if scope.error is not None:
        yield "error", scope.error.type
    elif scope.interrupt is not None:
        yield "interrupt", claim_of(scope.interrupt)
    else:
        yield "reply", claim_of(scope.reply)
    contexts = dict(_contexts(scope, stable))
    if contexts:
        yield "context", contexts
    yield "handoffs", [claim_of_handoff(handoff.fields()) for handoff in scope.handoffs]
    yield "tool_calls", [claim_of_tool_call(handoff.fields()) for handoff in scope.tools]
    updates = dict.fromkeys(name for update in scope.updates for name in update.update)
    state = {name: shape_of(scope.state[name]) for name in updates if name in scope.state}
    if state:
        yield "state", state


def _contexts(scope: Scope, stable: StableClaims | None) -> Iterator[tuple[str, Any]]:
    """Yield the claims on each context; without sections, on its messages."""
    for agent, calls in scope.calls.items():
        before: CallView | None = None
        if stable is not None:
            stable = stable.with_other_agents(_instructions_of_others(scope, agent))
        for index, call in enumerate(calls):
            last = before if before is not None and before.run == call.run else None
            if scope.can_observe("sections"):
                claims = dict(_sections(call, goes_on=last is not None))
            elif stable is not None and scope.pipeline.is_code:
                claims = stable.on_messages(call, last)
            else:
                claims = {}
            if claims:
                yield (f"{agent}[{index}]" if index else agent), claims
            before = call


def _instructions_of_others(scope: Scope, agent: str) -> list[str]:
    return [
        message.content
        for name, calls in scope.calls.items()
        if name != agent
        for call in calls
        for message in call.context.messages
        if message.role == "system" and isinstance(message.content, str)
    ]


def _sections(call: CallView, *, goes_on: bool) -> Iterator[tuple[str, Any]]:
    """Yield claims on one context; on a later call of the same run, only on new parts."""
    context = call.context
    if not goes_on:
        yield "sections", context.sections
    for name in context.sections:
        if name == _INSTRUCTIONS or (goes_on and name != "run"):
            continue
        messages = context.section(name)
        claim: Any = [claim_of(message) for message in messages]
        if len(messages) > MESSAGES_MAX or not holds(claim, messages):
            claim = {"$len": len(messages)}
        yield name, claim


def shape_of(value: Any) -> Any:
    """Return a claim on a value: all of a small one; of a large one its shape and small parts."""
    claim = claim_of(value)
    if len(flow(claim)) <= STATE_MAX and holds(claim, value):
        return claim
    return _shape(claim)


def _shape(claim: Any) -> Any:
    if isinstance(claim, Mapping):
        return {key: _shape(inner) for key, inner in claim.items()}
    if isinstance(claim, str) and len(claim) > TEXT_MAX:
        return {"$starts": claim[:TEXT_MAX].rstrip()}
    if is_list(claim) and len(claim) > 1:
        return {"$len": len(claim)}
    return claim


def common(claims: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the claims that several sets share, for rows of one table."""
    first, *others = claims
    fields: dict[str, Any] = {}
    for key, claim in first.items():
        if any(key not in other for other in others):
            continue
        if all(other[key] == claim for other in others):
            fields[key] = claim
        elif isinstance(claim, Mapping) and not any(name.startswith("$") for name in claim):
            inner = common([claim, *(o[key] for o in others if isinstance(o[key], Mapping))])
            if inner and all(isinstance(other[key], Mapping) for other in others):
                fields[key] = inner
    return fields


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
