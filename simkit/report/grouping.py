"""Findings by their causes: what follows from another finding stands under it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from simkit.checks.findings import CLAIM, Finding
from simkit.core.text import counted


class Group(NamedTuple):
    """One finding, and those that follow from it."""

    cause: Finding
    following: tuple[Finding, ...] = ()

    @property
    def headline(self) -> str:
        """Return the words above those that follow: ``9 claims were not reached``."""
        count = len(self.following)
        if all(finding.id == CLAIM for finding in self.following):
            were = "was" if count == 1 else "were"
            return f"{counted(count, 'claim')} {were} not reached"
        follow = "follows" if count == 1 else "follow"
        return f"{counted(count, 'more finding')} {follow} from it"


def grouped(findings: Sequence[Finding]) -> list[Group]:
    """Return the findings in their order, each with those that follow from it."""
    named = {finding.place_and_what for finding in findings if not finding.follows}
    following: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.follows in named:
            following.setdefault(finding.follows, []).append(finding)
    # Two findings may read alike: the first of them lists what follows.
    return [
        Group(finding, tuple(following.pop(finding.place_and_what, ())))
        for finding in findings
        if finding.follows not in named
    ]
