"""The timeline of a run, turn by turn, one row for each call. Pure: view → rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from simkit.core.messages import Message, value_said
from simkit.core.text import short
from simkit.language.paths import as_text
from simkit.report.events import TEXTS, error_text
from simkit.report.wording import call_text, value_text
from simkit.trace import events as e
from simkit.trace.views import CallView, MadePart, View

SAID_MAX: Final = 400
"""The length of an answer in a row; a table shows less."""


FLOWS_WITH_INPUT: Final = ("graph", "supervisor")
"""Flows in which an agent's input is the output before it; in others it is the user's message."""


class Row(msgspec.Struct, frozen=True):
    """One model call; or a user message, given state, or an agent without a model."""

    turn: int
    """The turn, from 1; 0 before the first."""
    at: int
    """The virtual time in milliseconds."""
    agent: str
    """The agent; ``user``, ``given``, or ``error`` for an error of the pipeline."""
    messages: int | None = None
    """The number of messages in the context; None if no model was called."""
    tokens: int | None = None
    dropped: int | None = None
    """The number of messages that history sections dropped; None if no model was called."""
    answered: str = ""
    """Its message, and the results of its tools."""
    handoff: str = ""
    wrote: tuple[str, ...] = ()
    """The channels written after the answer, in order."""
    is_agent: bool = True
    input: str = ""
    """The run's input, in its first row; only in flows from output to input."""


class _Draft:
    """A row that still grows: answers, handoffs and writes come after the call."""

    def __init__(
        self, event: e.Event, agent: str, call: CallView | None = None, detail: str = ""
    ) -> None:
        self.turn, self.at, self.agent, self.call = event.turn, event.at, agent, call
        self.input = detail
        self.answered: list[str] = []
        self.handoffs: list[str] = []
        self.wrote: dict[str, None] = {}
        self.is_agent = bool(event.run)

    def row(self) -> Row:
        """Return the row as it is now."""
        context = self.call.context if self.call else None
        return Row(
            self.turn,
            self.at,
            self.agent,
            len(context.messages) if context else None,
            context.tokens if context else None,
            dropped_count(self.call) if self.call else None,
            short(" ".join(self.answered), SAID_MAX),
            ", ".join(self.handoffs),
            tuple(self.wrote),
            self.is_agent,
            short(self.input, SAID_MAX),
        )


def dropped_count(call: CallView) -> int:
    """Return the number of messages that a call's history sections did not show."""
    count = 0
    for part in call.context.parts:
        if not isinstance(part, MadePart):
            count += part.cuts_hi + len(part.tail_cuts) + min(part.lo, part.hi + len(part.tail))
    return count


def rows_of(view: View) -> list[Row]:
    """Return the rows of a whole run, in the order of the calls."""
    return _Timeline(view).rows()


