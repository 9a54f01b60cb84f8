"""Runs of agents and steps of graphs, told as activations: who starts and ends, inside whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from pydantic_ai import DeferredToolRequests, ToolDefinition
from pydantic_ai import messages as m
from pydantic_ai.exceptions import RunCancelled

from simkit import events as e
from simkit.adapters.activations import Run
from simkit.adapters.beside import Beside
from simkit.adapters.endings import ending
from simkit.adapters.handoff_calls import asked_for_by
from simkit.adapters.held_state import HeldState
from simkit.adapters.in_step import InStep
from simkit.adapters.pilots import Cockpit
from simkit.adapters.plain_texts import plain_or_text
from simkit.adapters.pydantic_ai.messages import args_of, as_message, reason_of, result_of
from simkit.adapters.pydantic_ai.names import Names
from simkit.adapters.sync_loops import Loops
from simkit.errors import RunHalted
from simkit.messages import JsonValue, Message, Usage
from simkit.wire.values import Offer

OUTPUT: Final = "output"
"""The guardrail that refuses output: the agent's output type, and its validators."""

Held: TypeAlias = tuple[tuple[Any, str], ...]
"""Objects whose fields are state, each with the channel's name if it has no fields."""


class Flight:
    """One run of an agent, or one step of a graph."""

    __slots__ = ("held", "is_over", "leaves", "name", "parent", "run", "said", "unheard")

    def __init__(
        self, parent: Flight | None, name: str, said: JsonValue, held: Held, leaves: Leaving | None
    ) -> None:
        """``leaves`` is the output of another agent's that this flight takes over from."""
        self.parent, self.name, self.said, self.held = parent, name, said, held
        self.leaves = leaves
        self.run: Run | None = None
        self.is_over = False
        self.unheard = 0
        """How many calls of its model were known when it was asked last."""

    @property
    def outer(self) -> Run | None:
        """The activation whose code runs the agent, or takes the step."""
        return self.parent.run if self.parent is not None else None


class Leaving:
    """An output that is handed to an output function: whom that calls, control passes to."""

    __slots__ = ("call_id", "flight", "is_used", "payload")

    def __init__(self, flight: Flight, payload: JsonValue, call_id: str) -> None:
        self.flight, self.payload, self.call_id = flight, payload, call_id
        self.is_used = False


