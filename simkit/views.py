"""Views on a trace: turns, agent runs, model calls, contexts, handoffs, tool calls, state.

A view is built by one pass over the events, costs what is new with each of them, and shares what
stays: contexts are ranges over one log, state snapshots share their values.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from simkit import events as e
from simkit.messages import Dropped, JsonValue, Message
from simkit.reducers import BUILT_IN, Reducer, empty_value, reducer_of


class StreamView:
    """What one agent's filters leave of a log: the settled part, growing with every turn."""

    __slots__ = ("cuts", "entries", "found", "id", "sums", "tokens")

    def __init__(self, identity: str) -> None:
        self.id = identity
        self.entries: list[Message] = []
        self.tokens: list[int] = []
        self.sums: list[int] = [0]
        """``sums[k]``: the tokens of the first k entries."""
        self.cuts: list[e.Cut] = []
        self.found: dict[bytes, tuple[int, list[int]]] = {}
        """Pattern to how far it was looked for, and the places where it matched."""


class MadePart:
    """A message made for one context, as judges see it."""

    __slots__ = ("message", "of", "pieces", "section", "shown", "tokens")

    def __init__(self, part: e.Made, shown: Sequence[ShownPart] = ()) -> None:
        self.section, self.tokens, self.of = part.section, part.tokens, part.of
        self.message, self.pieces = part.message, part.pieces
        self.shown = shown
        """The histories that are rendered in its pieces."""


class ShownPart:
    """A range of a filtered history, as judges see it."""

    __slots__ = (
        "cuts_hi", "hi", "lo", "rendered", "rendered_tokens", "section", "stream", "stream_messages",
        "summary", "summary_tokens", "tail", "tail_cuts", "tail_tokens",
    )  # fmt: skip

    def __init__(self, part: e.Shown, stream: StreamView, messages: Mapping[int, Message]) -> None:
        self.section, self.stream, self.lo = part.section, stream, part.lo
        self.stream_messages = messages
        self.hi, self.cuts_hi = len(stream.entries), len(stream.cuts)
        self.tail: list[Message] = []
        self.tail_tokens: list[int] = []
        self.tail_cuts = part.tail_cuts
        self.summary, self.summary_tokens = part.summary, part.summary_tokens
        self.rendered, self.rendered_tokens = part.rendered, part.rendered_tokens

    def __len__(self) -> int:
        """The number of messages in the context."""
        if self.rendered is not None:
            return 1
        return self.hi + len(self.tail) - self.lo + (self.summary is not None)

    def entry(self, place: int) -> Message:
        """The logged message at a place of settled + tail."""
        return self.stream.entries[place] if place < self.hi else self.tail[place - self.hi]

    def settled(self, place: int) -> Message:
        """The settled message at a place of the stream, with its section."""
        return replace(self.stream.entries[place], section=self.section)

    def entries(self, lo: int | None = None) -> Iterator[Message]:
        """The logged messages shown, in order, from ``lo`` on."""
        for place in range(self.lo if lo is None else lo, self.hi + len(self.tail)):
            yield self.entry(place)

    def message(self, index: int) -> Message:
        """The message at a place of the context, with its section."""
        if self.rendered is not None:
            return self.rendered
        if self.summary is not None:
            if index == 0:
                return self.summary
            index -= 1
        return replace(self.entry(self.lo + index), section=self.section)


