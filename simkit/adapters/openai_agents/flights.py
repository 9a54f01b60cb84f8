"""Calls of ``Runner.run``, told as agents at work: who starts and ends, who hands over to whom."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import agents
import msgspec
from agents.exceptions import (
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)

from simkit import events as e
from simkit.adapters.activations import Asked, Run
from simkit.adapters.beside import Beside
from simkit.adapters.endings import ending
from simkit.adapters.handoff_calls import asked_for_by
from simkit.adapters.held_state import HeldState
from simkit.adapters.openai_agents.names import Names, taken_by
from simkit.adapters.pilots import Cockpit
from simkit.adapters.plain_texts import plain_or_text
from simkit.adapters.plain_values import fields_of
from simkit.adapters.sync_loops import Loops
from simkit.messages import JsonValue, Message
from simkit.wire.openai_parts import arguments_of

IGNORED: Final = "Multiple handoffs detected, ignoring this one."
"""What the SDK answers to every handoff call of a message but the first."""
CONTEXT: Final = "context"
"""The channel of a context object that has no fields."""


Filtered: TypeAlias = tuple[Sequence[Message], Sequence[Message], str]
"""A history, what became of it, and the filter's name."""


class Flight:
    """One call of ``Runner.run``; whoever of its agents is at work is its ``run``."""

    __slots__ = ("context", "filters", "open_tools", "parent", "run", "said")

    def __init__(self, parent: Flight | None, said: JsonValue, context: Any) -> None:
        self.parent, self.said, self.context = parent, said, context
        self.run: Run | None = None
        self.open_tools: dict[int, Asked] = {}
        """Tools at work that are no functions, by identity."""
        self.filters: list[Filtered] = []
        """What filters made of the history that whoever takes over next is shown."""

    @property
    def outer(self) -> Run | None:
        """The activation whose code made the call."""
        return self.parent.run if self.parent is not None else None


