"""Lints on the run itself: does the script fit, and is everything under control?"""

from __future__ import annotations

from collections.abc import Iterable

from simkit import events as e
from simkit.expect.findings import Hit
from simkit.views import TurnView, View
from simkit.words import counted


class ScriptMismatch:
    """RUN-01: every reply line is used by its agent, and nothing is asked that has no line.

    Lines of an agent that made no model call break the scenario (its script is for another flow),
    unless an error ended the turn before. Where a call found no line that fits, the lines left
    over are not reported as well.
    """

    id = "RUN-01"
    kinds: tuple[type, ...] = (e.ModelFailed, e.TurnFinished)

    def __init__(self) -> None:
        self._missing: list[e.ModelFailed] = []

    def look(self, event: e.ModelFailed | e.TurnFinished, view: View) -> Iterable[Hit]:
        """Waits for the end of the turn, which tells what was not used."""
        if isinstance(event, e.ModelFailed):
            if event.error == "no_reply_line":
                self._missing.append(event)
            return ()
        if not event.unused and not self._missing:
            return ()
        missing, self._missing = self._missing, []
        turn = view.turns[-1]
        unused = {left.agent for left in event.unused}
        hits = [self._of_missing(failed, view, failed.agent in unused) for failed in missing]
        asked = {failed.agent for failed in missing}
        hits += [
            self._of_unused(left, turn, event.error is not None)
            for left in event.unused
            if left.agent not in asked
        ]
        return hits

    def _of_missing(self, event: e.ModelFailed, view: View, has_unused: bool) -> Hit:
        index = view.calls[event.call].index
        path: tuple[str | int, ...] = ("turns", event.turn - 1)
        if index or has_unused:
            path = (*path, "replies", event.agent)
        return Hit(self.id, event.message, event.turn, event.agent, index, path=path)

    def _of_unused(self, left: e.UnusedLines, turn: TurnView, failed: bool) -> Hit:
        agent, number = left.agent, turn.number
        lines = counted(len(left.lines), "reply line")
        which = ", ".join(f"[{line}]" for line in left.lines)
        one = "it" if len(left.lines) == 1 else "them"
        if left.calls:
            unused = counted(len(left.lines), "unused reply line")
            calls = counted(left.calls, "model call")
            what = (
                f"agent {agent!r} has {unused} in turn {number}: {which}. "
                f"It made {calls}. Remove {one}, or let the agent be asked again."
            )
        elif any(run.agent == agent for run in turn.runs):
            what = (
                f"agent {agent!r} made no model call in turn {number}, but has {lines}. "
                f"Remove {one}, or let the agent ask a model."
            )
        else:
            what = (
                f"agent {agent!r} never ran in turn {number}, but has {lines}. "
                f"Remove {one}, or route the turn to the agent."
            )
        path = ("turns", number - 1, "replies", agent)
        data = {"lines": list(left.lines), "calls": left.calls}
        breaks = not left.calls and not failed
        return Hit(self.id, what, number, agent, data=data, path=path, breaks=breaks)


class Uncontrolled:
    """RUN-02: user code reaches no clock, chance, thread or network that is not controlled.

    The list of what is not deterministic is Temporal's.
    """

    id = "RUN-02"
    kinds: tuple[type, ...] = (e.UncontrolledEffect,)

    def look(self, event: e.UncontrolledEffect, view: View) -> Iterable[Hit]:
        """Reports every effect."""
        who = f"agent {event.agent!r}" if event.agent else "the pipeline"
        when = f" in turn {event.turn}" if event.turn else ""
        what = f"{who} reached {event.effect} at {event.where}{when}"
        data = {"effect": event.effect, "where": event.where}
        return (Hit(self.id, what, event.turn, event.agent, data=data),)
