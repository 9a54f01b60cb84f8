"""The view of a whole trace, built event by event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec.structs import astuple, replace

from simkit.core.messages import JsonValue, KeptMessage, Message
from simkit.language.matching.values import ToolName
from simkit.trace import events as e
from simkit.trace.changes import has_changes, is_change, new_parts
from simkit.trace.events import InlinePart
from simkit.trace.store import canonical
from simkit.trace.views.arrivals import Arrivals
from simkit.trace.views.contexts import (
    ALL_SHOWN,
    ContextView,
    HistoryView,
    Naming,
    StreamView,
    UnshownView,
)
from simkit.trace.views.states import NESTED, States, handlers_of
from simkit.trace.views.turns_and_calls import (
    CallView,
    HandoffView,
    RunView,
    ToolView,
    TurnView,
    place_among,
)


class View:
    """All views of one trace; ``apply`` adds the next event."""

    def __init__(self) -> None:
        self.events: list[e.AnyEvent] = []
        self.hi = 0
        """The number of events that are taken into account."""
        self.pipeline = e.PipelineFacts(name="", agents={})
        self.started: e.RunStarted | None = None
        self.error: e.ErrorFacts | None = None
        self.turns: list[TurnView] = []
        self.messages: dict[int, Message] = {}
        self.tokens: dict[int, int] = {}
        self.runs: dict[str, RunView] = {}
        self.calls: dict[str, CallView] = {}
        self.handoffs: dict[str, HandoffView] = {}
        self.streams: dict[str, StreamView] = {}
        self.projects: dict[str, str] = {}
        """Session to its project."""
        self.requests: dict[str, JsonValue] = {}
        """Tool call to its arguments as the model wrote them."""
        self.definitions: dict[int, ToolName] = {}
        """The definitions of tools, by number."""
        self._tools: dict[str, ToolView] = {}
        self._last_contexts: dict[tuple[str, str], ContextView] = {}
        """Session and agent to the context of its last call."""
        self.edits: dict[str, e.CallEdited] = {}
        """Tool call to its last edit."""
        self._asked_at: dict[str, tuple[int, int]] = {}
        """Tool call to the message that asks for it, and its index there."""
        self._states = States(self)
        self.arrivals = Arrivals(self)
        """Where the payloads of handoffs reached their targets."""
        self._channels: dict[str, Mapping[str, e.ChannelFacts]] = {}
        """The channels of inner graphs, by the name of their state."""
        self._interrupted: dict[str, TurnView] = {}
        """Session to its last turn, if that waits for the user."""
        self._namings: dict[str, Naming] = {}
        """Agents for which the pipeline's file assigns messages to sections."""
        self._group_sizes: dict[str, int] = {}
        """Tool calls that one message makes together with others, and the message's number."""
        self._opened: dict[int, dict[str, RunView]] = {}
        """Message to its calls that an agent run executes, with the first run."""
        self._questions: dict[str, JsonValue] = {}
        """Run to its question to the user."""

    @property
    def turn(self) -> TurnView:
        """Return the current turn, or the last one."""
        return self.turns[-1]

    def state_at_end(self) -> Mapping[str, Any]:
        """Return the last session's channels after the last turn, those of scope turn included."""
        return self.turns[-1].state if self.turns else dict(self._states.start)

    @property
    def states(self) -> dict[str, dict[str, Any]]:
        """Return the current values of each session's channels."""
        return self._states.read()

    def apply(self, event: e.AnyEvent) -> None:
        """Add the next event; constant time beside the event's own size."""
        self.events.append(event)
        self.hi += 1
        self.read(event)

    def read(self, event: e.AnyEvent) -> None:
        """Take the event at ``hi`` into account."""
        add = HANDLERS[type(event)]
        if add is not None:
            add(self, event)

    def resolved(self, value: JsonValue) -> Any:
        """Return a recorded value with its references to messages resolved."""
        kind = type(value)
        if kind is dict:
            if len(value) == 1:
                if "$message" in value:
                    return KeptMessage(*astuple(self.messages[value["$message"]]))
                if "$unlogged" in value:
                    return KeptMessage(**value["$unlogged"])
                if "$data" in value:
                    return {k: self.resolved(v) for k, v in value["$data"]}
            return {k: self.resolved(v) for k, v in value.items()}
        return [self.resolved(v) for v in value] if kind is list else value

    # Handlers, in the order of a run.

    def _run_started(self, event: e.RunStarted) -> None:
        self.started, self.pipeline = event, event.pipeline
        self._namings = {
            name: Naming(agent.sections)
            for name, agent in event.pipeline.agents.items()
            if agent.sections is not None
        }

    def _session_started(self, event: e.SessionStarted) -> None:
        self.projects[event.session] = event.project

    def _turn_started(self, event: e.TurnStarted) -> None:
        turn = TurnView(event, self.hi - 1, self.messages.get(event.message), self._states)
        self.turns.append(turn)
        if event.session in self._interrupted:
            waiting = self._interrupted.pop(event.session)
            if not event.message:
                turn.resumes, turn.message = waiting, waiting.message
                for handoff in waiting.handoffs:
                    if handoff.outcome == "pending":
                        again = HandoffView(
                            handoff.event,
                            handoff.payload,
                            handoff.calls_before,
                            handoff.messages_before,
                        )
                        self.handoffs[again.id] = again
                        turn.handoffs.append(again)

    def _message_added(self, event: e.MessageAdded) -> None:
        message = event.message
        number = message.number
        self.messages[number] = message
        self.tokens[number] = event.tokens
        if message.calls:
            for index, call in enumerate(message.calls):
                if call.id in self.edits:
                    continue  # The message was edited: the model has asked otherwise.
                self.requests[call.id] = call.args
                self._asked_at[call.id] = (number, index)
            if len(message.calls) > 1:
                self._group_sizes.update((call.id, number) for call in message.calls)
        if event.run in self.runs:
            self.runs[event.run].messages.append(message)
        if message.role == "user" and self.turns and self.turns[-1].message is None:
            self.turns[-1].message = message

    def _route_chosen(self, event: e.RouteChosen) -> None:
        self.turns[-1].routes.append(event)

    def _agent_started(self, event: e.AgentStarted) -> None:
        given = event.input
        if type(given) in NESTED:
            given = self.resolved(given)
        run = RunView(event, given, self._states)
        self.runs[event.run] = run
        self.turns[-1].runs.append(run)
        if event.call_id in self._group_sizes and not run.group:
            self._join_group(run, self._group_sizes[event.call_id])

    def _join_group(self, run: RunView, message: int) -> None:
        """Put agents that the calls of one message run into one parallel group.

        None of them knows of another, whether threads run them side by side or one after the other.
        """
        opened = self._opened.setdefault(message, {})
        if run.call_id in opened:
            return  # It continues in a branch that another run opened.
        opened[run.call_id] = run
        if len(opened) > 1:
            for group in opened.values():
                group.group = f"m{message}"

    def _tool_defined(self, event: e.ToolDefined) -> None:
        self.definitions[event.number] = ToolName(
            event.tool, event.description, event.parameters, event.strict, event.server or None
        )

    def _context_built(self, event: e.ContextBuilt) -> None:
        run = self.runs.get(event.run)
        context = self._context(event, run)
        if event.agent in self._namings and run is not None:
            naming = self._namings[event.agent]
            message = self.turns[-1].message
            first = message.number if message is not None and message.id else 0
            context.named = partial(_named, naming, run, first)
        if event.said:
            context.own_messages = [self.messages[number] for number in event.said]
            context.said_tokens = [self.tokens[number] for number in event.said]
        key = event.session, event.agent
        context.before, self._last_contexts[key] = self._last_contexts.get(key), context
        turn = self.turns[-1]
        by_agent = turn.calls_by_agent
        if event.agent not in by_agent:
            by_agent[event.agent] = []
        mine = by_agent[event.agent]
        call = self.calls[event.call] = CallView(event, context, len(mine))
        mine.append(call)
        turn.calls.append(call)
        if run is not None and run.agent == event.agent:
            run.calls.append(call)

    def _context(self, event: e.ContextBuilt, run: RunView | None) -> ContextView:
        """Return a context with its parts, which later calls of a run take from the base."""
        if event.base:
            base = self.calls[event.base].context
            return ContextView(event, base.parts, base.inner, base.unshown, self.definitions)
        inner: dict[int, list[HistoryView]] = {}
        parts: list[Any] = [*event.parts]
        for index, part in enumerate(event.parts):
            if type(part) is e.HistoryPart:
                parts[index] = self._history(part)
            elif type(part) is InlinePart and part.shown:
                inner[index] = [self._history(shown_part) for shown_part in part.shown]
        unshown = ALL_SHOWN
        if event.left_out:
            unshown = UnshownView(event.left_out, run.received if run is not None else {})
        return ContextView(event, parts, inner, unshown, self.definitions)

    def _history(self, part: e.HistoryPart) -> HistoryView:
        if part.restarts or part.stream not in self.streams:
            self.streams[part.stream] = StreamView(part.stream)
        stream = self.streams[part.stream]
        if part.kept:
            messages, tokens = self._entries(part.kept, part.cuts, part.names)
            stream.entries += messages
            stream.tokens += tokens
        if part.cuts:
            stream.cuts += part.cuts
        shown_part = HistoryView(part, stream, self.messages)
        if part.tail:
            tail = self._entries(part.tail, part.tail_cuts, part.names[len(part.kept) :])
            shown_part.tail, shown_part.tail_tokens = tail
        return shown_part

    def _entries(
        self, numbers: Sequence[int], cuts: Sequence[e.Omission], names: Sequence[str]
    ) -> tuple[list[Message], list[int]]:
        """Return messages as a history shows them, and their tokens."""
        messages = [self.messages[number] for number in numbers]
        for index, name in enumerate(names[: len(numbers)]):
            messages[index] = replace(messages[index], name=name)
        tokens = [self.tokens[number] for number in numbers]
        edits = _edits(cuts) if cuts else {}
        for index, number in enumerate(numbers if edits else ()):
            for cut in edits.get(number, ()):
                tokens[index] -= cut.saved
                messages[index] = cut.becomes or replace(messages[index], calls=())
        return messages, tokens

    def _model_replied(self, event: e.ModelReplied) -> None:
        call = self.calls[event.call]
        call.usage = event.usage
        if event.message in self.messages:
            call.reply = self.messages[event.message]

    def _model_failed(self, event: e.ModelFailed) -> None:
        self.calls[event.call].error = event

    def _tool_called(self, event: e.ToolCalled) -> None:
        tool = ToolView(event, self.requests.get(event.call_id))
        self._tools[event.call_id] = tool
        if event.call_id in self.edits:
            tool.edited_by = self.edits[event.call_id].by
        tools = self.turns[-1].tools
        tools.insert(place_among(tools, event.call_id, self._asked_at), tool)

    def _call_edited(self, event: e.CallEdited) -> None:
        self.edits[event.call_id] = event
        if event.call_id in self._tools:
            self._tools[event.call_id].edited_by = event.by

    def _tool_returned(self, event: e.ToolReturned) -> None:
        tool = self._tools[event.call_id]
        tool.result, tool.returned_at = self.resolved(event.result), event.at
        tool.server = event.server or None

    def _tool_failed(self, event: e.ToolFailed) -> None:
        tool = self._tools[event.call_id]
        tool.error, tool.returned_at = event.error, event.at
        tool.server = event.server or None

    def _handoff_requested(self, event: e.HandoffRequested) -> None:
        newest = next(reversed(self.messages), 0)
        handoff = HandoffView(event, self.resolved(event.payload), len(self.calls), newest)
        self.handoffs[event.handoff] = handoff
        self.turns[-1].handoffs.append(handoff)

    def _handoff_rejected(self, event: e.HandoffRejected) -> None:
        handoff = self.handoffs[event.handoff]
        handoff.outcome, handoff.reason = "rejected", event.reason

    def _handoff_made(self, event: e.HandoffMade) -> None:
        handoff = self.handoffs[event.handoff]
        handoff.outcome, handoff.depth, handoff.mode = "made", event.depth, event.mode

    def channels_of(self, event: e.StateUpdated) -> Mapping[str, e.ChannelFacts]:
        """Return the channels that an update may write."""
        return self._channels[event.state] if event.state else self.pipeline.channels

    def _whole(self, event: e.StateUpdated) -> tuple[Mapping[str, Any], ...]:
        if has_changes(event):
            return self._states.whole(event)
        raws = event.update, event.values or {}
        return tuple({name: self.resolved(raw) for name, raw in part.items()} for part in raws)

    def update_of(self, event: e.StateUpdated) -> Mapping[str, Any]:
        """Return an event's updates as whole values, with their references resolved."""
        return self._whole(event)[0]

    def values_of(self, event: e.StateUpdated) -> Mapping[str, Any]:
        """Return the new values that an event has, as whole values with references resolved."""
        return self._whole(event)[1]

    def whole_event(self, event: e.AnyEvent) -> e.AnyEvent:
        """Return an event with whole values in place of changes."""
        if type(event) is not e.StateUpdated or not has_changes(event):
            return event
        update, values = (
            {name: canonical(value) for name, value in whole.items()}
            for whole in self._states.whole(event)
        )
        return replace(event, update=update, values=values or None)

    def new_parts(self, event: e.StateUpdated) -> tuple[Mapping[str, JsonValue], ...]:
        """Return an event's update, and its new values, without what was written before."""
        update, values = event.update, event.values or {}
        if not has_changes(event):
            return update, values
        return tuple(
            {
                name: canonical(new_parts(raw, whole[name])) if is_change(raw) else raw
                for name, raw in raws.items()
            }
            for raws, whole in zip((update, values), self._states.whole(event), strict=True)
        )

    def _state_opened(self, event: e.StateOpened) -> None:
        self._channels[event.state] = event.channels

    def _turn_interrupted(self, event: e.TurnInterrupted) -> None:
        self._questions[event.run] = self.resolved(event.question)

    def _checkpoint_saved(self, event: e.CheckpointSaved) -> None:
        # A turn's own checkpoint is saved after the turn.
        if self.turns and self.turns[-1].number == event.turn:
            self.turns[-1].hi = self.hi

    def _limit_reached(self, event: e.LimitReached) -> None:
        if self.turns:
            self.turns[-1].limits.append(event)

    def _agent_finished(self, event: e.AgentFinished) -> None:
        run = self.runs[event.run]
        output = event.output
        run.output = self.resolved(output) if type(output) in NESTED else output
        run.status, run.finished = event.status, True
        run.finished_at = self.hi
        if event.message in self.messages:
            run.message = self.messages[event.message]

    def _turn_finished(self, event: e.TurnFinished) -> None:
        turn = self.turns[-1]
        turn.reply, turn.error = self.resolved(event.reply), event.error
        turn.unused, turn.hi, turn.finished = event.unused, self.hi, True
        if event.waits_for:
            turn.interrupt = self._questions.get(event.waits_for)
            self._interrupted[event.session] = turn
            for handoff in turn.handoffs:
                if handoff.outcome == "requested":
                    handoff.outcome = "pending"

    def _run_finished(self, event: e.RunFinished) -> None:
        self.error = event.error


def _named(naming: Naming, run: RunView, first: int, messages: Sequence[Message]) -> list[Message]:
    return naming.named(messages, {message.number for message in run.messages}, first)


def _edits(cuts: Sequence[e.Omission]) -> Mapping[int, list[e.Omission]]:
    edits: dict[int, list[e.Omission]] = {}
    for cut in cuts:
        if cut.what != "message":
            edits.setdefault(cut.message, []).append(cut)
    return edits


HANDLERS: Final = handlers_of(View)


def view_of(events: Sequence[e.AnyEvent]) -> View:
    """Return the view of a trace: turns, runs, calls with their contexts, handoffs, state.

    >>> trace = simkit.simulate(simkit.load("desk.scenario.yaml")[0]).trace
    >>> [run.agent for turn in simkit.view_of(trace.events).turns for run in turn.runs]
    ['desk']
    """
    view = View()
    for event in events:
        view.apply(event)
    return view


def said_in(view: View) -> list[dict[str, Any]]:
    """Return the messages of each turn, for functions that wait for them."""
    return [{"reply": turn.reply} for turn in view.turns]
