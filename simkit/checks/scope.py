"""The scope of claims: one turn, or the whole run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from simkit.spec.scenario.claims import Expect
from simkit.trace import events as e
from simkit.trace.views import CallView, HandoffView, RunView, ToolView, TurnView, View

Path = tuple[str | int, ...]


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a trace that claims concern, and the path of the claims."""

    view: View
    """The view of the whole trace."""
    path: Path
    """The claims' place in the scenario's document."""
    expect: Expect
    turn: int
    """The turn's number from 1; 0 for the whole run."""
    runs: Sequence[RunView]
    calls: Mapping[str, Sequence[CallView]]
    """Agent to its model calls."""
    handoffs: Sequence[HandoffView]
    tools: Sequence[ToolView]
    span: slice
    """The places of its events."""
    reply: Any
    error: e.ErrorFacts | None
    interrupt: Any
    turn_view: TurnView | None = None
    """The turn; None for the whole run."""

    @property
    def all_calls(self) -> Sequence[CallView]:
        """The model calls of all agents."""
        return [call for calls in self.calls.values() for call in calls]

    @property
    def replying_run(self) -> RunView | None:
        """The run whose output is the reply: the last finished one with an output."""
        finished = [run for run in self.runs if run.finished and run.output is not None]
        return max(finished, key=lambda run: run.finished_at, default=None)

    @property
    def state(self) -> Mapping[str, Any]:
        """The channels after the turn, or after the run."""
        return self.view.state_at_end() if self.turn_view is None else self.turn_view.state

    @property
    def updates(self) -> Sequence[e.StateUpdated]:
        """The updates of channels."""
        turns = self.view.turns if self.turn_view is None else [self.turn_view]
        return [update for turn in turns for update in turn.updates]

    @property
    def events(self) -> Sequence[e.AnyEvent]:
        """The events of the scope."""
        return self.view.events[self.span]

    @property
    def pipeline(self) -> e.PipelineFacts:
        """The pipeline that ran."""
        return self.view.pipeline

    @property
    def driver(self) -> str:
        """The name of the driver; empty if the trace has none."""
        return self.view.started.driver if self.view.started is not None else ""

    @property
    def words(self) -> str:
        """Return ``in turn 2``, or ``in the whole run``."""
        return f"in turn {self.turn}" if self.turn else "in the whole run"

    def can_observe(self, aspect: str) -> bool:
        """Return whether the driver observes ``sections``, ``state``, ``runs`` or ``handoffs``."""
        facts = self.view.pipeline
        if aspect == "filters" and self.can_observe("sections"):
            return True
        if aspect in facts.unseen:
            return False
        if aspect == "state" and not facts.channels and self.state:
            return True  # The code itself has reported some.
        return aspect in facts.observes


def scope_of_turn(turn: TurnView, index: int, expect: Expect, view: View) -> Scope:
    """Return the scope of one turn's claims."""
    return Scope(
        view=view, path=("turns", index, "expect"), expect=expect, turn=turn.number,
        runs=turn.runs, calls=turn.calls_by_agent, handoffs=turn.handoffs,
        tools=turn.tools, span=slice(turn.lo, turn.hi), turn_view=turn,
        reply=turn.reply, error=turn.error, interrupt=turn.interrupt,
    )  # fmt: skip


def scope_of_run(expect: Expect, view: View) -> Scope:
    """Return the scope of the claims at the top level."""
    turns, calls = view.turns, dict[str, list[CallView]]()
    for turn in turns:
        for agent, its_calls in turn.calls_by_agent.items():
            calls.setdefault(agent, []).extend(its_calls)
    last = turns[-1] if turns else None
    return Scope(
        view=view, path=("expect",), expect=expect, turn=0,
        runs=[run for turn in turns for run in turn.runs], calls=calls,
        handoffs=[handoff for turn in turns for handoff in turn.handoffs],
        tools=[tool for turn in turns for tool in turn.tools], span=slice(None),
        reply=last.reply if last else None, error=view.error,
        interrupt=last.interrupt if last else None,
    )  # fmt: skip
