"""Lints on handoffs: their contract, their payload, their target, and that none stays open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import Facts, lint
from simkit.core.errors import MatcherError
from simkit.core.messages import JsonValue
from simkit.language.json_schema import Check, compile_schema, place_text
from simkit.language.paths import as_text
from simkit.trace import events as e
from simkit.trace.views import View

HandoffEvent = e.HandoffRequested | e.HandoffMade | e.HandoffRejected


def contract_of(event: HandoffEvent, facts: e.PipelineFacts) -> e.ContractFacts | None:
    """Return the contract of a handoff's pair and type, if there is one."""
    return next((each for each in contracts_of(event, facts) if each.type == event.type), None)


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


def referenced(schema: Any, schemas: Mapping[str, Any]) -> Any:
    """Return the schema that ``{$ref: Name}`` names; any other as it is."""
    for _ in schemas:  # In a trace that nobody has validated, they may form a ring.
        if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
            break
        schema = schemas.get(schema["$ref"].rpartition("/")[2])
    return schema


def required_keys(handoff: HandoffEvent, facts: e.PipelineFacts) -> Sequence[str] | None:
    """Return the keys that the contract requires; None for all, if there can be no contract."""
    contract = contract_of(handoff, facts)
    if contract is None:
        return None if facts.is_code else ()
    schema = referenced(contract.payload, facts.schemas)
    required = schema.get("required") if isinstance(schema, Mapping) else None
    return [key for key in required if isinstance(key, str)] if isinstance(required, list) else ()


def _pair(event: HandoffEvent) -> str:
    return f"handoff {event.handoff} from {event.from_agent!r} to {event.to_agent!r}"


def _data(event: HandoffEvent) -> dict[str, JsonValue]:
    return {
        "from": event.from_agent,
        "to": event.to_agent,
        "type": event.type,
        "handoff": event.handoff,
    }


@lint("HND-01", e.HandoffMade)
def payload_invalid(event: e.HandoffMade, facts: Facts) -> Iterable[Hit]:
    """HND-01: the payload of a made handoff satisfies its contract.

    A requested key that is not delivered counts too: it was silently dropped. A schema that the
    trace alone cannot resolve is not checked. Seen in openai-agents#627 and CopilotKit#6801.
    """
    requested = facts.view.handoffs[event.handoff].event.payload
    problems = facts.notes_of(Payloads).problems_of(event, requested, facts.pipeline)
    if problems:
        problem = f"{_pair(event)} was made with an invalid payload: {'; '.join(problems)}"
        data = {**_data(event), "errors": problems}
        yield Hit.at("HND-01", event, problem, agent=event.to_agent, **data)


class _Announced(dict[str, list[e.HandoffMade]]):
    """Session to its handoffs whose targets have not started."""


@lint("HND-04", e.HandoffMade)
def _note_announced(event: e.HandoffMade, facts: Facts) -> None:
    facts.notes_of(_Announced).setdefault(event.session, []).append(event)


@lint("HND-04", e.TurnFinished, when=_Announced)
def _never_started(event: e.TurnFinished, facts: Facts) -> Iterable[Hit]:
    lost = facts.notes_of(_Announced).pop(event.session, [])
    return [_other_start(handoff, "nobody") for handoff in lost if event.error is None]


def _handoff_of_start(
    event: e.AgentStarted, waiting: Sequence[e.HandoffMade]
) -> e.HandoffMade | None:
    """Return the handoff that a run should answer; None if it starts elsewhere in parallel."""
    if same_handoff := [each for each in waiting if each.handoff == event.handoff]:
        return same_handoff[0]
    starts_elsewhere = event.after and all(handoff.run not in event.after for handoff in waiting)
    return None if event.group or starts_elsewhere else waiting[-1]


@lint("HND-04", e.AgentStarted, when=_Announced)
def wrong_target(event: e.AgentStarted, facts: Facts) -> Iterable[Hit]:
    """HND-04: after a handoff was made, its target is the agent that starts next.

    The announced target (the event), the executed one (the run that names the handoff) and the next
    active agent must be the same, and the run must name the source. A run of a parallel branch may
    come in between, and a merge starts once for all handoffs that lead to it. A turn that ends with
    an error need not start the target. Seen in adk#3179 and adk#367.
    """
    waiting = facts.notes_of(_Announced).get(event.session)
    if not waiting:
        return
    handoff = _handoff_of_start(event, waiting)
    if handoff is None:
        return
    waiting.remove(handoff)
    for other in [candidate for candidate in waiting if candidate.run in event.after]:
        if other.to_agent == event.agent:
            waiting.remove(other)
    if event.agent != handoff.to_agent:
        yield _other_start(handoff, repr(event.agent))
    elif event.handoff != handoff.handoff:
        yield _other_start(handoff, f"{event.agent!r}, but not by this handoff")
    elif event.handoff_from != handoff.from_agent:
        yield _other_start(handoff, f"{event.agent!r}, from {event.handoff_from!r}")


