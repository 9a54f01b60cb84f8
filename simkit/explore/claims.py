"""Claims of a simulation: which apply to a turn and may fail; and what a campaign reached."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from simkit.checks.coverage.measuring import edges_to
from simkit.core.text import counted
from simkit.language.matching import compile_matcher
from simkit.session.live.scripted_words import is_by_name
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.scenario.claims import ALL_AGENTS, selected
from simkit.spec.scenario.simulations import claim_against, is_of_whole, thing_denied, with_persona
from simkit.trace import events as e
from simkit.trace.event_parts import PipelineFacts
from simkit.trace.events import Event, kind_of
from simkit.trace.views import TurnView, View, event_fields, run_ids, shows_past


def claims_on_turns(
    always: Mapping[str, Any], view: View, personas: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the claims on each turn that speak of something that took place in it."""
    claims: list[dict[str, Any]] = []
    facts, updated = view.pipeline.channels, set[tuple[str, str]]()
    for turn, persona in zip(view.turns, personas, strict=False):
        updated.update((name, turn.session) for event in turn.updates for name in event.update)
        # Sessions share only what a project or all projects have.
        channels = {
            name
            for name, session in updated
            if session == turn.session
            or (name in facts and facts[name].scope in ("project", "global"))
        }
        claims.append(_applicable(always, turn, channels, persona))
    return claims


def _applicable(
    always: Mapping[str, Any], turn: TurnView, channels: Collection[str], persona: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the claims on a turn that speak of something that took place.

    ``channels`` are those that were written up to its end.
    """
    claims: dict[str, Any] = {}
    for key, claim in always.items():
        if key in ("context", "runs"):
            claim = {name: inner for name, inner in claim.items() if _took_place(key, name, turn)}
        elif key == "state" and is_by_name(claim):
            claim = {name: inner for name, inner in claim.items() if name in channels}
        elif key == "reply" and (turn.error is not None or turn.interrupt is not None):
            continue
        if claim == {}:
            continue
        claims[key] = with_persona(claim, persona)
    return claims


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
    index = selector.item_index
    return count > 0 and (index is None or -count <= index < count)


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
        parts = self.offered | self.reached
        for kind in KINDS:
            count = sum(part.kind == kind for part in parts)
            if count:
                yield kind, sum(part.kind == kind for part in self.reached), count


PAST: Final = Part("past", "an earlier turn")
"""Reached by a conversation in which an agent is sent anything of an earlier turn."""


def parts_of(agent: str, tools: Iterable[str], handoffs: Iterable[str]) -> Iterator[Part]:
    """Yield the parts that a model call of an agent offers, or that its answer asks for."""
    yield from (Part("tool", f"{tool} of {agent}") for tool in tools)
    yield from (Part("handoff", f"{agent} → {target}") for target in handoffs)


def parts_declared(facts: PipelineFacts) -> Iterator[Part]:
    """Yield what a pipeline's file or its framework says that it has, whatever ran of it."""
    for name, agent in facts.agents.items():
        yield Part("agent", name)
        # Open code may pass control to any agent: a list of all says nothing.
        yield from parts_of(name, agent.tools, () if facts.is_open else agent.handoffs)
    handoffs = {
        (source, contract.to_agent)
        for contract in facts.contracts
        for source in contract.from_agents
    }
    for source, target in facts.edges:
        if source != target and not {(source, target), ("*", target)} & handoffs:
            yield Part("edge", f"{source} → {target}")


def parts_taken(view: View) -> Iterator[Part]:
    """Yield the agents that ran, the edges on which they started, and the handoffs made.

    Also `PAST`, if an agent was sent anything of an earlier turn.
    """
    if shows_past(view):
        yield PAST
    # A summarizing agent only makes model calls.
    names = {each.agent for each in view.events if type(each) in (e.AgentStarted, e.ContextBuilt)}
    yield from (Part("agent", name) for name in names)
    for event in view.events:
        if type(event) is e.AgentStarted:
            yield from (Part("edge", edge) for edge in edges_to(event, view))
        elif type(event) is e.RouteChosen:
            yield from (Part("edge", f"{event.agent} → {target}") for target in event.targets)
        elif type(event) is e.HandoffMade:
            yield from parts_of(event.from_agent, (), [event.to_agent])


def handoffs_by_tool(events: Iterable[Event]) -> dict[Part, Part]:
    """Return the tools by which code passes control, each with its handoff."""
    return {
        Part("tool", f"{tool} of {event.agent}"): Part("handoff", f"{event.agent} → {target}")
        for event in events
        if type(event) is e.ContextBuilt
        for tool, target in event.handoff_tools
        if target
    }


def conditions_in(pipeline: object) -> dict[Part, str]:
    """Return the condition of each edge of a declared graph that has one, as never true."""
    graph = pipeline.flow.graph if isinstance(pipeline, Pipeline) else None
    return {
        Part("edge", f"{edge.from_} → {edge.to}"): f"{edge.from_!r} never chose {edge.label!r}"
        for edge in (graph.edges if graph is not None else ())
        if edge.label is not None
    }


def claim_parts(always: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the claims on turns that may be judged, or were: those on one agent or channel each."""
    for key, claim in always.items():
        if key in ("context", "runs", "state") and is_by_name(claim):
            yield from (Part(CLAIM, f"always.{key}.{name}") for name in claim)
        else:
            yield Part(CLAIM, f"always.{key}")


def unjudged_claims(reach: Reach) -> list[str]:
    """Return the claims on turns that no conversation judged: what they speak of never happened."""
    unreached = reach.offered - reach.reached
    return sorted(part.name for part in unreached if part.kind == CLAIM)


def unjudged_lines(reach: Reach) -> list[str]:
    """Return a line for each claim that no conversation judged."""
    why = "no conversation judged it: what it speaks of never happened"
    return [f"{name}: {why}" for name in unjudged_claims(reach)]


def reach_lines(reach: Reach, conditions: Mapping[Part, str] = {}) -> Sequence[str]:
    """Return a line of counts, and lines of the parts that were not reached, each with why.

    ``conditions`` are those of a file's edges, in words.
    """
    counts, missing = [], []
    for kind in KINDS:
        known = sorted(part for part in reach.offered | reach.reached if part.kind == kind)
        unreached: dict[str, list[str]] = {}
        for part in known:
            if part not in reach.reached:
                unreached.setdefault(_reason(part, reach, conditions), []).append(part.name)
        if known:
            count = len(known) - sum(map(len, unreached.values()))
            counts.append(f"{count} of {counted(len(known), kind)}")
        for reason, names in unreached.items():
            more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
            missing.append(f"never reached: {kind} {', '.join(names[:NAMES_MAX])}{more}: {reason}")
    return [f"reached {', '.join(counts)}", *missing] if counts else []


_UNMET: Final = {
    "agent": "nothing passed control to it",
    "handoff": "no model asked for it",
    "tool": "no model called it",
    STATE: "no user came to it",
    CLAIM: "what it speaks of never happened",
}


def _reason(part: Part, reach: Reach, conditions: Mapping[Part, str]) -> str:
    """Return the condition of a part that was never true."""
    separator = " of " if part.kind == "tool" else " → "
    ends = part.name.split(separator)
    source = ends[-1] if part.kind == "tool" else ends[0]
    if part.kind in ("edge", "handoff", "tool") and Part("agent", source) not in reach.reached:
        return f"{source!r} never ran"
    if part.kind == "edge":
        return conditions.get(part, f"{source!r} never went on to {ends[-1]!r}")
    return _UNMET[part.kind]
