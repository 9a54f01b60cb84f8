"""Things that must never happen in a simulation, as the claims that deny them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, WithJsonSchema

from simkit.language.yaml import SourcePath
from simkit.spec.fields import MATCHER_SCHEMA, refuse, shown_value

TWICE: Final = "twice_with"
"""The key of the fields that must not be the same twice in a conversation."""
_FAMILIES: Final[Mapping[str, str]] = {
    "kind": "events", "tool": "tool_calls", "from": "handoffs", "to": "handoffs",
}  # fmt: skip
"""Key of a thing to the claim that speaks of such things; the first one decides."""


def _thing(value: Any) -> Any:
    if not isinstance(value, dict) or not any(key in value for key in _FAMILIES):
        raise refuse(
            "must be an event (`kind`), a tool call (`tool`) or a handoff (`from`, `to`), not "
            f"{shown_value(value)}",
            advice="Write `{tool: refund}`, `{from: desk, to: billing}` or `{kind: LimitReached}`.",
        )
    return value


NeverThings = Annotated[
    tuple[Annotated[dict[str, Any], BeforeValidator(_thing)], ...],
    Field(min_length=1),
    WithJsonSchema({"type": "array", "minItems": 1, "items": dict(MATCHER_SCHEMA)}),
]


def is_of_whole(thing: Mapping[str, Any]) -> bool:
    """Return whether the claim concerns a whole conversation, and no single turn."""
    return TWICE in thing


def claim_against(thing: Mapping[str, Any]) -> dict[str, Any]:
    """Return the claim that denies a thing."""
    matcher = {key: inner for key, inner in thing.items() if key != TWICE}
    denial: dict[str, Any] = {"$not": {"$has": [matcher]}}
    if TWICE in thing:
        denial = {"$unique": {"of": matcher, "by": thing[TWICE]}}
    return {family_of(thing): denial}


def thing_denied(denial: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the matcher of the things that a claim against one denies."""
    thing: Mapping[str, Any] = (
        denial["$unique"]["of"] if "$unique" in denial else denial["$not"]["$has"][0]
    )
    return thing


def family_of(thing: Mapping[str, Any]) -> str:
    """Return the claim that speaks of such things."""
    return next(family for key, family in _FAMILIES.items() if key in thing)


class JoinedClaims:
    """Claims of a scope, joined with those against things that must never happen there."""

    def __init__(
        self, own: Mapping[str, Any], things: Sequence[Any], *, at: str, is_whole: bool
    ) -> None:
        """``at`` is the key of the claims in the file; things that are none are left out."""
        self.claims: dict[str, Any] = dict(own)
        self._at = at
        self._places: dict[str, list[SourcePath]] = {}
        for place, thing in enumerate(things):
            if not isinstance(thing, Mapping) or is_of_whole(thing) is not is_whole:
                continue
            ((family, denial),) = claim_against(thing).items()
            if family not in self._places:
                self._places[family] = [(at, family)] if family in own else []
                self.claims[family] = {"$all": [own[family]] if family in own else []}
            self.claims[family]["$all"].append(denial)
            self._places[family].append(("never", place))

    def moved(self, path: SourcePath) -> SourcePath:
        """Return the path in the file of a path in the claims."""
        places = self._places.get(str(path[0])) if path else None
        if places is None:
            return (self._at, *path)
        index = path[2] if len(path) > 2 and path[1] == "$all" else None
        if not isinstance(index, int):
            return places[0]
        head, inner = places[index], path[3:]
        if head[0] != "never":
            return (*head, *inner)
        if inner[:3] == ("$not", "$has", 0):
            return (*head, *inner[3:])
        if inner[:2] == ("$unique", "of"):
            return (*head, *inner[2:])
        return (*head, TWICE) if inner[:1] == ("$unique",) else head