def _other_start(handoff: e.HandoffMade, started: str) -> Hit:
    pair = _pair(handoff)
    problem = f"{pair} was made in turn {handoff.turn}, but the run that started is: {started}"
    return Hit.at("HND-04", handoff, problem, agent=handoff.to_agent, **_data(handoff))


class _Siblings(dict[str, dict[str, tuple[str, str]]]):
    """Session to its open calls beside a handoff, each with agent and tool."""


@lint("HND-06", e.MessageAdded, when="is_tool_message")
def _note_siblings(event: e.MessageAdded, facts: Facts) -> None:
    """Keep calls beside a handoff until they are answered or the turn ends."""
    message = event.message
    if message.call_id:
        if _Siblings in facts.notes:
            facts.notes_of(_Siblings).get(event.session, {}).pop(message.call_id, None)
    elif len(message.calls) > 1 and any(call.is_handoff for call in message.calls):
        siblings = facts.notes_of(_Siblings).setdefault(event.session, {})
        for call in message.calls:
            if not call.is_handoff:
                siblings[call.id] = (event.agent, call.name)


@lint("HND-06", e.TurnFinished)
def dangling_handoff(event: e.TurnFinished, facts: Facts) -> Iterable[Hit]:
    """HND-06: a requested handoff is made or rejected in its turn, and calls beside it answered.

    A turn that ends with a question to the user leaves them open: `resume` settles them.
    Calls beside it are the tool calls of the same assistant message; a result may reach the target
    in a text, as in Google's ADK. A turn that ends with an error needs neither; what a run asks for
    twice is made once. Seen in langgraph-supervisor#230 and langgraph-swarm#26.
    """
    if event.waits_for and event.error is None:
        return ()  # The user decides: `resume` settles what is open.
    unanswered = facts.notes.get(_Siblings, {}).pop(event.session, {})
    if event.error is not None or not (facts.requests or unanswered):
        return ()
    return _dangling(event, unanswered, facts.view)


def _dangling(
    event: e.TurnFinished, unanswered: Mapping[str, tuple[str, str]], view: View
) -> Iterator[Hit]:
    turn = view.turns[-1]
    pairs = ((each.event, each.outcome) for each in turn.handoffs)
    moves = {(each.run, each.to_agent) for each, outcome in pairs if outcome == "made"}
    for handoff in turn.handoffs:
        request = handoff.event
        if handoff.outcome == "requested" and (request.run, request.to_agent) not in moves:
            problem = f"{_pair(request)} was neither made nor rejected in turn {event.turn}"
            yield Hit.at("HND-06", event, problem, agent=request.from_agent, **_data(request))
    results = {each.call_id: as_text(each.result) for each in turn.tools if each.error is None}
    texts = [message.content for call in turn.calls for message in call.context.messages]
    for identity, (agent, tool) in unanswered.items():
        if (result := results.get(identity)) and any(result in text for text in texts):
            continue  # It reaches the target in a text.
        problem = (
            f"agent {agent!r} called {tool!r} ({identity}) beside a handoff in turn "
            f"{event.turn}, and nobody answered"
        )
        yield Hit.at("HND-06", event, problem, agent=agent, tool=tool)


@lint("HND-08", e.MessageAdded, when="is_tool_message")
def several_handoffs(event: e.MessageAdded, facts: Facts) -> Iterable[Hit]:
    """HND-08: one assistant message asks for one handoff.

    Control can go to one agent only, so the others are lost or refused. Seen in openai-agents#499.
    """
    targets: list[JsonValue] = [call.target for call in event.message.calls if call.is_handoff]
    if len(targets) > 1:
        problem = (
            f"agent {event.agent!r} asked for {len(targets)} handoffs at once in turn "
            f"{event.turn}: to {', '.join(map(repr, targets))}"
        )
        yield Hit.at("HND-08", event, problem, to=targets)


@lint("HND-11", e.HandoffRequested, e.HandoffMade, when="has_edges")
def unregistered(event: e.HandoffRequested | e.HandoffMade, facts: Facts) -> Iterable[Hit]:
    """HND-11: a handoff's type is in the registry for its pair of agents.

    In a pipeline with contracts every request is checked; in one without, every handoff
    that was made. From reference system 5, the registry.
    """
    pipeline = facts.pipeline
    if bool(pipeline.contracts) is (type(event) is e.HandoffMade):
        return
    if contract_of(event, pipeline) is not None:
        return
    types = [contract.type for contract in contracts_of(event, pipeline)]
    types_text = f"known for this pair: {', '.join(types)}" if types else "the pair has no contract"
    problem = f"{_pair(event)} has type {event.type!r}, which is not registered; {types_text}"
    yield Hit.at("HND-11", event, problem, agent=event.from_agent, **_data(event))
