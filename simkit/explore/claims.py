"""Claims of a simulation: which apply to a turn and may fail; and what a campaign reached."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from simkit.core.text import counted
from simkit.language.matching import compile_matcher
from simkit.spec.scenario.claim_names import ClaimNames
from simkit.spec.scenario.claims import ALL_AGENTS, selected
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.known import ValueSchemas, known_in, values_in
from simkit.spec.scenario.simulations import claim_against, is_of_whole, thing_denied, with_persona
from simkit.trace import events as e
from simkit.trace.event_parts import PipelineFacts
from simkit.trace.events import Event, ToolCalled, kind_of
from simkit.trace.views import TurnView, View, event_fields, run_ids


def claims_on_turns(
    always: Mapping[str, Any], view: View, personas: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the claims on each turn that speak of something that took place in it."""
    claims: list[dict[str, Any]] = []
    channels: set[str] = set()
    for turn, persona in zip(view.turns, personas, strict=False):
        channels.update(name for event in turn.updates for name in event.update)
        claims.append(_applicable(always, turn, channels, persona))
    return claims


def _applicable(
    always: Mapping[str, Any],
    turn: TurnView,
    channels: Collection[str],
    persona: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the claims on a turn that speak of something that took place.

    ``channels`` are those that were written up to its end.
    """
    claims: dict[str, Any] = {}
    for key, claim in always.items():
        if key in ("context", "runs"):
            claim = {name: inner for name, inner in claim.items() if _took_place(key, name, turn)}
        elif key == "state" and _names_channels(claim):
            claim = {name: inner for name, inner in claim.items() if name in channels}
        elif key == "reply" and (turn.error is not None or turn.interrupt is not None):
            continue
        if claim == {}:
            continue
        claims[key] = with_persona(claim, persona)
    return claims


def _names_channels(claim: Any) -> bool:
    """Return whether a claim on the state is by channel, and no matcher of it as a whole."""
    return isinstance(claim, Mapping) and not any(str(name).startswith("$") for name in claim)


def _took_place(key: str, name: str, turn: TurnView) -> bool:
    """Return whether a turn has the model calls, or the runs, that a claim selects by a name."""
    selector = selected(name)
    if selector.agent == ALL_AGENTS:
        return bool(turn.calls if key == "context" else turn.runs)
    calls = turn.calls_by_agent.get(selector.agent, [])
    runs = run_ids(selector.agent, turn.runs, calls)
    if selector.run is not None:
        if not -len(runs) <= selector.run < len(runs):
            return False
        calls = [call for call in calls if call.run == runs[selector.run]]
    count = len(calls if key == "context" else runs)
    place = selector.item_index
    return count > 0 and (place is None or -count <= place < count)


def denials_of(
    thing: Mapping[str, Any], personas: Iterable[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the claims on each turn, or on the whole conversation, that a thing never happens."""
    if is_of_whole(thing):
        return [], claim_against(thing)
    return [with_persona(claim_against(thing), persona) for persona in personas], {}


def may_have_happened(
    claims: Sequence[Mapping[str, Any]], whole: Mapping[str, Any], view: View
) -> bool:
    """Return whether a claim that denies something may fail.

    ``claims`` are those on each turn, ``whole`` those on the whole conversation. Of code, only a
    judgement knows what its driver does not see.
    """
    if view.pipeline.is_code:
        return True
    scopes = [(claim, [turn]) for claim, turn in zip(claims, view.turns, strict=False)]
    return any(
        not compile_matcher(denial).holds(_things(family, denial, turns, view))
        for scope_claims, turns in (*scopes, (whole, None))
        for family, denial in scope_claims.items()
    )


def _things(
    family: str, denial: Any, turns: Sequence[TurnView] | None, view: View
) -> list[dict[str, Any]]:
    """Return the things that a claim speaks of; ``turns`` are None for the whole run."""
    if family == "events":
        kind = thing_denied(denial).get("kind")
        spans = [slice(None)] if turns is None else [slice(turn.lo, turn.hi) for turn in turns]
        return [
            event_fields(view.whole_event(event))
            for span in spans
            for event in view.events[span]
            # Most events are of another kind, and reading their fields is slow.
            if not isinstance(kind, str) or kind_of(event) == kind
        ]
    turns = view.turns if turns is None else turns
    if family == "tool_calls":
        return [tool.fields() for turn in turns for tool in turn.tools]
    return [handoff.fields() for turn in turns for handoff in turn.handoffs]


def check_called(prepared: Prepared, schemas: Mapping[str, Any], events: Iterable[Event]) -> None:
    """Raise SourceError for the first argument in a claim that no call of its tool can have.

    ``schemas`` are those of the tools that models were offered. A function may receive more than
    the model asks for, so only tools that were called are checked.
    """
    calls: dict[str, list[Any]] = {}
    for event in events:
        if type(event) is ToolCalled and event.tool in schemas:
            calls.setdefault(event.tool, []).append(event.args)
    if not calls:
        return
    scenario = prepared.scenario
    values = values_in(scenario)
    args = {tool: [*values.args.get(tool, ()), *given] for tool, given in calls.items()}
    own = ValueSchemas({tool: schemas[tool] for tool in calls}, is_every_tool=False)
    known = msgspec.structs.replace(known_in(prepared.pipeline), values=own)
    replaced = partial(msgspec.structs.replace, values, args=args)
    names = ClaimNames(prepared.document, known, {}, replaced)
    (turn,) = scenario.turns
    names.check(turn.expect, ("turns", 0, "expect"))
    names.check(scenario.expect, ("expect",))


CLAIM: Final = "claim"
STATE: Final = "user state"
KINDS: Final = ("agent", "edge", "handoff", "tool", STATE, CLAIM)
NAMES_MAX: Final = 8
"""The number of names of a kind that a report lists."""


class Part(NamedTuple):
    """A part of a pipeline."""

    kind: str
    """One of `KINDS`."""
    name: str


class Reach(NamedTuple):
    """The parts that could be reached, and those that were."""

    offered: frozenset[Part] = frozenset()
    reached: frozenset[Part] = frozenset()

    def joined(self, other: Reach) -> Reach:
        """Return the reach of both."""
        return Reach(self.offered | other.offered, self.reached | other.reached)

    def is_within(self, other: Reach) -> bool:
        """Return whether the other one has all of it."""
        return self.offered <= other.offered and self.reached <= other.reached

    def counts(self) -> Iterator[tuple[str, int, int]]:
        """Yield the kinds of which there are parts: how many were reached, and of how many."""
        known = self.offered | self.reached
        for kind in KINDS:
            count = sum(part.kind == kind for part in known)
            if count:
                yield kind, sum(part.kind == kind for part in self.reached), count


def parts_of(agent: str, tools: Iterable[str], handoffs: Iterable[str]) -> Iterator[Part]:
    """Yield the parts that a model call of an agent offers, or that its answer asks for."""
    yield from (Part("tool", f"{tool} of {agent}") for tool in tools)
    yield from (Part("handoff", f"{agent} → {target}") for target in handoffs)


def edges_offered(facts: PipelineFacts) -> Iterator[Part]:
    """Yield the ways of a declared flow from one agent to another; handoffs are not among them."""
    if facts.is_open or facts.is_code:
        return
    handoffs = {
        (source, contract.to_agent)
        for contract in facts.contracts
        for source in contract.from_agents
    }
    for source, target in facts.edges:
        if not {(source, target), ("*", target)} & handoffs:
            yield Part("edge", f"{source} → {target}")


def edges_taken(events: Iterable[e.Event]) -> Iterator[Part]:
    """Yield the ways on which agents started, and those that a route chose."""
    agents: dict[str, str] = {}
    for event in events:
        if type(event) is e.AgentStarted:
            agents[event.run] = event.agent
            for run in event.after:
                if run in agents:
                    yield Part("edge", f"{agents[run]} → {event.agent}")
        elif type(event) is e.RouteChosen:
            for target in event.targets:
                yield Part("edge", f"{event.agent} → {target}")


def is_parted(claim: Any) -> bool:
    """Return whether a claim has a part for each name, and is no operator."""
    return isinstance(claim, Mapping) and not any(str(name)[:1] == "$" for name in claim)


def claim_parts(always: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the claims on turns that may be judged, or were: those on one agent or channel each."""
    for key, claim in always.items():
        if key in ("context", "runs", "state") and is_parted(claim):
            yield from (Part(CLAIM, f"always.{key}.{name}") for name in claim)
        else:
            yield Part(CLAIM, f"always.{key}")


def unjudged_claims(reach: Reach) -> list[str]:
    """Return the claims on turns that no conversation judged: what they speak of never happened."""
    left = reach.offered - reach.reached
    return sorted(part.name for part in left if part.kind == CLAIM)


def unjudged_lines(reach: Reach) -> list[str]:
    """Return a line for each claim that no conversation judged."""
    why = "no conversation judged it: what it speaks of never happened"
    return [f"{name}: {why}" for name in unjudged_claims(reach)]


def reach_lines(reach: Reach) -> Sequence[str]:
    """Return a line of counts, and a line for each kind with parts that were not reached."""
    counts, missing = [], []
    for kind in KINDS:
        known = sorted(part.name for part in reach.offered | reach.reached if part.kind == kind)
        left = [name for name in known if Part(kind, name) not in reach.reached]
        if known:
            counts.append(f"{len(known) - len(left)} of {counted(len(known), kind)}")
        if left:
            more = f" and {len(left) - NAMES_MAX} more" if len(left) > NAMES_MAX else ""
            missing.append(f"never reached: {kind} {', '.join(left[:NAMES_MAX])}{more}")
    return [f"reached {', '.join(counts)}", *missing] if counts else []