class FlightLog:
    """Writes down the flights of one scenario."""

    def __init__(self, cockpit: Cockpit) -> None:
        self._cockpit = cockpit
        self.scribe, self.writing = cockpit.scribe, cockpit.writing
        self.names, self.loops = Names(), Loops()
        self.threads = InStep(thread_name_prefix="pydantic-ai")
        """Where functions that are not asynchronous run, one after another."""
        self._state, self._beside = HeldState(self.scribe), Beside[Flight](self.scribe)
        self.has_flown = False
        """Whether the framework was at work in this turn."""

    def clear(self) -> None:
        """Forgets the last turn, and what it left open."""
        self._beside.clear()
        self.has_flown = False

    def close(self) -> None:
        """Ends what was made for the framework."""
        self.threads.shutdown()
        self.loops.close()

    # Flights

    def began(
        self, parent: Flight | None, name: str, said: JsonValue, held: Held,
        leaving: Leaving | None = None,
    ) -> Flight:  # fmt: skip
        """An agent is run, or a step is taken, by the code of another one or the pipeline's own."""
        leaves = None
        if leaving is not None and leaving.flight is parent and not leaving.is_used:
            leaving.is_used, leaves = True, leaving
        flight = Flight(parent, name, said, held, leaves)
        with self.writing():
            if leaves is None:
                self._beside.began(flight, parent)
            self.has_flown = True
            self.look(flight)
        return flight

    def started(self, flight: Flight) -> None:
        """It goes to work; those that were begun beside it are known by now."""
        with self.writing():
            if flight.run is None or flight.run.is_over:
                self._start(flight)
            self.look(flight)

    def _start(self, flight: Flight) -> None:
        """Flights that were begun beside each other go to work together, however long it takes each
        of them to ask its model."""
        if flight.leaves is not None and flight.run is None:
            self._begin(flight, self._pass_control(flight, flight.leaves))
            return
        for one in self._beside.those_with(flight) or [flight]:
            self._begin(one, one.outer)

    def _begin(self, flight: Flight, outer: Run | None) -> None:
        flight.run = self.scribe.begin_run(
            flight.name, flight.said if flight.run is None else None,
            group=self._beside.starts(flight), parent=outer.id if outer is not None else "",
        )  # fmt: skip

    def _pass_control(self, flight: Flight, leaves: Leaving) -> Run | None:
        """Tells a handoff by an output function, if no rule has; returns the run around both."""
        source = leaves.flight
        if source.run is not None:
            if not asked_for_by(source.run, self.scribe.requested):
                query = flight.said if isinstance(flight.said, str) else None
                self.scribe.hand_over(
                    source.name, flight.name, leaves.payload, query=query, run=source.run,
                    call_id=leaves.call_id,
                )  # fmt: skip
            self.scribe.end_run(source.run, "handed_off")
        return source.outer

    def ended(self, flight: Flight, output: Any = None) -> None:
        """It is done."""
        with self.writing():
            self.look(flight)
            asked = _requests_in(output)
            if asked and flight.parent is None and flight.run is not None:
                self.scribe.interrupted(flight.run, [_question(one, flight) for one in asked])
            self._close(flight, "interrupted" if asked else "done", None if asked else output)

    def failed(self, flight: Flight, problem: BaseException) -> None:
        """It has raised."""
        with self.writing():
            self.look(flight)
            self._close(flight, ending(problem, RunCancelled))

    def _close(self, flight: Flight, status: str, output: Any = None) -> None:
        flight.is_over = True
        self._beside.ended(flight)
        if flight.run is not None and not flight.run.is_over:
            self.scribe.end_run(flight.run, status, plain_or_text(output))

    # Models

    def asks(
        self, flight: Flight, messages: Sequence[m.ModelMessage], output_tools: Sequence[str]
    ) -> None:
        """An agent is about to ask its model, which may give its output by some tools."""
        self.started(flight)
        run = flight.run
        if run is not None:
            run.output_tools, flight.unheard = output_tools, run.model_calls
        if messages:
            self._tell_unmade(flight, messages[-1])

    def _tell_unmade(self, flight: Flight, last: m.ModelMessage) -> None:
        """Some calls are answered though no tool was at work: they were denied, or refused."""
        tools = flight.run.output_tools if flight.run is not None else ()
        for part in last.parts:
            if isinstance(part, m.RetryFeedbackPart):
                self._refuse_output(flight, part.content)
            elif isinstance(part, m.ToolReturnPart):
                if part.outcome in ("denied", "interrupted"):
                    self._not_carried_out(part.tool_call_id)
                elif part.outcome == "retried" and part.tool_name in tools:
                    self._refuse_output(flight, part.content)
                elif part.outcome == "retried":
                    self._refuse_call(part.tool_call_id, part.model_response_str())

    def _refuse_output(self, flight: Flight, reason: Any) -> None:
        """What a model gave as output is refused, by its type or by a validator."""
        with self.writing():
            where = self.scribe.at(flight.name, flight.run)
            self.scribe.sink.emit(e.GuardrailTripped(*where, OUTPUT, reason_of(reason)))

    def _refuse_call(self, call_id: str, problem: str) -> None:
        """A call is refused before its tool is carried out."""
        with self.writing():
            asked = self.scribe.asked(call_id)
            if asked is not None and not asked.call.is_handoff:
                self.scribe.tool_answered(asked, error=problem)

    def filtered(
        self, flight: Flight, before: Sequence[Message], after: Sequence[Message], by: str,
        lasting: bool,
    ) -> None:  # fmt: skip
        """A function made another history of the one that the model would be sent."""
        with self.writing():
            if flight.run is not None:
                self.scribe.filtered(flight.run, before, after, by, lasting=lasting)

    def answered(
        self, flight: Flight, sent: Sequence[Message], tools: Sequence[str], model: str,
        response: m.ModelResponse,
    ) -> None:  # fmt: skip
        """A model has answered; what went over no wire is told here."""
        with self.writing():
            run = flight.run
            if run is None or run.model_calls != flight.unheard:
                return
            call = self.scribe.sent(run, sent, [*map(Offer, tools)], {"model": model})
            said = as_message(response)
            usage = Usage(response.usage.input_tokens, response.usage.output_tokens)
            self.scribe.replied(run, call, said, "calls" if said.calls else "text", usage)

    def heard(self, flight: Flight, response: m.ModelResponse) -> None:
        """A model has answered: calls that give its output are no tools at work."""
        tools = flight.run.output_tools if flight.run is not None else ()
        with self.writing():
            for part in response.parts:
                if isinstance(part, m.ToolCallPart) and part.tool_name in tools:
                    self._not_carried_out(part.tool_call_id)

    def _not_carried_out(self, call_id: str) -> bool:
        """Lets the answer to a call be no tool's; returns whether the call is known."""
        asked = self.scribe.asked(call_id)
        if asked is not None and not asked.is_told:
            asked.is_told = asked.is_answered = True
        return asked is not None

    def settled(self, flight: Flight, messages: Sequence[Any]) -> None:
        """A run has ended with ``messages``: what its model gave as output is answered."""
        last = messages[-1] if messages else None
        if not isinstance(last, m.ModelRequest):
            return
        with self.writing():
            for part in last.parts:
                # A call without a tool at work was the output, or came too late.
                if isinstance(part, m.ToolReturnPart) and self._not_carried_out(part.tool_call_id):
                    self.scribe.known(result_of(part), flight.run)

    # Tools and state

    def use_tool(
        self, tool: ToolDefinition, args: Mapping[str, Any], call_id: str, real: Callable[[], Any]
    ) -> Any:
        """Carries out a call, by the scenario or for real; returns the result or an awaitable."""
        with self.scribe.lock:
            asked = self.scribe.asked(call_id)
        if asked is not None and isinstance(asked.call.args, dict):
            args = asked.call.args
        return self._cockpit.use_tool(tool.name, args, real, asked, tool.return_schema or None)

    def look(self, flight: Flight) -> None:
        """Writes down what deps and a graph's state hold that they did not at the last look."""
        for thing, otherwise in flight.held:
            self._state.look(thing, otherwise, flight.run or flight.outer)

    def halted(self, problem: BaseException) -> BaseException:
        """Returns why the run cannot go on, if that is behind an exception; else the exception."""
        found: BaseException | None = problem
        if isinstance(problem, BaseExceptionGroup):
            found = problem.subgroup(RunHalted)
            while isinstance(found, BaseExceptionGroup):
                found = found.exceptions[0]
        return found or problem


def _requests_in(output: Any) -> list[m.ToolCallPart]:
    if not isinstance(output, DeferredToolRequests):
        return []
    return [*output.approvals, *output.calls]


def _question(call: m.ToolCallPart, flight: Flight) -> JsonValue:
    """Returns a tool call that waits for somebody's approval, or result."""
    return {"tool": call.tool_name, "args": plain_or_text(args_of(call.args)), "agent": flight.name}
