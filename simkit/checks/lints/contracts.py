"""Contracts and payloads of handoffs, as lints check them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from simkit.core.errors import MatcherError
from simkit.core.messages import JsonValue
from simkit.language.json_schema import Check, compile_schema, place_text
from simkit.language.paths import leaves
from simkit.trace import events as e

_encode = msgspec.json.Encoder().encode

HandoffEvent = e.HandoffRequested | e.HandoffMade


def contract_of(event: HandoffEvent, facts: e.PipelineFacts) -> e.ContractFacts | None:
    """Return the contract of a handoff's pair and type, if there is one."""
    if facts.contracts:
        for contract in contracts_of(event, facts):
            if contract.type == event.type:
                return contract
    return None


def contracts_of(event: HandoffEvent, facts: e.PipelineFacts) -> Iterator[e.ContractFacts]:
    """Yield the contracts of a handoff's pair."""
    for contract in facts.contracts:
        named = event.from_agent in contract.from_agents or "*" in contract.from_agents
        if named and contract.to_agent == event.to_agent:
            yield contract


class Payloads:
    """The checks of contracts on payloads, each compiled once."""

    def __init__(self) -> None:
        self._checks: dict[tuple[tuple[str, ...], str, str], Check | None] = {}

    def problems_of(
        self, event: e.HandoffMade, requested: JsonValue, facts: e.PipelineFacts
    ) -> list[str]:
        """Return what is wrong with a delivered payload; ``requested`` is the requested one."""
        problems: list[str] = []
        contract = contract_of(event, facts)
        if contract is not None and contract.payload is not None:
            check = self._check(contract, facts.schemas)
            if check is not None:
                for path, text in check(event.payload):
                    problems.append(f"payload{place_text(path)}: {text}")
        if requested is not None and isinstance(requested, Mapping):
            payload_fields = event.payload if isinstance(event.payload, Mapping) else {}
            problems += [
                f"payload.{key}: was dropped" for key in requested if key not in payload_fields
            ]
        return problems

    def _check(self, contract: e.ContractFacts, schemas: Mapping[str, JsonValue]) -> Check | None:
        key = (contract.from_agents, contract.to_agent, contract.type)
        if key not in self._checks:
            try:
                self._checks[key] = compile_schema(contract.payload, schemas)
            except MatcherError:
                self._checks[key] = None
        return self._checks[key]


_PREFIX: Final = 20
"""The length of a long text that must reach the context: recipes show previews."""

_LEAF_MIN: Final = 3
"""Shorter texts and numbers occur in any context by chance."""

_OWN_KEYS: Final = ("source_agent", "handoff_type")


def texts_by_key(handoff: HandoffEvent) -> dict[str, set[str]]:
    """Return the texts to search by the payload's keys; under an empty key if it has none.

    A key that only names the target or the source (``next``, ``active_agent``) is left out.
    """
    payload = handoff.payload
    if not isinstance(payload, Mapping):
        payload = {"": payload}
    address = (handoff.to_agent, handoff.from_agent)
    texts = {
        key: {*_recognisable(value)}
        for key, value in payload.items()
        if key not in _OWN_KEYS and value not in address
    }
    return {key: texts_ for key, texts_ in texts.items() if texts_}


def required_keys(handoff: HandoffEvent, facts: e.PipelineFacts) -> Sequence[str] | None:
    """Return the keys that the contract requires; None for all, if there can be no contract."""
    contract = contract_of(handoff, facts)
    if contract is None:
        return None if facts.is_code else ()
    schema = contract.payload
    for _ in facts.schemas:  # In a trace that nobody has validated, they may form a ring.
        if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
            break
        schema = facts.schemas.get(schema["$ref"])
    required = schema.get("required") if isinstance(schema, Mapping) else None
    return [key for key in required if isinstance(key, str)] if isinstance(required, list) else ()


def _recognisable(value: JsonValue) -> Iterator[str]:
    """Yield the beginnings of leaves that are long enough to recognize, plain and as in JSON."""
    for leaf in leaves(value):
        if isinstance(leaf, str):
            begin = leaf.strip()[:_PREFIX].rstrip()
            if len(begin) >= _LEAF_MIN:
                yield begin
                yield _encode(begin).decode()[1:-1]
        elif isinstance(leaf, (int, float)) and not isinstance(leaf, bool):
            text = _encode(leaf).decode()
            if len(text) >= _LEAF_MIN:
                yield text
