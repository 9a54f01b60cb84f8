"""Records the observations of a running pipeline: the log, contexts, replies, tools, handoffs.

Drivers pass all observations to the recorder. It recognizes known messages, numbers new ones, and
keeps one log per session, with contexts as ranges over it, as native runs do. Events are recorded
through `simkit.trace.recorder`, as those of native runs are.
"""

from __future__ import annotations

import threading
from asyncio import CancelledError
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from msgspec import MsgspecError
from msgspec.json import decode
from msgspec.structs import replace

from simkit.adapters.activations import CallFacts, Run, ToolRequest
from simkit.adapters.filtering import cuts_between
from simkit.adapters.handoff_calls import told_by
from simkit.adapters.handoff_tools import HandoffTools
from simkit.adapters.sessions import Session
from simkit.adapters.streams import Print, SentStream, print_of
from simkit.core.errors import LimitExceeded, WriteInvalid
from simkit.core.messages import (
    JsonValue,
    Message,
    ToolCall,
    Usage,
    call_of,
    thinking_of,
    value_said,
    without_thinking,
)
from simkit.providers.attachments import is_failed
from simkit.providers.values import Offer
from simkit.runtime.clock import VirtualClock
from simkit.runtime.context.tokens import Counter, tokens_of
from simkit.runtime.conversation import Numbers
from simkit.runtime.sessions import Gifts
from simkit.runtime.state import as_message
from simkit.spec.pipeline.model import Limits
from simkit.spec.pipeline.written_messages import message_from
from simkit.trace import changes
from simkit.trace import events as e
from simkit.trace.recorder import EventRecorder, Position, Sink
from simkit.trace.reducers import DECLARED_RESET
from simkit.trace.store import References, canonical


