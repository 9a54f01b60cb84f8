"""A finding: one claim or lint that does not hold. It is a value, not an exception."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from simkit.core.messages import JsonValue
from simkit.language.yaml import near
from simkit.spec.lint_catalogue import LINTS

CLAIM: Final = "claim"
"""The id of findings that are no lint."""


class Difference(
    msgspec.Struct, frozen=True, gc=False, rename={"expected": "wanted", "actual": "found"}
):
    """One place where the actual value is not the expected one (`wanted` and `found` in JSON)."""

    at: str
    """The path below the claim; empty for the claim itself."""
    expected: str
    actual: str
    note: str = ""


class Finding(msgspec.Struct, frozen=True, gc=False):
    """One claim that does not hold, or one lint."""

    id: str
    """``claim``, or the lint's id."""
    severity: Literal["E", "W"]
    what: str
    """The headline: which claim, of whom, in which turn."""
    where: str
    """``file:line:column`` of the claim, or of the turn."""
    path: tuple[str | int, ...] = ()
    """The claim's place in the scenario's document."""
    turn: int = 0
    """Counted from 1; 0 where it is about the whole run."""
    agent: str = ""
    call: int | None = None
    """The agent's model call in the turn, from 0."""
    differences: tuple[Difference, ...] = ()
    """Only what differs."""
    context: tuple[str, ...] = ()
    """Lines that explain: provenance, what was dropped and by which filter, what was near."""
    excerpt: str = ""
    """The scenario's own lines."""
    fix: str = ""
    breaks: bool = False
    """The scenario itself is at fault: exit 2, not 1."""
    follows: str = ""
    """The place and headline of the finding that kept this claim from being reached."""

    @property
    def place_and_what(self) -> str:
        """What those that follow from it name it by."""
        return f"{self.where}: {self.what}"


class FindingList(tuple[Finding, ...]):
    """Findings, of which one may ask by a lint's id whether it is among them."""

    __slots__ = ()

    def __contains__(self, item: object) -> bool:
        return self.count(item) > 0

    def count(self, item: object) -> int:
        """Return how many there are of a lint, or how often there is this finding."""
        if not isinstance(item, str):
            return super().count(item)
        if item not in (CLAIM, *LINTS):
            nearest = near(item, LINTS)
            hint = f"; did you mean `{nearest}`?" if nearest else ""
            raise ValueError(f"unknown lint `{item}`{hint}")
        return sum(finding.id == item for finding in self)


class Hit(msgspec.Struct, frozen=True, gc=False):
    """What a lint saw, before the scenario says whether that was meant."""

    id: str
    what: str
    """One sentence: who, what, where."""
    turn: int
    agent: str = ""
    call: int | None = None
    severity: Literal["E", "W"] | None = None
    """Where it differs from the catalogue's."""
    data: Mapping[str, JsonValue] = {}
    """More that a claim under ``findings`` may name."""
    path: tuple[str | int, ...] = ()
    """The place in the scenario that it speaks of, if there is one."""
    breaks: bool = False
    """The scenario itself is at fault: exit 2, not 1."""

    def fields(self) -> dict[str, JsonValue]:
        """Return what a claim under ``findings`` sees."""
        return {
            "id": self.id,
            "turn": self.turn,
            "what": self.what,
            **({"agent": self.agent} if self.agent else {}),
            **({"call": self.call} if self.call is not None else {}),
            **self.data,
        }