class _Timeline:
    def __init__(self, view: View) -> None:
        self._view = view
        self._drafts: list[_Draft] = []
        self._latest: dict[str, _Draft] = {}
        """Agent run to its newest row."""
        self._tools: dict[str, tuple[_Draft, int]] = {}
        """Tool call to the row, and the index in it, for its result."""
        self._many_sessions = len(view.states) > 1
        self._shows_input = view.pipeline.flow in FLOWS_WITH_INPUT

    def rows(self) -> list[Row]:
        """Process every event with the method for its kind, if there is one; return the rows."""
        for event in self._view.events:
            row = _ROWS.get(type(event))
            if row is not None:
                self._add(event, row).answered.append(TEXTS[type(event)](event))
            handler = getattr(self, f"on_{type(event).__name__}", None)
            if handler is not None:
                handler(event)
        return [draft.row() for draft in self._drafts]

    def _add(self, event: e.Event, agent: str, call: CallView | None = None) -> _Draft:
        draft = _Draft(event, agent, call, self._input(event))
        self._drafts.append(draft)
        if event.run:
            self._latest[event.run] = draft
        return draft

    def _input(self, event: e.Event) -> str:
        """Return a run's input, if this is its first row."""
        run = self._view.runs.get(event.run) if event.run not in self._latest else None
        if run is None or not self._shows_input:
            return ""
        return as_text(self._view.resolved(run.input))

    def _of_run(self, event: e.Event) -> _Draft:
        """Return the newest row of the event's run; a run without model calls gets one now."""
        latest = self._latest.get(event.run)
        return latest if latest is not None else self._add(event, self._name(event))

    def _name(self, event: e.Event) -> str:
        run = self._view.runs.get(event.run)
        return f"∥ {event.agent}" if run is not None and run.group else event.agent

    def on_TurnStarted(self, event: e.TurnStarted) -> None:
        message = self._view.messages.get(event.message)
        row = self._add(event, f"user ({event.session})" if self._many_sessions else "user")
        if message is not None:
            row.answered.append(message.content)

    def on_ContextBuilt(self, event: e.ContextBuilt) -> None:
        self._add(event, self._name(event), self._view.calls[event.call])

    def on_ModelReplied(self, event: e.ModelReplied) -> None:
        message = self._view.messages.get(event.message)
        if message is not None:
            self._say(self._of_run(event), message)

    def _say(self, row: _Draft, message: Message) -> None:
        value = value_said(message)
        if value is not None:
            row.answered.append(value_text(value))
        elif message.content:
            row.answered.append(message.content)
        for call in message.calls:
            if not call.is_handoff:
                self._tools[call.id] = row, len(row.answered)
                row.answered.append(call_text(call))

    def on_ModelFailed(self, event: e.ModelFailed) -> None:
        # The turn's error, or a later event, says more.
        self._of_run(event).answered.append(event.error)

    def on_ToolReturned(self, event: e.ToolReturned) -> None:
        self._answer(event.call_id, value_text(event.result))

    def on_ToolFailed(self, event: e.ToolFailed) -> None:
        self._answer(event.call_id, f"failed: {event.error}")

    def _answer(self, call_id: str, text: str) -> None:
        if call_id in self._tools:
            row, index = self._tools[call_id]
            row.answered[index] += f" → {text}"

    def on_HandoffMade(self, event: e.HandoffMade) -> None:
        self._of_run(event).handoffs.append(f"{event.mode} → {event.to_agent}")

    def on_HandoffRejected(self, event: e.HandoffRejected) -> None:
        row = self._of_run(event)
        row.handoffs.append(f"rejected → {event.to_agent}")
        row.answered.append(event.reason)

    def on_StateUpdated(self, event: e.StateUpdated) -> None:
        if event.run:
            row = self._of_run(event)
        elif event.cause == "user" and self._drafts and self._drafts[-1].turn == event.turn:
            row = self._drafts[-1]
        else:
            row = self._add(event, event.cause)
        row.wrote.update(dict.fromkeys(event.update))

    def on_TurnInterrupted(self, event: e.TurnInterrupted) -> None:
        row = self._of_run(event) if event.run else self._add(event, "interrupt")
        # The model's message is the question, which is shown once.
        row.answered = [text for text in row.answered if text != as_text(event.question)]
        row.answered.append(f"asks the user: {as_text(event.question)}")

    def on_TurnResumed(self, event: e.TurnResumed) -> None:
        if self._drafts and self._drafts[-1].turn == event.turn:
            self._drafts[-1].answered.append(as_text(event.value))

    def on_AgentFinished(self, event: e.AgentFinished) -> None:
        row = self._of_run(event)
        if row.call is None:
            row.answered.append(as_text(self._view.resolved(event.output)))
        if event.status not in ("done", "handed_off", "interrupted"):
            row.answered.append(f"({event.status.replace('_', ' ')})")

    def on_TurnFinished(self, event: e.TurnFinished) -> None:
        if event.error is not None:
            row = self._add(event, "error")
            row.answered.append(error_text(event.error))


_ROWS: Final[Mapping[type, str]] = {
    e.LimitReached: "limit",
    e.GuardrailTripped: "guardrail",
    e.FaultInjected: "fault",
    e.ErrorLost: "error",
    e.JudgeAnswered: "judge",
    e.UncontrolledEffect: "uncontrolled",
}
"""Events with a row of their own, and the word in the column of agents."""


def selected(rows: Sequence[Row], turn: int | None = None, agent: str = "") -> list[Row]:
    """Return the rows of one turn, of one agent, or both; the user's rows stay with the agent's."""
    chosen = [row for row in rows if turn is None or row.turn == turn]
    if not agent:
        return chosen
    turns = {row.turn for row in chosen if row.agent.removeprefix("∥ ") == agent}
    return [
        row
        for row in chosen
        if row.agent.removeprefix("∥ ") == agent or (row.turn in turns and not row.is_agent)
    ]
