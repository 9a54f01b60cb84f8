"""Claims of a simulation: which apply to a turn, which may fail, and whether their names exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from simkit.language.matching import compile_matcher
from simkit.spec.scenario.claim_names import ClaimNames
from simkit.spec.scenario.claims import ALL_AGENTS, selected
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.known import ValueSchemas, known_in, values_in
from simkit.spec.scenario.simulations import claim_against, is_of_whole, thing_denied, with_persona
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
        elif (
            key == "state"
            and isinstance(claim, Mapping)
            and not any(str(name).startswith("$") for name in claim)
        ):
            claim = {name: inner for name, inner in claim.items() if name in channels}
        elif key == "reply" and (turn.error is not None or turn.interrupt is not None):
            continue
        if claim == {} or claim is None:
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