class Messages(Sequence[Message]):
    """The messages of a context, or of one section of it, made one by one when looked at."""

    __slots__ = ("_parts", "_starts")

    def __init__(self, parts: Sequence[MadePart | ShownPart | list[Message]]) -> None:
        self._parts = parts
        self._starts = [0]
        for part in parts:
            size = 1 if isinstance(part, MadePart) else len(part)
            self._starts.append(self._starts[-1] + size)

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(index)
        place = bisect_left(self._starts, index + 1) - 1
        part = self._parts[place]
        if isinstance(part, MadePart):
            return part.message
        if isinstance(part, ShownPart):
            return part.message(index - self._starts[place])
        return part[index - self._starts[place]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class ContextView:
    """Exactly what one model call received."""

    __slots__ = ("budget", "parts", "said", "said_tokens", "settings", "tokens", "tools")

    def __init__(self, event: e.ContextBuilt, parts: list[MadePart | ShownPart]) -> None:
        self.parts = parts
        self.said: list[Message] = []
        self.said_tokens: list[int] = []
        self.tools, self.settings = event.tools, event.settings
        self.tokens, self.budget = event.tokens, event.budget

    @property
    def messages(self) -> Messages:
        """All messages in order."""
        return Messages([*self.parts, [replace(m, section="run") for m in self.said]])

    @property
    def sections(self) -> list[str]:
        """The names of the sections that made something, in order, each once."""
        names: dict[str, None] = {}
        for part in self.parts:
            if isinstance(part, MadePart):
                for piece in part.pieces:
                    names[piece.section] = None
                if not part.pieces:
                    names[part.section] = None
            elif len(part):
                names[part.section] = None
        if self.said:
            names["run"] = None
        return list(names)

    def section(self, name: str) -> Messages:
        """The messages that one section made; its own piece of a message that several share."""
        found: list[MadePart | ShownPart | list[Message]] = []
        for part in self.parts:
            if isinstance(part, ShownPart):
                if part.section == name:
                    found.append(part)
            elif part.pieces:
                found += [
                    [replace(part.message, content=piece.content, section=name, data=None)]
                    for piece in part.pieces
                    if piece.section == name
                ]
            elif part.section == name:
                found.append(part)
        if name == "run" and self.said:
            found.append([replace(m, section="run") for m in self.said])
        return Messages(found)

    def dropped(self) -> list[Dropped]:
        """What history sections read and left out, in the order of the log."""
        out: list[tuple[int, int, Dropped]] = []
        for part in self._histories():
            originals = part.stream_messages
            cuts = [*part.stream.cuts[: part.cuts_hi], *part.tail_cuts]
            for order, cut in enumerate(cuts):
                message = originals[cut.message]
                out.append((cut.message, order, Dropped(message, cut.what, cut.by)))
            for place in range(min(part.lo, part.hi + len(part.tail))):
                shown = part.entry(place)
                number = int(shown.id[1:])
                entry = Dropped(originals[number], "message", "window")
                out.append((number, len(cuts), entry))
        return [entry for _, _, entry in sorted(out, key=lambda row: row[:2])]

    def _histories(self) -> Iterator[ShownPart]:
        for part in self.parts:
            if isinstance(part, ShownPart):
                yield part
            else:
                yield from part.shown

    def weights(self) -> Iterator[tuple[str, str | None, int]]:
        """Yields (section, agent, tokens) of every message; linear in the context."""
        for part in self.parts:
            if isinstance(part, MadePart):
                if part.pieces:
                    for piece in part.pieces:
                        yield piece.section, None, piece.tokens
                else:
                    yield part.section, part.message.agent, part.tokens
            elif part.rendered is not None:
                yield part.section, None, part.rendered_tokens
            else:
                if part.summary is not None:
                    yield part.section, part.summary.agent, part.summary_tokens
                for place in range(part.lo, part.hi):
                    message = part.stream.entries[place]
                    yield part.section, message.agent, part.stream.tokens[place]
                for message, tokens in zip(part.tail, part.tail_tokens, strict=True):
                    yield part.section, message.agent, tokens
        for message, tokens in zip(self.said, self.said_tokens, strict=True):
            yield "run", message.agent, tokens


class HandoffView:
    """One request to pass control, and what became of it."""

    __slots__ = ("depth", "event", "id", "outcome", "reason", "turn")

    def __init__(self, event: e.HandoffRequested) -> None:
        self.id, self.event, self.turn = event.handoff, event, event.turn
        self.outcome, self.reason, self.depth = "requested", "", 0

    def fields(self) -> dict[str, JsonValue]:
        """What a claim sees."""
        event = self.event
        shown: dict[str, JsonValue] = {
            "from": event.from_agent,
            "to": event.to_agent,
            "type": event.type,
            "mode": event.mode,
            "query": event.query,
            "payload": event.payload,
            "outcome": self.outcome,
        }
        if self.reason:
            shown["reason"] = self.reason
        return shown


class ToolView:
    """One tool call and its answer."""

    __slots__ = ("agent", "args", "at", "call_id", "error", "result", "returned_at", "tool")

    def __init__(self, event: e.ToolCalled) -> None:
        self.agent, self.tool, self.args = event.agent, event.tool, event.args
        self.call_id, self.at = event.call_id, event.at
        self.result: JsonValue = None
        self.error: str | None = None
        self.returned_at: int | None = None

    def fields(self) -> dict[str, JsonValue]:
        """What a claim sees."""
        return {
            "agent": self.agent,
            "tool": self.tool,
            "args": self.args,
            "result": self.result,
            "error": self.error,
            "call_id": self.call_id,
            "called_at": self.at,
            "returned_at": self.returned_at,
        }


class CallView:
    """One model call: a context sent, a reply received."""

    __slots__ = ("agent", "at", "context", "error", "id", "index", "reply", "run", "turn")

    def __init__(self, event: e.ContextBuilt, context: ContextView, index: int) -> None:
        self.id, self.agent, self.run, self.turn = event.call, event.agent, event.run, event.turn
        self.index = index
        """Its place among the agent's calls in the turn, from 0."""
        self.context, self.at = context, event.at
        self.reply: Message | None = None
        self.error: e.ModelFailed | None = None


class RunView:
    """One activation of an agent."""

    __slots__ = (
        "agent", "at", "calls", "finished", "group", "handoff", "handoff_from", "id", "input",
        "message", "messages", "output", "received", "status", "turn", "update",
    )  # fmt: skip

    def __init__(self, event: e.AgentStarted, received: Mapping[str, Any]) -> None:
        self.id, self.agent, self.turn, self.at = event.run, event.agent, event.turn, event.at
        self.input, self.handoff, self.group = event.input, event.handoff, event.group
        self.handoff_from = event.handoff_from
        self.received = received
        self.output: Any = None
        self.update: dict[str, Any] = {}
        self.message: Message | None = None
        self.messages: list[Message] = []
        self.calls: list[CallView] = []
        self.status = "running"
        self.finished = False


class TurnView:
    """One user message and all that happened until the pipeline waited again."""

    __slots__ = (
        "at", "calls", "calls_by_agent", "error", "finished", "handoffs", "hi", "interrupt",
        "limits", "lo", "message", "number", "reply", "routes", "runs", "session", "state",
        "tools", "unused", "updates",
    )  # fmt: skip

    def __init__(self, event: e.TurnStarted, lo: int, message: Message | None) -> None:
        self.number, self.session, self.at = event.turn, event.session, event.at
        self.message, self.lo, self.hi = message, lo, lo
        self.runs: list[RunView] = []
        self.calls: list[CallView] = []
        self.calls_by_agent: dict[str, list[CallView]] = {}
        self.handoffs: list[HandoffView] = []
        self.tools: list[ToolView] = []
        self.routes: list[e.RouteChosen] = []
        self.limits: list[e.LimitReached] = []
        self.unused: tuple[e.UnusedLines, ...] = ()
        self.reply: Any = None
        self.error: e.ErrorFacts | None = None
        self.interrupt: Any = None
        self.state: Mapping[str, Any] = {}
        self.finished = False
        self.updates: list[e.StateUpdated] = []


class View:
    """All views on one trace; ``apply`` takes the next event."""

    def __init__(self) -> None:
        self.events: list[e.AnyEvent] = []
        self.pipeline = e.PipelineFacts(name="", agents={})
        self.started: e.RunStarted | None = None
        self.turns: list[TurnView] = []
        self.messages: dict[int, Message] = {}
        self.tokens: dict[int, int] = {}
        self.runs: dict[str, RunView] = {}
        self.calls: dict[str, CallView] = {}
        self.handoffs: dict[str, HandoffView] = {}
        self.streams: dict[str, StreamView] = {}
        self.error: e.ErrorFacts | None = None
        self.states: dict[str, dict[str, Any]] = {}
        """Session to its channels' values now."""
        self._projects: dict[str, str] = {}
        self._tools: dict[str, ToolView] = {}
        self._start: dict[str, Any] = {}
        self._reducers: dict[str, Reducer] = {}
        """Channels that outlive an agent run, with their reducers."""
        self._shared: dict[str, str] = {}
        """Channels that sessions share, with their scopes."""
        self._of_turn: list[str] = []

    @property
    def turn(self) -> TurnView:
        """The turn that is going on, or the last one."""
        return self.turns[-1]

    def state_at_end(self) -> Mapping[str, Any]:
        """The last session's channels after the last turn, turn-scoped ones as they were."""
        return self.turns[-1].state if self.turns else dict(self._start)

    def apply(self, event: e.AnyEvent) -> None:
        """Takes the next event into account; constant work but for what the event holds."""
        self.events.append(event)
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    def resolved(self, value: JsonValue) -> Any:
        """Returns a recorded value with its references to messages followed."""
        kind = type(value)
        if kind is dict:
            if len(value) == 1:
                if "$message" in value:
                    return self.messages[value["$message"]]
                if "$unlogged" in value:
                    return Message(**value["$unlogged"])
            resolved = self.resolved
            return {
                k: resolved(v) if type(v) is dict or type(v) is list else v
                for k, v in value.items()
            }
        if kind is list:
            return [self.resolved(item) for item in value]
        return value

    # The handlers, in the order of a run.

    def _run_started(self, event: e.RunStarted) -> None:
        self.started, self.pipeline = event, event.pipeline
        for name, channel in event.pipeline.channels.items():
            if channel.scope == "agent_run":
                continue
            self._start[name] = empty_value(channel.reducer, channel.default)
            known = channel.reducer if channel.reducer in BUILT_IN else "replace"
            self._reducers[name] = reducer_of(known, channel.last)
            if channel.scope in ("project", "global"):
                self._shared[name] = channel.scope
            if channel.scope == "turn":
                self._of_turn.append(name)

    def _session_started(self, event: e.SessionStarted) -> None:
        self._projects[event.session] = event.project
        state = dict(self._start)
        for session, other in self.states.items():
            same_project = self._projects.get(session) == event.project
            for name, channel in self.pipeline.channels.items():
                if channel.scope == "global" or (channel.scope == "project" and same_project):
                    state[name] = other[name]
        self.states[event.session] = state

    def _turn_started(self, event: e.TurnStarted) -> None:
        message = self.messages.get(event.message)
        self.turns.append(TurnView(event, len(self.events) - 1, message))

    def _message_added(self, event: e.MessageAdded) -> None:
        number = int(event.message.id[1:])
        self.messages[number] = event.message
        self.tokens[number] = event.tokens
        if event.run:
            run = self.runs.get(event.run)
            if run is not None:
                run.messages.append(event.message)
        turn = self.turns[-1] if self.turns else None
        if turn is not None and turn.message is None and event.message.role == "user":
            turn.message = event.message

    def _route_chosen(self, event: e.RouteChosen) -> None:
        self.turns[-1].routes.append(event)

    def _agent_started(self, event: e.AgentStarted) -> None:
        state = self.states.get(event.session, {})
        if event.channels is not None:
            state = {name: state[name] for name in event.channels if name in state}
        run = RunView(event, state)
        self.runs[event.run] = run
        self.turns[-1].runs.append(run)

    def _context_built(self, event: e.ContextBuilt) -> None:
        if event.base:
            parts = self.calls[event.base].context.parts
        else:
            parts = [self._part(part) for part in event.parts]
        context = ContextView(event, parts)
        for number in event.said:
            context.said.append(self.messages[number])
            context.said_tokens.append(self.tokens[number])
        turn = self.turns[-1]
        mine = turn.calls_by_agent.setdefault(event.agent, [])
        call = CallView(event, context, len(mine))
        mine.append(call)
        turn.calls.append(call)
        self.calls[event.call] = call
        run = self.runs.get(event.run)
        if run is not None and run.agent == event.agent:
            run.calls.append(call)

    def _part(self, part: e.Part) -> MadePart | ShownPart:
        if type(part) is e.Made:
            return MadePart(part, [self._history(shown) for shown in part.shown])
        assert isinstance(part, e.Shown)
        return self._history(part)

    def _history(self, part: e.Shown) -> ShownPart:
        stream = self.streams.get(part.stream)
        if stream is None or part.restarts:
            stream = self.streams[part.stream] = StreamView(part.stream)
        if part.kept:
            edits = _edits(part.cuts)
            total = stream.sums[-1]
            for number in part.kept:
                message, tokens = self._entry(number, edits)
                total += tokens
                stream.entries.append(message)
                stream.tokens.append(tokens)
                stream.sums.append(total)
        if part.cuts:
            stream.cuts.extend(part.cuts)
        shown = ShownPart(part, stream, self.messages)
        if part.tail:
            edits = _edits(part.tail_cuts)
            for number in part.tail:
                message, tokens = self._entry(number, edits)
                shown.tail.append(message)
                shown.tail_tokens.append(tokens)
        return shown

    def _entry(self, number: int, edits: Mapping[int, list[e.Cut]]) -> tuple[Message, int]:
        message, tokens = self.messages[number], self.tokens[number]
        for cut in edits.get(number, ()) if edits else ():
            tokens -= cut.saved
            message = cut.becomes if cut.becomes is not None else replace(message, calls=())
        return message, tokens

    def _model_replied(self, event: e.ModelReplied) -> None:
        self.calls[event.call].reply = self.messages.get(event.message)

    def _model_failed(self, event: e.ModelFailed) -> None:
        self.calls[event.call].error = event

    def _tool_called(self, event: e.ToolCalled) -> None:
        tool = ToolView(event)
        self._tools[event.call_id] = tool
        self.turns[-1].tools.append(tool)

    def _tool_returned(self, event: e.ToolReturned) -> None:
        tool = self._tools[event.call_id]
        tool.result, tool.returned_at = event.result, event.at

    def _tool_failed(self, event: e.ToolFailed) -> None:
        tool = self._tools[event.call_id]
        tool.error, tool.returned_at = event.error, event.at

    def _handoff_requested(self, event: e.HandoffRequested) -> None:
        handoff = HandoffView(event)
        self.handoffs[event.handoff] = handoff
        self.turns[-1].handoffs.append(handoff)

    def _handoff_rejected(self, event: e.HandoffRejected) -> None:
        handoff = self.handoffs[event.handoff]
        handoff.outcome, handoff.reason = "rejected", event.reason

    def _handoff_made(self, event: e.HandoffMade) -> None:
        handoff = self.handoffs[event.handoff]
        handoff.outcome, handoff.depth = "made", event.depth

    def _state_updated(self, event: e.StateUpdated) -> None:
        before = self.states.get(event.session)
        state = dict(self._start if before is None else before)
        values, resolved, reducers = event.values, self.resolved, self._reducers
        update = {}
        for name, raw in event.update.items():
            update[name] = delta = resolved(raw)
            reduce = reducers.get(name)
            if reduce is None:
                continue
            if values is not None and name in values:
                state[name] = resolved(values[name])
            else:
                state[name] = reduce(state.get(name), delta)
            if name in self._shared:
                self._share(event.session, name, state[name], self._shared[name])
        self.states[event.session] = state
        run = self.runs.get(event.run)
        if run is not None:
            run.update = {**run.update, **update} if run.update else update
        if self.turns:
            self.turns[-1].updates.append(event)

    def _share(self, session: str, channel: str, value: Any, scope: str) -> None:
        for other in self.states:
            near = scope == "global" or self._projects.get(other) == self._projects.get(session)
            if other != session and near:
                self.states[other] = {**self.states[other], channel: value}

    def _turn_interrupted(self, event: e.TurnInterrupted) -> None:
        self.turns[-1].interrupt = event.question

    def _limit_reached(self, event: e.LimitReached) -> None:
        if self.turns:
            self.turns[-1].limits.append(event)

    def _agent_finished(self, event: e.AgentFinished) -> None:
        run = self.runs[event.run]
        run.output, run.status, run.finished = self.resolved(event.output), event.status, True
        run.message = self.messages.get(event.message)

    def _turn_finished(self, event: e.TurnFinished) -> None:
        turn = self.turns[-1]
        state = self.states.get(event.session, self._start)
        turn.reply, turn.error, turn.unused = event.reply, event.error, event.unused
        turn.state, turn.hi, turn.finished = state, len(self.events), True
        kept = dict(state)
        for name in self._of_turn:
            kept[name] = self._start[name]
        self.states[event.session] = kept

    def _run_finished(self, event: e.RunFinished) -> None:
        self.error = event.error


_NO_EDITS: Mapping[int, list[e.Cut]] = {}


def _edits(cuts: Sequence[e.Cut]) -> Mapping[int, list[e.Cut]]:
    if not cuts:
        return _NO_EDITS
    edits: dict[int, list[e.Cut]] = {}
    for cut in cuts:
        if cut.what != "message":
            edits.setdefault(cut.message, []).append(cut)
    return edits


_HANDLERS: dict[type, Any] = {
    e.RunStarted: View._run_started,
    e.SessionStarted: View._session_started,
    e.TurnStarted: View._turn_started,
    e.MessageAdded: View._message_added,
    e.RouteChosen: View._route_chosen,
    e.AgentStarted: View._agent_started,
    e.ContextBuilt: View._context_built,
    e.ModelReplied: View._model_replied,
    e.ModelFailed: View._model_failed,
    e.ToolCalled: View._tool_called,
    e.ToolReturned: View._tool_returned,
    e.ToolFailed: View._tool_failed,
    e.HandoffRequested: View._handoff_requested,
    e.HandoffRejected: View._handoff_rejected,
    e.HandoffMade: View._handoff_made,
    e.StateUpdated: View._state_updated,
    e.TurnInterrupted: View._turn_interrupted,
    e.LimitReached: View._limit_reached,
    e.AgentFinished: View._agent_finished,
    e.TurnFinished: View._turn_finished,
    e.RunFinished: View._run_finished,
}


def view_of(events: Sequence[e.AnyEvent]) -> View:
    """Returns the view of a whole trace."""
    view = View()
    for event in events:
        view.apply(event)
    return view
