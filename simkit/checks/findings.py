"""A finding: one claim or lint that does not hold. It is a value, not an exception."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from simkit.core.messages import JsonValue
from simkit.language.yaml import near
from simkit.spec.lint_catalogue import LINTS
from simkit.trace import events as e
from simkit.trace.views import CallView

CLAIM: Final = "claim"
"""The id of findings of claims."""


class Difference(
    msgspec.Struct, frozen=True, gc=False, rename={"expected": "wanted", "actual": "found"}
):
    """One difference of an actual from an expected value (`wanted` and `found` in JSON)."""

    at: str
    """The path below the claim; empty for the claim itself."""
    expected: str
    actual: str
    note: str = ""


class Finding(msgspec.Struct, frozen=True, gc=False):
    """One claim that fails, or one hit of a lint."""

    id: str
    """``claim``, or the lint's id."""
    severity: Literal["E", "W"]
    what: str
    """The headline: the claim, the agent, the turn."""
    where: str
    """``file:line:column`` of the claim, or of the turn."""
    path: tuple[str | int, ...] = ()
    """The claim's place in the scenario's document."""
    turn: int = 0
    """The turn, counted from 1; 0 for the whole run."""
    agent: str = ""
    call: int | None = None
    """The index of the agent's model call in the turn; None if it concerns no call."""
    differences: tuple[Difference, ...] = ()
    """The differences only."""
    context: tuple[str, ...] = ()
    """Lines that explain it: provenance, dropped messages with their filters, near misses."""
    excerpt: str = ""
    """The scenario's own lines."""
    fix: str = ""
    breaks: bool = False
    """Whether the scenario itself is wrong: exit 2, not 1."""
    follows: str = ""
    """The place and headline of the finding that caused this one; empty if none did."""
    event: int | None = None
    """The index in the trace of the event that it concerns; None if it concerns no single one."""

    @property
    def place_and_what(self) -> str:
        """Return the text by which its consequences name it."""
        return f"{self.where}: {self.what}"


class FindingList(tuple[Finding, ...]):
    """A tuple of findings; ``in`` and ``count`` also take a lint's id."""

    __slots__ = ()

    def __contains__(self, item: object) -> bool:
        return self.count(item) > 0

    def count(self, item: object) -> int:
        """Return the number of findings of a lint, or of equal findings."""
        if not isinstance(item, str):
            return super().count(item)
        if item not in (CLAIM, *LINTS):
            nearest = near(item, LINTS)
            hint = f"; did you mean `{nearest}`?" if nearest else ""
            raise ValueError(f"unknown lint `{item}`{hint}")
        return sum(finding.id == item for finding in self)


class Hit(msgspec.Struct, frozen=True, gc=False):
    """One hit of a lint, before the scenario's waivers and claims."""

    id: str
    what: str
    """One sentence: agent, problem, place."""
    turn: int
    agent: str = ""
    call: int | None = None
    severity: Literal["E", "W"] | None = None
    """The severity if it differs from the catalogue's; else None."""
    data: Mapping[str, JsonValue] = {}
    """Further fields for claims under ``findings``."""
    path: tuple[str | int, ...] = ()
    """The place in the scenario that it concerns; empty if there is none."""
    breaks: bool = False
    """Whether the scenario itself is wrong: exit 2, not 1."""
    event: int | None = None
    """The index in the trace of the event at which it was found."""

    @classmethod
    def at(
        cls,
        id: str,
        source: e.Event | CallView,
        what: str,
        /,
        *,
        agent: str | None = None,
        is_warning: bool = False,
        **data: JsonValue,
    ) -> Hit:
        """Return a hit at an event or a call, of its agent if no other is named.

        ``data`` are further fields for claims under ``findings``.
        """
        call = source.index if isinstance(source, CallView) else None
        agent = source.agent if agent is None else agent
        return cls(id, what, source.turn, agent, call, "W" if is_warning else None, data)

    def fields(self) -> dict[str, JsonValue]:
        """Return the fields for claims under ``findings``."""
        return {
            "id": self.id,
            "turn": self.turn,
            "what": self.what,
            **({"agent": self.agent} if self.agent else {}),
            **({"call": self.call} if self.call is not None else {}),
            **self.data,
        }
