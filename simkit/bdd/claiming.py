"""What a story claims: one claim after another, put together as a scenario file would hold them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from simkit.bdd.places import Lines, Places

WHOLE: Final = -1
"""The turn of claims that speak of the whole run."""
LISTS: Final = ("includes", "excludes", "findings", "satisfies")
"""Claims that are lists of matchers, all of which must hold."""
COUNTS: Final = "model_calls"
"""The claim whose values are plain counts."""


class Claim(NamedTuple):
    """One thing that must be so."""

    turn: int
    """The turn's place, or WHOLE."""
    path: tuple[str, ...]
    """Where it stands below `expect`."""
    matcher: Any
    lines: Lines


class Claims:
    """The claims of a story, in the order in which they were made."""

    def __init__(self) -> None:
        self._by_turn: dict[int, list[Claim]] = {}
        """By turn."""

    def add(self, claim: Claim) -> Claim | None:
        """Add a claim; return an earlier one that it contradicts, instead of adding it."""
        turn_claims = self._by_turn.setdefault(claim.turn, [])
        if claim.path[0] == COUNTS:
            for other in turn_claims:
                if other.path == claim.path:
                    return None if other.matcher == claim.matcher else other
        turn_claims.append(claim)
        return None

    @property
    def speak_of_the_end(self) -> Lines | None:
        """The lines of the first claim on the whole run."""
        return next((claim.lines for claim in self._by_turn.get(WHOLE, ())), None)

    def expect(self, turn: int, places: Places, place: int | None = None) -> dict[str, Any]:
        """Return what is claimed of a turn or of the whole run, and record who said what.

        ``place`` is the turn's among those that ``places`` know, if it is another.
        """
        place = turn if place is None else place
        above: tuple[str | int, ...] = ("expect",) if turn == WHOLE else ("turns", place, "expect")
        mine = self._by_turn.get(turn, [])
        expectations: dict[str, Any] = {}
        for path in dict.fromkeys(claim.path for claim in mine):
            claims_here = [claim for claim in mine if claim.path == path]
            *way, key = path
            inner = expectations
            for step in way:
                inner = inner.setdefault(step, {})
            at = (*above, *path)
            inner[key] = _joined(claims_here, at, places, is_list=path[-1] in LISTS)
        return expectations


def _joined(
    claims: Sequence[Claim], at: tuple[str | int, ...], places: Places, *, is_list: bool
) -> Any:
    """One value that says all claims on one thing."""
    if len(claims) == 1 and not is_list:
        return _claim_value(claims[0], at, places)
    if is_list:
        return [_claim_value(claim, (*at, place), places) for place, claim in enumerate(claims)]
    _note(claims[-1], at, places)
    return {
        "$all": [
            _claim_value(inner_claim, (*at, "$all", place), places)
            for place, inner_claim in enumerate(claims)
        ]
    }


def _claim_value(claim: Claim, at: tuple[str | int, ...], places: Places) -> Any:
    _note(claim, at, places)
    return claim.matcher


def _note(claim: Claim, at: tuple[str | int, ...], places: Places) -> None:
    places.say(at, claim.lines, below=2 if at[0] == "turns" else 0)


def claims_in(claim_data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the claims that an `expect` mapping holds, each with its path."""
    depth = {"context": 3, "runs": 3, COUNTS: 2}.get(path[0] if path else "", 1)
    is_deeper = not path or len(path) < depth
    if is_deeper and isinstance(claim_data, dict):
        for key, inner in claim_data.items():
            yield from claims_in(inner, (*path, key))
    elif path and path[-1] in LISTS and isinstance(claim_data, list):
        for element in claim_data:
            yield path, element
    elif path:
        yield path, claim_data
