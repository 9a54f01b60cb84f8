"""Grouping of findings by cause: consequences are listed under their cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from simkit.checks.findings import CLAIM, Finding
from simkit.core.text import counted


class Group(NamedTuple):
    """One finding with its consequences."""

    cause: Finding
    following: tuple[Finding, ...] = ()

    @property
    def headline(self) -> str:
        """Return the headline of the consequences: ``9 claims were not reached``."""
        count = len(self.following)
        if all(finding.id == CLAIM for finding in self.following):
            were = "was" if count == 1 else "were"
            return f"{counted(count, 'claim')} {were} not reached"
        follow = "follows" if count == 1 else "follow"
        return f"{counted(count, 'more finding')} {follow} from it"


def grouped(findings: Sequence[Finding]) -> list[Group]:
    """Return the findings in order, each with its consequences."""
    named = {finding.place_and_what for finding in findings if not finding.follows}
    following: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.follows in named:
            following.setdefault(finding.follows, []).append(finding)
    # Two findings may have the same text: the first of them lists the consequences.
    return [
        Group(finding, tuple(following.pop(finding.place_and_what, ())))
        for finding in findings
        if finding.follows not in named
    ]