class TraceRecorder:
    """Records one scenario's run from a driver's observations; sessions take turns."""

    def __init__(self, sink: Sink, clock: VirtualClock, count: Counter, limits: Limits) -> None:
        self.events, self.clock, self.count = EventRecorder(sink, clock), clock, count
        self.limits, self.numbers = limits, Numbers()
        self.lock = threading.RLock()
        """Held while an event is emitted: pipelines may use any thread."""
        self.session = ""
        """The session of the current turn."""
        self.turn = 0
        self.runs: list[Run] = []
        """This turn's."""
        self.requested: list[e.HandoffRequested] = []
        """This turn's handoffs that were not made yet."""
        self.waits_for = ""
        """The run whose question the user answers next."""
        self.is_cut = False
        """Whether the scenario has ended this turn before its reply."""
        self.failures: set[str] = set()
        """Model calls that failed."""
        self.handoff_tools = HandoffTools()
        self.offered: dict[str, JsonValue] = {}
        """The tools offered to models so far, with the latest schema of each."""
        self.gifts = Gifts({}, lambda name: "session")
        """The scenario's given state for new sessions."""
        self.conversation = ""
        """The channel that holds the conversation."""
        self._session, self._sessions = Session(), dict[str, Session]()
        self._agent_runs = self._handoffs = 0
        self._partial_channels: dict[str, frozenset[str]] = {}
        """State to its channels of which an update is only what joins their value."""
        self._checkpoints: dict[str, str] = {}
        """Session to its last checkpoint."""

    @property
    def initial_state(self) -> Mapping[str, JsonValue]:
        """Return the session's initial state."""
        return self._session.initial_state

    @property
    def project(self) -> str:
        """The session's project."""
        return self._session.project

    def at(self, run: Run | None = None, agent: str | None = None) -> Position:
        """Return the current position. The agent is the run's, unless one is named."""
        if agent is None:
            agent = run.agent if run is not None else ""
        return Position(self.session, self.turn, agent, run.id if run is not None else "")

    def limit(self, name: str, used: int) -> None:
        """Raise LimitExceeded, after its event, when a limit is passed."""
        allowed = getattr(self.limits, name)
        if allowed is not None and used > allowed:
            self.events.record_limit(self.at(), limit=name, allowed=allowed)
            raise LimitExceeded(name, allowed)

    # Turns

    def begin_turn(
        self,
        turn: int,
        session: str,
        project: str,
        text: str,
        value: JsonValue = None,
        *,
        resumes: bool = False,
    ) -> None:
        """Emit that the user says something, or answers (``resumes``) with ``value``."""
        self.turn, self.runs, self.requested = turn, [], []
        self._handoffs = self._agent_runs = 0
        self.waits_for, self.is_cut = "", False
        is_new = session not in self._sessions
        if is_new:
            self._sessions[session] = Session()
        self._session, self.session = self._sessions[session], session
        if is_new:
            self.events.record_session_start(Position(session), project=project)
            self._session.project = project
            self._session.initial_state = self.gifts.for_session(project)
            self._give()
        message = 0 if resumes else self.numbers.messages + 1
        self.events.record_turn_start(self.at(), message=message)
        if resumes:
            self.events.record_answer(self.at(), value=value)
        else:
            self.log(Message("user", text, data=value))

    def _give(self) -> None:
        """Emit a session's initial state; given messages join its log."""
        if not self.initial_state:
            return
        turn, self.turn = self.turn, 0
        update: dict[str, JsonValue] = {}
        for name, value in self.initial_state.items():
            if name == self.conversation and isinstance(value, list):
                value = [canonical(self.log(_given_message(message))) for message in value]
            update[name] = {DECLARED_RESET: value}
        self.events.record_state_update(self.at(), update=update, cause="given")
        self.turn = turn

    def end_turn(
        self,
        reply: JsonValue,
        error: e.ErrorFacts | None,
        unused: tuple[e.UnusedLines, ...],
        unused_results: tuple[e.UnusedResults, ...] = (),
    ) -> None:
        """Emit that the pipeline waits for the user again, or has failed."""
        for run in self.runs:
            if not run.is_over:
                self.end_run(run, "done" if error is None else "failed")
        self.events.record_turn_end(
            self.at(),
            reply=canonical(reply),
            error=error,
            unused=unused,
            waits_for=self.waits_for if error is None else "",
            unused_results=unused_results,
        )

    # Runs

    def begin_run(
        self, agent: str, input: JsonValue = None, *, group: str = "", branch: str = "",
        outer: str = "", parent: str = "", channels: tuple[str, ...] | None = None,
        call_id: str = "", is_node: bool = False, state: str = "", received: JsonValue = None,
        task: JsonValue = None, after: tuple[str, ...] = (), goal: str = "",
    ) -> Run:  # fmt: skip
        """Start an agent run; a requested handoff to the agent is now made.

        Its input is the handoff's payload, else ``input``; a ``task`` takes precedence. A run of a
        parallel ``group`` opens a branch; any other is in ``branch``. ``channels`` are those that
        it can read, if not all. ``call_id`` is the tool call that it executes: several of one
        message form a group too. A graph's node (``is_node``) counts for the limit of runs once it
        has called a model. ``state`` names the graph's state that it uses, ``received`` is input
        that no channel holds; ``after`` are the runs that led to it, ``goal`` is the goal that it
        works for.
        """
        allowed = self.limits.agent_runs_per_turn
        if allowed is not None and self._agent_runs >= allowed:
            self.limit("agent_runs_per_turn", self._agent_runs + 1)
        self._agent_runs += not is_node
        self.numbers.runs += 1
        run = Run(f"r{self.numbers.runs}", agent, is_node=is_node)
        if received is not None:
            received = self._plain(received)
        run.call_facts = CallFacts(state, received, channels)
        if agent not in self.handoff_tools.agents:
            self._know(agent)
        order = None
        for request in self.requested:
            if request.to_agent == agent:
                order = request
                break
        handoff = source = ""
        if order is not None:
            self.requested.remove(order)
            self._handoffs += 1
            handoff, source = order.handoff, order.from_agent
            if parent and parent == order.run:
                order = replace(order, mode="delegate")
            payload = order.payload if order.payload is not None else order.query
            input = payload if payload is not None else input
            self.events.record_handoff(self._at_request(order), order, depth=self._handoffs)
        self.runs += (run,)
        input = input if task is None else task
        self.events.record_agent_start(
            Position(self.session, self.turn, agent, run.id),
            input=None if input is None else self._plain(input),
            handoff=handoff, handoff_from=source, group=group, channels=channels, after=after,
            branch=run.id if group else branch, outer=outer, parent=parent,
            call_id=call_id, state=state, received=run.call_facts.received, goal=goal,
        )  # fmt: skip
        return run

    def _know(self, agent: str) -> None:
        """Record that an agent exists; an earlier tool call may turn out to be a handoff."""
        tools = self.handoff_tools
        version = tools.version
        tools.know((agent,))
        if tools.version == version:
            return
        waiting = [
            request
            for request in self._session.requests.values()
            if request.run in self.runs and not request.is_told and not request.call.is_handoff
        ]
        if waiting and tools.target_of(waiting[-1].call.name) == agent:
            request = waiting[-1]
            self._session.turn_out(request, agent)
            self._hand_over_by(request.call, agent, request.run)

    def begin_marked(self, agent: str, around: Run | None) -> Run:
        """Begin an annotated run; it receives the input of the run ``around`` it."""
        call_facts = around.call_facts if around is not None else CallFacts()
        return self.begin_run(
            agent,
            channels=call_facts.channels,
            state=call_facts.state,
            received=call_facts.received,
        )

    def begin_group(self) -> str:
        """Return the id of a new parallel group."""
        self.numbers.groups += 1
        return f"g{self.numbers.groups}"

    def interrupted(self, run: Run, question: JsonValue) -> None:
        """Record an agent's question to the user; its run is over until there is an answer."""
        self.events.record_question(self.at(run), question=canonical(question))
        self.waits_for = self.waits_for or run.id
        self.end_run(run, "interrupted")

    def end_run(
        self, run: Run, status: str = "done", output: JsonValue = None, *, is_null: bool = False
    ) -> None:
        """Record the end of a run. Without ``output``, its output is its last message.

        ``is_null``: the output is known to be null.
        """
        if run.is_over:
            return
        run.is_over = True
        final = run.final
        if output is None and final is not None and not is_null:
            value = value_said(final)
            output = final.content if value is None else value
        self.events.record_agent_end(
            Position(self.session, self.turn, run.agent, run.id),
            status=status,
            output=self._plain(output),
            message=final.number if final is not None else 0,
        )

    @contextmanager
    def end_on_error(self, run: Run) -> Iterator[None]:
        """End a run as failed, or as cancelled, if the code inside raises; the exception passes.

        Example::

            with recorder.end_on_error(run):
                result = agent.run(task)
            recorder.end_run(run, output=result)
        """
        try:
            yield
        except BaseException as problem:
            with self.lock:
                self.end_run(run, status_after(problem))
            raise

    def open_run(self, agent: str) -> Run | None:
        """Return the agent's last open run of this turn; None if there is none."""
        return next((r for r in reversed(self.runs) if r.agent == agent and not r.is_over), None)

    # The log

    def log(self, message: Message, run: Run | None = None, agent: str | None = None) -> Message:
        """Append a message to the session's log, under the next number; ``agent`` has said it."""
        return self._append(message, print_of(message), run, agent)

    def _append(
        self, message: Message, mark: Print, run: Run | None, agent: str | None = None
    ) -> Message:
        """Append a message whose print is known."""
        self.numbers.messages = number = self.numbers.messages + 1
        agent = message.agent if agent is None else agent
        message = replace(message, id=f"m{number}", turn=self.turn, agent=agent)
        self._session.add(message, mark, number)
        self.events.record_message(
            Position(self.session, self.turn, agent or "", run.id if run is not None else ""),
            message=message,
            tokens=tokens_of(message, self.count),
        )
        return message

    def known(self, message: Message, run: Run | None = None) -> Message:
        """Return a message as it is in the log; append it if it is new."""
        ours = self._ours(message)
        mark = print_of(ours)
        numbers = self._session.log.get(mark)
        if numbers:
            return replace(_said_by(ours, run), id=f"m{numbers[-1]}")
        return self._joined(ours, mark, run)

    def _joined(self, ours: Message, mark: Print, run: Run | None) -> Message:
        """Append a message to the log that first appears in a request.

        The framework wrote it, for example.
        """
        return self._arrived(_said_by(ours, run), mark, run)

    def logged(self, messages: Sequence[Message], run: Run | None = None) -> list[Message]:
        """Return messages as they are in the log; append new ones."""
        latest, results = self._session.latest, list[Message]()
        for message in [*map(self._ours, messages)]:
            mark = print_of(message)
            results += (latest[mark] if mark in latest else self._joined(message, mark, run),)
        return results

    def references_of(
        self, messages: Sequence[Message], channel: str, run: Run | None = None
    ) -> References:
        """Return references to the messages of a list that is reported repeatedly.

        The list has mostly grown since: its old front is not looked up again.
        """
        session = self._session
        reading = session.readings.of(
            ("list", channel), messages, self._ours, self.handoff_tools.version, self.count
        )
        references = reading.references
        if reading.repeats != session.repeats:
            # A repeated message means its last occurrence, in all places.
            references.clear()
        reading.repeats, start = session.repeats, len(references)
        log, counters = session.log, self.numbers
        for message, mark in zip(reading.messages[start:], reading.prints[start:], strict=True):
            if mark in log:
                number = log[mark][-1]
            else:
                self._joined(message, mark, run)
                number = counters.messages
            references += ({"$message": number},)
        return References(references)

    # Model calls

    def set_output_tools(self, run: Run, tools: Mapping[str, str]) -> None:
        """Set the tools that the run's model calls to give the run's output.

        ``tools`` maps each tool to the argument that holds the output, or to an empty text if the
        arguments are the output. From the next model call on, a `json:` reply line is served as a
        call of one of these tools, and their calls are not reported as tool calls. Example::

            recorder.set_output_tools(run, {"final_answer": "answer"})
        """
        run.output_tools = tools

    def record_request(
        self,
        run: Run,
        messages: Sequence[Message],
        offers: Sequence[Offer],
        settings: Mapping[str, JsonValue],
        *,
        hidden: str = "",
    ) -> str:
        """Emit a context that was sent; return the call's id.

        System messages at its front are made for it, all others are part of the log.
        """
        run.model_calls += 1
        if run.is_node and run.model_calls == 1:
            self._agent_runs += 1
        allowed = self.limits.model_calls_per_run
        if allowed is not None and run.model_calls > allowed:
            self.limit("model_calls_per_run", run.model_calls)
        session, front, tokens = self._session, 0, 0
        parts: list[e.Part] = []
        for message in messages:
            if message.role != "system":
                break
            tokens += (size := tokens_of(message, self.count))
            parts.append(e.Made("", replace(message, agent=run.agent), size))
            front += 1
        words, count = self.handoff_tools.version, self.count
        if session.groups:
            session.come_back(run.agent, run.id, messages)
        reading = session.readings.of(
            ("agent", run.agent),
            messages[front:] if front else messages,
            lambda message: self._ours(message, run.agent),
            words,
            count,
        )
        rest, prints = reading.messages, reading.prints
        if run.agent not in session.streams:
            session.streams[run.agent] = SentStream(f"{self.session}/{run.agent}")
        stream = session.streams[run.agent]
        tokens += sum(reading.tokens)
        cuts = (*run.lasting_cuts, *run.cuts)
        run.cuts = ()
        if rest or cuts:
            parts += (stream.take(prints, partial(self._numbered, rest, prints, run), cuts),)
        if offers:  # A tool may turn out to be a handoff: the sink holds what follows back.
            self.events.send_to()
        for offer in offers:
            self.offered[offer.name] = offer.schema
        self.numbers.model_calls += 1
        call = f"c{self.numbers.model_calls}"
        at = Position(self.session, self.turn, run.agent, run.id)
        self.events.record_context(
            at,
            call=call,
            parts=tuple(parts),
            tools=tuple([offer.name for offer in offers]) if offers else (),
            settings=(canonical(settings) or None) if settings else None,
            tokens=tokens,
            budget=self.limits.context_tokens or 0,
            handoffs=self.handoff_tools.targets_of(offers) if offers else (),
            handoff_tools=tuple(self.handoff_tools.among(offers)) if offers else (),
            hidden=hidden,
        )
        self.events.record_model_call(at, call=call)
        return call

    def filtered(
        self,
        run: Run,
        before: Sequence[Message],
        after: Sequence[Message],
        by: str,
        *,
        lasting: bool = False,
    ) -> None:
        """Record that the filter ``by`` changed a history for the run's next model call.

        ``lasting``: for all its later calls. Consecutive filters are reported one by one. System
        messages are no part of a history.
        """
        own_messages = [self._ours(message) for message in before if message.role != "system"]
        numbers = self._numbered(
            own_messages, [print_of(message) for message in own_messages], run, []
        )
        known = [
            replace(message, id=f"m{number}")
            for message, number in zip(own_messages, numbers, strict=True)
        ]
        cuts = cuts_between(known, [self._ours(message) for message in after], by)
        if lasting:
            run.lasting_cuts = (*run.lasting_cuts, *cuts)
        else:
            run.cuts = (*run.cuts, *cuts)

    def _ours(self, message: Message, agent: str = "") -> Message:
        """Return a message with simkit's ids, and with its handoffs marked."""
        if not message.calls and not message.call_id:
            return message
        calls = tuple(self._our_call(call, agent) for call in message.calls)
        call_id = self.call_id(message.call_id) if message.call_id else ""
        return replace(message, calls=calls, call_id=call_id)

    def _our_call(self, call: ToolCall, agent: str) -> ToolCall:
        target = self.handoff_tools.target_of(call.name, call.args) or ""
        ours = self._session.known_again(call.id, call.name, call.args, agent)
        return call_of(ours or self.call_id(call.id), call.name, call.args, target)

    def _numbered(
        self, messages: Sequence[Message], prints: Sequence[Print], run: Run, known: list[int]
    ) -> list[int]:
        """Return each message's number in the log; add new messages."""
        start = len(known)
        numbers = self._session.numbers_of(prints[start:], self.numbers.messages + 1)
        if 0 not in numbers:
            return [*known, *numbers]
        for place, number in enumerate(numbers):
            if not number:
                self._arrived(messages[start + place], prints[start + place], run)
                numbers[place] = self.numbers.messages
        return [*known, *numbers]

    def _arrived(self, message: Message, mark: Print, run: Run | None) -> Message:
        """Append a message that first appears in a context: mostly a tool result."""
        request = self._session.requests.get(message.call_id) if message.role == "tool" else None
        if message.role == "tool" and not message.call_id and run is not None:
            # Clients may leave out a call that equals another, and send both results.
            pending = (
                pending_request
                for pending_request in self.pending(message.tool)
                if not pending_request.call.is_handoff
            )
            request = next(
                (pending_request for pending_request in pending if pending_request.run is run), None
            )
        if request is None:
            if message.role == "assistant":
                # One that comes back with its thinking differs from the one that others see.
                bare_mark = mark if message.data is None else print_of(without_thinking(message))
                bare = self._session.latest.get(bare_mark)
                author = self._session.voices.get(message.content) or (bare.agent if bare else None)
                if author:
                    message = replace(message, agent=author)
            return self._append(message, mark, run)
        own_message = replace(message, agent=request.agent, tool=request.call.name)
        if is_failed(own_message) and not request.call.is_handoff:
            self.tool_answered(request, error=own_message.content)
        elif not request.call.is_handoff:
            self.tool_answered(
                request,
                own_message.data if own_message.data is not None else _value(own_message.content),
            )
        elif run is request.run and not run.is_over:
            # The agent that asked continues, and has an answer instead of a successor.
            for pending_request in [
                pending_request
                for pending_request in self.requested
                if pending_request.call_id == request.call.id
            ]:
                self.refused(pending_request, own_message.content)
        return self.log(own_message, request.run)

    def replied(
        self, run: Run, call: str, message: Message, kind: str, usage: Usage | None
    ) -> Message:
        """Emit a model's answer, with the handoffs and tools that it calls."""
        thinking = ""
        if message.data is not None:
            thinking = thinking_of(message) or ""
            message = without_thinking(message)
        if message.calls or message.call_id:
            message = self._ours(message)
        reply = self.log(message, run, run.agent)
        if reply.calls and reply.content:
            self._session.voices[reply.content] = run.agent
        if reply.calls:
            self._session.ask_together(run.agent, run.id, reply.calls)
        run.has_replied = True
        self.events.record_reply(
            Position(self.session, self.turn, run.agent, run.id),
            call=call,
            message=self.numbers.messages,
            reply=kind,
            usage=usage,
            thinking=thinking,
        )
        for reply_call in reply.calls:
            is_output = reply_call.name in run.output_tools
            self._session.ask(ToolRequest(reply_call, run.agent, run, is_output, is_output))
            if reply_call.is_handoff:
                self._hand_over_by(reply_call, reply_call.target, run)
        if not reply.calls:
            run.final = reply
        return reply

    def failed(
        self,
        run: Run,
        call: str,
        error: str,
        status: int,
        message: str,
        retry_after: float | None = None,
        partial: str = "",
    ) -> None:
        """Emit that the model did not answer, or broke off after ``partial``."""
        self.failures.add(call)
        self.events.record_model_failure(
            self.at(run),
            call=call,
            error=error,
            status=status,
            message=message,
            retry_after_ms=round((retry_after or 0) * 1_000),
            partial=partial,
        )

    # Tools

    def call_id(self, foreign: str) -> str:
        """Return simkit's id for a foreign tool call id; a new one on first use."""
        ids = self._session.ids
        if foreign not in ids:
            ids[foreign] = self.new_call_id()
        return ids[foreign]

    def new_call_id(self) -> str:
        """Return an id for a tool call."""
        self.numbers.calls += 1
        return self._session.served(f"call{self.numbers.calls}", "")

    def served_id(self, ours: str, prefix: str) -> str:
        """Return the id of a call in served responses, in the provider's format."""
        return self._session.served(ours, prefix)

    def call_request(self, foreign: str) -> ToolRequest | None:
        """Return the tool call that a model asked for under a foreign id; None if there is none."""
        return self._session.requests.get(self._session.ids.get(foreign, ""))

    def was_asked_for(self, tool: str) -> bool:
        """Return whether a model has asked for a tool in this turn."""
        requests = self._session.requests.values()
        return any(request.call.name == tool and request.run in self.runs for request in requests)

    def pending(self, tool: str) -> Iterator[ToolRequest]:
        """Yield the calls of a tool that were requested and not executed, oldest first."""
        for request in self._session.requests.values():
            if request.call.name == tool and not request.is_told:
                yield request

    def tool_called(self, request: ToolRequest, args: JsonValue = None) -> None:
        """Emit that a tool is executed, with ``args`` if known, else the requested ones."""
        request.is_told = True
        call = request.call
        self.events.record_tool_call(
            self.at(request.run, request.agent),
            call_id=call.id,
            tool=call.name,
            args=call.args if args is None else args,
        )

    def tool_answered(
        self, request: ToolRequest, result: JsonValue = None, error: str = ""
    ) -> None:
        """A tool came back."""
        if request.is_answered:
            return
        if not request.is_told:
            self.tool_called(request)
        request.is_answered = True
        at, call = self.at(request.run, request.agent), request.call
        if error:
            self.events.record_tool_failure(at, call_id=call.id, tool=call.name, error=error)
        else:
            self.events.record_tool_result(
                at, call_id=call.id, tool=call.name, result=canonical(result)
            )

    def called_by_code(self, tool: str, args: JsonValue, run: Run | None) -> ToolRequest:
        """Return a call that the pipeline's own code made, without a model."""
        call = ToolCall(self.new_call_id(), tool, canonical(args))
        return ToolRequest(call, run.agent if run is not None else "", run or Run("", ""))

    # Handoffs

    def hand_over(
        self,
        source: str,
        to: str,
        payload: JsonValue = None,
        *,
        type: str | None = None,
        query: str | None = None,
        run: Run | None = None,
        call_id: str = "",
        is_taken: bool = False,
    ) -> None:
        """Emit a handoff request; the handoff is made when the target starts.

        ``is_taken``: a function of the application gets the payload.
        """
        self.numbers.handoffs += 1
        payload = canonical(payload)
        self.limit("handoffs_per_turn", self._handoffs + len(self.requested) + 1)
        request = self.events.record_handoff_request(
            self.at(run, source),
            handoff=f"h{self.numbers.handoffs}",
            from_agent=source,
            to_agent=to,
            type=type or "handoff",
            mode="transfer",
            query=query,
            payload=payload,
            call_id=call_id,
            is_taken=is_taken,
        )
        self.requested.append(request)

    def pending_handoffs(self, run: Run) -> list[e.HandoffRequested]:
        """Return the handoffs that a run has asked for and that are neither made nor rejected."""
        return [request for request in self.requested if request.run == run.id]

    def refused(self, request: e.HandoffRequested, reason: str) -> None:
        """Emit that a requested handoff is not made."""
        self.requested.remove(request)
        self.events.record_rejection(self._at_request(request), request, reason=reason)

    def _at_request(self, request: e.HandoffRequested) -> Position:
        return Position(self.session, self.turn, request.agent, request.run)

    def _hand_over_by(self, call: ToolCall, to: str, run: Run) -> None:
        """Emit the handoff that a model asks for by a call."""
        payload = told_by(self.handoff_tools.passed_by(call.name, call.args))
        self.hand_over(
            run.agent,
            to,
            payload.payload,
            type=payload.type,
            query=payload.query,
            run=run,
            call_id=call.id,
            is_taken=self.handoff_tools.is_taken(call.name),
        )

    # State, and values that outlive a turn

    def _plain(self, value: Any) -> JsonValue:
        """Return a value with foreign call ids replaced by simkit's."""
        names = self._session.as_served
        if not names and (type(value) is str or value is None):
            return value
        return _renamed(canonical(value), names) if names else canonical(value)

    def wrote(
        self,
        update: Mapping[str, Any],
        agent: str = "",
        run: Run | None = None,
        *,
        values: Mapping[str, Any] | None = None,
        cause: str = "writes",
        group: str = "",
        branch: str = "",
        state: str = "",
    ) -> None:
        """Emit a write of channels.

        ``values`` are the new values of channels without a built-in reducer.
        """
        partial_channels = self._partial_channels
        new_update, new_values = self.events.last_values.shorten_all(
            self.session, state, update, values,
            partial_channels[state] if state in partial_channels else (),
            self._plain if self._session.as_served else canonical,
        )  # fmt: skip
        self.events.record_state_update(
            Position(self.session, self.turn, agent, run.id if run is not None else ""),
            update=new_update,
            values=new_values,
            cause=cause,
            group=group,
            branch=branch,
            state=state,
        )

    def learn_channels(self, channels: Mapping[str, e.ChannelFacts]) -> None:
        """Learn the channels of sessions before the first is written."""
        self._partial_channels[""] = changes.partial_channels(channels)

    def state_opened(
        self, channels: Mapping[str, e.ChannelFacts], around: str, shares: tuple[str, ...]
    ) -> str:
        """Emit that an inner graph begins; return the name of its state."""
        self.numbers.states += 1
        name = f"x{self.numbers.states}"
        self._partial_channels[name] = changes.partial_channels(channels)
        self.events.record_inner_state(
            self.at(), state=name, channels=channels, around=around, shares=shares
        )
        return name

    def saved(self, run: Run | None = None) -> None:
        """Emit that a session's state was saved, after ``run`` if that caused it."""
        self.numbers.checkpoints += 1
        checkpoint = self._checkpoints[self.session] = f"k{self.numbers.checkpoints}"
        self.events.record_checkpoint(self.at(run), checkpoint=checkpoint)

    def restored(self) -> None:
        """Emit that the session's last saved state was restored."""
        checkpoint = self._checkpoints.get(self.session, "")
        self.events.record_restore(self.at(), checkpoint=checkpoint)

    def read(self, channel: str, scope: str, agent: str = "", run: Run | None = None) -> None:
        """Emit that a long-lived channel was read from its store."""
        self.events.record_store_read(self.at(run, agent), channel=channel, scope=scope)

    def stored(self, channel: str, scope: str, agent: str = "", run: Run | None = None) -> None:
        """A long-lived channel was written to its store."""
        self.events.record_store_write(self.at(run, agent), channel=channel, scope=scope)


