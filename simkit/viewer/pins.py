"""The event of the timeline at which a finding is pinned: where it happened, not where it was seen.

A finding names the event that it concerns, or a model call. One that names neither is of an agent's
last call, or of a turn: pinned at the error that ended it, else at its last call.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from simkit.checks.findings import CLAIM, Finding
from simkit.trace import events as e
from simkit.viewer.document import CallData, MarkData

_ENDS: Final = (e.TurnFinished, e.RunFinished)
_CLAIMS: Final = "expect"


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
        is_ending = finding.id == CLAIM and _CLAIMS not in finding.path
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
