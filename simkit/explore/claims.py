"""Claims of a simulation: those that speak of what took place in a turn."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from simkit.spec.scenario.claims import ALL_AGENTS, selected
from simkit.spec.scenario.simulations import with_persona
from simkit.trace.views import TurnView, run_ids


def applicable_claims(
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
        elif key == "state" and isinstance(claim, Mapping) and not _is_operator(claim):
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


def _is_operator(claim: Mapping[str, Any]) -> bool:
    return any(str(key).startswith("$") for key in claim)
