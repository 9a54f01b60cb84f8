"""A finding: one claim or lint that does not hold. It is a value, not an exception."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from simkit.core.messages import JsonValue
from simkit.core.text import guess
from simkit.spec.lint_catalogue import LINTS
from simkit.spec.scenario.claims import Expect
from simkit.trace import events as e
from simkit.trace.views import CallView, HandoffView, RunView, ToolView, TurnView, View

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
    code: str = ""
    """The application's line that sent the call's request, or the last one of the run before the
    event; empty if nobody knows it."""

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
            raise ValueError(f"unknown lint `{item}`{guess(item, LINTS, '; did you mean `{}`?')}")
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


# The scope of claims: one turn, or the whole run.


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
