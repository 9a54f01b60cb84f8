"""Reach: the agents, edges, handoffs, tools, users' states and claims that a campaign came to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from simkit.core.text import counted
from simkit.trace import events as e
from simkit.trace.event_parts import PipelineFacts

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