class FlightLog:
    """Writes down the flights of one scenario."""

    def __init__(self, cockpit: Cockpit) -> None:
        self.cockpit, self.scribe, self.writing = cockpit, cockpit.scribe, cockpit.writing
        self.names, self.loops = Names(self.scribe.handoff_tools.ruled), Loops()
        self._state, self._beside = HeldState(self.scribe), Beside[Flight](self.scribe)
        self.next_number = itertools.count(1).__next__
        """Returns what stands for something that is drawn anew each time."""
        self._told: BaseException | None = None
        """The exception that was written down last: it passes through outer flights too."""

    def clear(self) -> None:
        """Forgets flights that the last turn left open, and what it raised."""
        self._beside.clear()
        self._told = None

    # Flights

    def began(self, parent: Flight | None, agent: Any, said: Any, context: Any) -> Flight:
        """``Runner.run`` is called, by the code of another flight or by the pipeline's own."""
        if isinstance(context, agents.RunContextWrapper):
            context = context.context
        flight = Flight(parent, _words_of(said), context)
        with self.writing():
            self.names.meet(agent)
            self._beside.began(flight, parent)
            self.look(flight)
        return flight

    def ended(self, flight: Flight, result: Any) -> None:
        """It has returned. Whoever is at work then without an output was stopped."""
        with self.writing():
            self.look(flight)
            self._tell_refusals(flight, result)
            waits = [one for one in result.interruptions or () if flight.run is not None]
            if waits and flight.parent is None and flight.run is not None:
                self.scribe.interrupted(flight.run, [_approval(one) for one in waits])
            otherwise = "cancelled" if result.final_output is None else "done"
            self._close(flight, "interrupted" if waits else otherwise)

    def failed(self, flight: Flight, problem: BaseException) -> None:
        """It has raised."""
        with self.writing():
            self.look(flight)
            if problem is not self._told:
                self._told = problem
                name, reason = _tripwire(problem)
                if name:
                    self._trip(name, reason, flight.run)
            self._close(flight, ending(problem, InputGuardrailTripwireTriggered))

    def _close(self, flight: Flight, status: str) -> None:
        self._beside.ended(flight)
        if flight.run is not None:
            self.scribe.end_run(flight.run, status)

    def _tell_refusals(self, flight: Flight, result: Any) -> None:
        """Guardrails of tools may refuse a call, or its result, and let the run go on."""
        for found in (*result.tool_input_guardrail_results, *result.tool_output_guardrail_results):
            behavior = found.output.behavior
            if behavior["type"] == "reject_content":
                self._trip(found.guardrail.get_name(), behavior["message"], flight.run)

    # Agents

    def agent_started(self, flight: Flight, agent: Any) -> None:
        """An agent goes to work: the flight's first, or the target of a handoff."""
        with self.writing():
            self._start(flight, agent)
            self.look(flight)

    def _start(self, flight: Flight, agent: Any) -> None:
        if flight.run is not None:
            self.scribe.end_run(flight.run)
        is_first, outer = flight.run is None, flight.outer
        flight.run = self.scribe.begin_run(
            self.names.of(agent), flight.said if is_first else None,
            group=self._beside.starts(flight), parent=outer.id if outer is not None else "",
            channels=_channels_of(flight),
        )  # fmt: skip
        for before, after, by in flight.filters:
            self.scribe.filtered(flight.run, before, after, by, lasting=True)
        flight.filters.clear()

    def asks(self, flight: Flight, agent: Any) -> None:
        """An agent asks its model; one whose run was resumed from a stored state starts so."""
        with self.writing():
            if flight.run is None or flight.run.is_over:
                self._start(flight, agent)
            self.scribe.handoff_tools.see(tool.name for tool in agent.tools)
            self.scribe.handoff_tools.learn(self.names.handoffs_of(agent))
            self.scribe.handoff_tools.take(taken_by(agent))

    def agent_ended(self, flight: Flight, output: Any) -> None:
        """An agent has put out what the flight ends with."""
        with self.writing():
            self.look(flight)
            if flight.run is not None:
                self.scribe.end_run(flight.run, output=plain_or_text(output))

    def handed_off(self, flight: Flight, target: Any) -> None:
        """Control passes; a message's other requests to pass it do not come true."""
        with self.writing():
            self.look(flight)
            run = flight.run
            if run is None:
                return
            to = self.names.of(target)
            mine = asked_for_by(run, self.scribe.requested)
            made = next((one for one in mine if one.to_agent == to), None)
            for one in mine:
                if one is not made:
                    self.scribe.refused(one, IGNORED)
            if made is None:
                self.scribe.hand_over(run.agent, to, run=run)
            self.scribe.end_run(run, "handed_off")

    def passed_on(
        self, flight: Flight, before: Sequence[Message], after: Sequence[Message], by: str
    ) -> None:
        """A filter made the history of whoever takes over, who is not at work yet."""
        flight.filters.append((before, after, by))

    def shown(
        self, flight: Flight, agent: Any, before: Sequence[Message], after: Sequence[Message],
        by: str,
    ) -> None:  # fmt: skip
        """A filter made what an agent's model is sent next."""
        with self.writing():
            if flight.run is None or flight.run.is_over:
                self._start(flight, agent)
            if flight.run is not None:
                self.scribe.filtered(flight.run, before, after, by)

    def _trip(self, guardrail: str, reason: str, run: Run | None) -> None:
        agent = run.agent if run is not None else ""
        self.scribe.sink.emit(e.GuardrailTripped(*self.scribe.at(agent, run), guardrail, reason))

    # State

    def look(self, flight: Flight) -> None:
        """Writes down what the context object holds that it did not at the last look."""
        self._state.look(flight.context, CONTEXT, flight.run or flight.outer)

    def store_read(self, flight: Flight | None, session: Any) -> None:
        """A session's items were read."""
        run = flight.run if flight is not None else None
        with self.writing():
            self.scribe.read(session.session_id, "session", run.agent if run else "", run)

    def store_written(self, flight: Flight | None, session: Any) -> None:
        """Items were added to a session."""
        run = flight.run if flight is not None else None
        with self.writing():
            self.scribe.stored(session.session_id, "session", run.agent if run else "", run)


def _channels_of(flight: Flight) -> tuple[str, ...] | None:
    """Returns what a nested flight's agents can read, where their context object is their own."""
    outer = flight.parent
    if outer is None or flight.context is None or flight.context is outer.context:
        return None
    return tuple(name for name, _ in fields_of(flight.context, CONTEXT))


def _words_of(said: Any) -> JsonValue:
    """Returns what a flight was asked: of a list of items the latest user message."""
    if isinstance(said, str):
        return said
    if isinstance(said, list):
        for item in reversed(said):
            if isinstance(item, dict) and item.get("role") == "user":
                content = item.get("content")
                return content if isinstance(content, str) else plain_or_text(content)
    return None


def _tripwire(problem: BaseException) -> tuple[str, str]:
    """Returns name and reason of the guardrail that raised an exception; empty for none."""
    if isinstance(problem, (InputGuardrailTripwireTriggered, OutputGuardrailTripwireTriggered)):
        found = problem.guardrail_result
        info = found.output.output_info
        return found.guardrail.get_name(), "" if info is None else _text(plain_or_text(info))
    if isinstance(
        problem, (ToolInputGuardrailTripwireTriggered, ToolOutputGuardrailTripwireTriggered)
    ):
        info = problem.output.output_info
        return problem.guardrail.get_name(), "" if info is None else _text(plain_or_text(info))
    return "", ""


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _approval(item: Any) -> JsonValue:
    """Returns a tool call that waits for somebody's approval."""
    args = arguments_of(item.arguments or "")
    return {"tool": item.tool_name, "args": args, "agent": item.agent.name}
