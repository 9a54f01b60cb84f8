"""Where the page shows findings: at an event of the timeline, and at a line of the scenario's file.

A finding is pinned where it happened, not where it was seen. It names the event that it concerns,
or a model call. One that names neither is of an agent's last call, or of a turn: pinned at the
error that ended it, else at its last call.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from simkit.checks.findings import CLAIM, Finding
from simkit.language.yaml import Document
from simkit.language.yaml.nodes import SourcePath
from simkit.report.results import Result
from simkit.trace import events as e
from simkit.viewer.document import CallData, ClaimLine, MarkData, difference_data

_ENDS: Final = (e.TurnFinished, e.RunFinished)
_EXPECT: Final = "expect"


class Pins:
    """Finds the mark of each finding."""

    def __init__(
        self,
        events: Sequence[e.AnyEvent],
        marks: Sequence[MarkData],
        event_indices: Sequence[int],
        calls: Sequence[CallData],
    ) -> None:
        """``event_indices`` are the indices of the marks' events, in order."""
        self._events, self._marks, self._places = events, marks, event_indices
        self._of_agent: dict[tuple[int, str], list[int]] = {}
        """Turn and agent to the marks of the agent's calls; an empty name is of all agents."""
        self._errors: dict[int, int] = {}
        """Turn to the mark of its error."""
        for index, mark in enumerate(marks):
            if mark.kind == "call":
                agent = calls[mark.ref].agent
                for key in ((mark.turn, agent), (0, agent), (mark.turn, ""), (0, "")):
                    self._of_agent.setdefault(key, []).append(index)
            elif mark.kind == "error":
                self._errors[mark.turn] = self._errors[0] = index

    def mark_of(self, finding: Finding) -> int:
        """Return the index of a finding's mark; -1 if nothing happened."""
        if not self._marks:
            return -1
        calls_of_agent = (
            self._of_agent.get((finding.turn, finding.agent), ()) if finding.agent else ()
        )
        if finding.call is not None and finding.call < len(calls_of_agent):
            return calls_of_agent[finding.call]
        if finding.event is not None and finding.event < len(self._events):
            event = self._events[finding.event]
            # A lint that reports at the end reports something earlier.
            if not isinstance(event, _ENDS) or event.error is not None:
                return self._near(finding.event)
        if calls_of_agent:
            return calls_of_agent[-1]
        return self._of_turn(finding)

    def _of_turn(self, finding: Finding) -> int:
        is_ending = finding.id == CLAIM and _EXPECT not in finding.path
        if is_ending and finding.turn in self._errors:
            return self._errors[finding.turn]
        calls = self._of_agent.get((finding.turn, ""))
        if calls:
            return calls[-1]
        turns = [index for index, mark in enumerate(self._marks) if mark.turn == finding.turn]
        return turns[-1] if turns else len(self._marks) - 1

    def _near(self, index: int) -> int:
        """Return the mark of an event, else the nearest one of its run: before it, then after."""
        marks, event = self._marks, self._events[index]
        at = bisect_left(self._places, index)
        if at < len(marks) and self._places[at] == index:
            return at
        steps = (range(at - 1, -1, -1), range(at, len(marks)))
        if event.run:
            for step in steps:
                for other in step:
                    if marks[other].turn != event.turn:
                        break
                    if marks[other].run == event.run:
                        return other
        return max(0, at - 1)


DEPTH: Final = 3
"""How far claims are separated: ``context``, its agent, its operator."""
NOT_RUN: Final = "the turn did not run"


def claim_lines(document: Document, result: Result) -> list[ClaimLine]:
    """Return the claims in the order of the file; those of a run that did not end are left out."""
    failing = _by_claim(result.findings)
    skipped = _by_claim(result.passed_over)
    lines: dict[tuple[int, str], ClaimLine] = {}
    for path in _claims(document.data):
        finding = _at(path, failing)
        state = "failing" if finding is not None else "held"
        if finding is None:
            finding = _at(path, skipped)
            state = "held" if finding is None else "skipped"
        differences = () if finding is None else difference_data(finding)
        reason = "" if finding is None else finding.what
        if finding is None and _turn_of(path) > result.turns:
            state, reason = "skipped", NOT_RUN
        words = ".".join(map(str, path))
        line = ClaimLine(_line_of(document, path), state, words, differences, reason)
        lines[line.line, words] = line
    if result.outcome in ("skipped", "broken"):
        return [line for line in lines.values() if line.state == "failing"]
    return sorted(lines.values(), key=lambda line: line.line)


def _by_claim(findings: Sequence[Finding]) -> dict[SourcePath, Finding]:
    """Return the findings of claims by path; a lint's finding at a turn is of no claim."""
    return {finding.path: finding for finding in reversed(findings) if _EXPECT in finding.path}


def _turn_of(path: SourcePath) -> int:
    """Return the number of a claim's turn, from 1; 0 for claims on the run."""
    index = path[1] if path[0] == "turns" else -1
    assert isinstance(index, int)
    return index + 1


def _line_of(document: Document, path: SourcePath) -> int:
    """Return the line of a claim's own key, below which its value may stand."""
    return int(document.position(path, key=True).rsplit(":", 2)[1])


def _claims(data: Mapping[str, Any]) -> Iterator[SourcePath]:
    turns = data.get("turns")
    for index, turn in enumerate(turns if isinstance(turns, Sequence) else ()):
        if isinstance(turn, Mapping) and isinstance(turn.get("expect"), Mapping):
            yield from _parts(turn["expect"], ("turns", index, "expect"), DEPTH)
    if isinstance(data.get("expect"), Mapping):
        yield from _parts(data["expect"], ("expect",), DEPTH)


def _parts(value: Mapping[str, Any], path: SourcePath, depth: int) -> Iterator[SourcePath]:
    for key, part in value.items():
        inner = (*path, key)
        if isinstance(part, Mapping) and part and depth > 1:
            yield from _parts(part, inner, depth - 1)
        else:
            yield inner


def _at(path: SourcePath, findings: Mapping[SourcePath, Finding]) -> Finding | None:
    """Return the finding of a claim: at its path, below it, or at a part of it."""
    for other, finding in findings.items():
        if other and (other[: len(path)] == path or path[: len(other)] == other):
            return finding
    return None
