"""Claims that were not reached, each with the finding that says why."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from simkit.expect.findings import CLAIM, Finding
from simkit.expect.lint_claims import ERRORS
from simkit.views import View


def with_causes(findings: Sequence[Finding], view: View) -> list[Finding]:
    """Returns the findings; claims on agents that did not run name what kept them from running.

    That is a line that the agent was to say, an error that ended the turn, or the turn's claim on
    who runs. Where nothing says why, the claim stands for itself.
    """
    by_turn: dict[int, list[Finding]] = {}
    for finding in findings:
        by_turn.setdefault(finding.turn, []).append(finding)
    ran = {turn.number: {run.agent for run in turn.runs} for turn in view.turns}
    ended_by = {
        turn.number: ERRORS.get(turn.error.type, "")
        for turn in view.turns
        if turn.error is not None
    }
    found = []
    for finding in findings:
        if _is_of_a_run(finding) and finding.agent not in ran.get(finding.turn, {finding.agent}):
            cause = _cause(finding, by_turn[finding.turn], ended_by.get(finding.turn, ""))
            if cause is not None:
                finding = replace(finding, follows=cause.place_and_what)
        found.append(finding)
    return found


def _is_of_a_run(finding: Finding) -> bool:
    """Whether it is a claim on one agent's runs or contexts in one turn."""
    is_claim = finding.id == CLAIM and not finding.follows
    return is_claim and bool(finding.agent) and finding.path[3:4] in (("context",), ("runs",))


def _cause(claim: Finding, others: Sequence[Finding], lint: str) -> Finding | None:
    """Returns what kept the claim's agent from running, the nearest reason first.

    ``lint`` is the one that tells of the error with which the turn ended, if it has one.
    """
    stopped = [one for one in others if lint and one.id == lint]
    unsaid = [one for one in others if one.id == "RUN-01" and one.agent == claim.agent]
    ended = [one for one in others if one.id == CLAIM and one.path == claim.path[:2]]
    expected = [one for one in others if one.id == CLAIM and one.path[2:4] == ("expect", "agents")]
    return next(iter([*ended, *stopped, *unsaid, *expected]), None)