def _renamed(value: JsonValue, names: Mapping[str, str]) -> JsonValue:
    """Return a value with texts that equal one of the names replaced."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, dict):
        return {key: _renamed(item, names) for key, item in value.items()}
    return [_renamed(item, names) for item in value] if isinstance(value, list) else value


def _said_by(message: Message, run: Run | None) -> Message:
    """Return a model's message with the current agent as its author, if it has none."""
    if message.role == "assistant" and not message.agent and run is not None:
        return replace(message, agent=run.agent)
    return message


def _value(text: str) -> JsonValue:
    """Return a tool's text parsed as JSON, or the text."""
    if not text.startswith(("{", "[", '"')):
        return text
    try:
        return decode(text)
    except MsgspecError:
        return text


def _given_message(value: JsonValue) -> Message:
    """Return a given value as a message; code may add fields of its own to it."""
    try:
        return as_message(value, None)
    except WriteInvalid:
        return message_from(value["role"], value.get("content", ""), value.get("agent"))


STOPS: Final = (CancelledError, GeneratorExit)
"""Exceptions that stop a running agent: a task is cancelled, or a stream is closed early."""


def status_after(problem: BaseException | None, *stops: type[BaseException]) -> str:
    """Return the status of a run that an exception ended.

    ``stops`` are a framework's own exceptions that stop an agent.
    """
    if problem is None:
        return "done"
    return "cancelled" if isinstance(problem, (*STOPS, *stops)) else "failed"
