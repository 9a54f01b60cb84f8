"""Things that must never happen: whether one did, without the cost of a judgement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simkit.language.matching import compile_matcher
from simkit.spec.scenario.never import thing_denied
from simkit.trace.events import kind_of
from simkit.trace.views import TurnView, View, event_fields


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
