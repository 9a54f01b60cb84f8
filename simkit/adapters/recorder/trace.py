"""Records the observations of a running pipeline: turns, agent runs and model calls.

Drivers pass all observations to the recorder. It recognizes known messages, numbers new ones, and
keeps one log per session, with contexts as ranges over it, as native runs do. Events are recorded
through `simkit.trace.recorder`, as those of native runs are.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import takewhile
from typing import Final

import msgspec
from msgspec.structs import replace

from simkit.adapters.recorder.carried_over import LONG, CarriedText, is_written_in
from simkit.adapters.recorder.histories import SentStream
from simkit.adapters.recorder.left_values import holder_of
from simkit.adapters.recorder.log import LogRecorder
from simkit.adapters.recorder.sessions import CallFacts, Run, Session, ToolRequest
from simkit.core.errors import WriteInvalid
from simkit.core.messages import (
    Fails,
    JsonValue,
    Message,
    Usage,
    thinking_of,
    value_said,
    without_thinking,
)
from simkit.providers.values import Offer
from simkit.runtime.context.rendering import Counter, tokens_of
from simkit.runtime.scheduler import VirtualClock
from simkit.runtime.sessions import Gifts
from simkit.runtime.state import as_message
from simkit.spec.pipeline.model import Limits
from simkit.spec.pipeline.root_names import message_from
from simkit.trace import events as e
from simkit.trace.recorder import Position, Sink
from simkit.trace.reducers import DECLARED_RESET
from simkit.trace.store import canonical

_encode: Final = msgspec.json.Encoder().encode


class TraceRecorder(LogRecorder):
    """Records one scenario's run from a driver's observations; sessions take turns."""

    def __init__(self, sink: Sink, clock: VirtualClock, count: Counter, limits: Limits) -> None:
        super().__init__(sink, clock, count, limits)
        self.waits_for = ""
        """The run whose question the user answers next."""
        self._agent_runs = 0
        """The number of this turn's runs that count for the limit."""
        self.is_cut = False
        """Whether the scenario has ended this turn before its reply."""
        self.context_tokens = 0
        """The size of the last context."""
        self.servers_of: Callable[[str], tuple[str, ...]] = lambda tool: ()
        """Returns the servers that have an offered tool; none if none is known."""
        self.sees_inputs = True
        """Whether runs without ``channels`` receive the session's state. If not, only what is
        given as ``received`` is known."""
        self.failures: set[str] = set()
        """Model calls that failed."""
        self.offered: dict[str, tuple[Offer, int]] = {}
        """The tools offered to models so far: the latest offer of each, and its number in the
        trace."""
        self._definitions: dict[bytes, int] = {}
        """The definitions in the trace, encoded, with their numbers."""
        self.gifts = Gifts({}, lambda name: "session")
        """The scenario's given state for new sessions."""
        self.conversation = ""
        """The channel that holds the conversation."""
        self.of_framework: object = None
        """The object that the driver of an adapter shares with its instrumentation."""

    # Turns

    def begin_turn(
        self, turn: int, session: str, project: str, text: str, value: JsonValue = None, *,
        resumes: bool = False,
    ) -> None:  # fmt: skip
        """Emit that the user says something, or answers (``resumes``) with ``value``."""
        self.turn, self.runs = turn, []
        self._handoffs = self._agent_runs = 0
        self.waits_for, self.is_cut = "", False
        self.answer = canonical(value) if resumes else None
        is_new = session not in self._sessions
        if is_new:
            self._sessions[session] = Session()
        self._session, self.session = self._sessions[session], session
        self.requested = self._session.pending if resumes else []
        self._session.pending = []
        if is_new:
            self.events.record_session_start(Position(session), project=project)
            self._session.project = project
            self._session.initial_state = self.gifts.for_session(project)
            self._give()
        if self.texts is not None:
            self.texts.add_value(value)
        message = 0 if resumes else self.numbers.messages + 1
        self.events.record_turn_start(self.at(), message=message)
        if resumes:
            self.events.record_answer(self.at(), value=value)
        else:
            self.log(Message("user", text, data=value))
            if self.texts is not None:
                self.texts.add(text, "user")

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
        self.settle_answered()
        if self.texts is not None:
            self._report_carried_texts(self.at(), "", self.texts.find_in_reply(canonical(reply)))
        if self.waits_for and error is None:
            self._session.pending = self.requested
        self.events.record_turn_end(
            self.at(),
            reply=canonical(reply),
            error=error,
            unused=unused,
            waits_for=self.waits_for if error is None else "",
            unused_results=unused_results,
        )

    # Agent runs

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
        self.limit("agent_runs_per_turn", self._agent_runs + 1)
        self._agent_runs += not is_node
        self.numbers.runs += 1
        run = Run(f"r{self.numbers.runs}", agent, is_node=is_node)
        is_unseen = not self.sees_inputs and channels is None
        run.call_facts = CallFacts(state, self._plain(received), channels)
        if agent not in self.handoff_tools.agents:
            self._know(agent)
        self.settle_answered(agent)
        order = next((request for request in self.requested if request.to_agent == agent), None)
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
        self.runs.append(run)
        input = input if task is None else task
        self.events.record_agent_start(
            self.at(run),
            input=self._plain(input),
            handoff=handoff, handoff_from=source, group=group, channels=channels, after=after,
            branch=run.id if group else branch, outer=outer, parent=parent,
            call_id=call_id, state=state, received=run.call_facts.received, goal=goal,
            is_unseen=is_unseen,
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

    def last_message(self) -> Message | None:
        """Return the message without a call that an agent said last in this turn, if any did."""
        return next((run.final for run in reversed(self.runs) if run.final), None)

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
            self.at(run),
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
        marks: tuple[tuple[int, int], ...] = (),
    ) -> str:
        """Emit a context that was sent; return the call's id.

        System messages at its front are made for it, all others are part of the log.
        """
        self._count_call(run)
        session, front_parts = self._session, self._system_parts(run, messages)
        front, tokens = len(front_parts), sum(part.tokens for part in front_parts)
        parts: list[e.Part] = [*front_parts]
        if session.groups:
            session.come_back(run.agent, run.id, messages)
        reading = self._history(
            ("agent", run.agent), messages[front:], lambda message: self._ours(message, run.agent)
        )
        rest, prints = reading.messages, reading.prints
        if run.agent not in session.streams:
            session.streams[run.agent] = SentStream(f"{self.session}/{run.agent}")
        stream = session.streams[run.agent]
        self.context_tokens = tokens = tokens + sum(reading.tokens)
        cuts = (*run.lasting_cuts, *run.cuts)
        run.cuts = ()
        if rest or cuts:
            numbered = partial(self._numbered, rest, prints, run)
            parts.append(stream.take(prints, numbered, cuts, reading.names))
        at = self.at(run)
        definitions = tuple([self._definition_of(offer, at) for offer in offers])
        self.numbers.model_calls += 1
        call = f"c{self.numbers.model_calls}"
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
            definitions=definitions,
            marks=marks,
        )
        if self.texts is not None:
            self._report_carried_texts(at, call, self.texts.find_carried(messages))
        self.events.record_model_call(at, call=call)
        return call

    def schema_of(self, tool: str) -> JsonValue:
        """Return the schema of a tool's latest offer; None if no model was offered it."""
        return self.offered[tool][0].schema if tool in self.offered else None

    def _definition_of(self, offer: Offer, at: Position) -> int:
        """Return the number of a tool's definition; emit it if it is new."""
        latest = self.offered.get(offer.name)
        if latest is not None and latest[0] == offer:
            return latest[1]
        parameters = canonical(offer.schema)
        key = _encode((offer.name, offer.description, parameters, offer.strict))
        number = self._definitions.get(key, 0)
        if not number:
            number = self._definitions[key] = len(self._definitions) + 1
            servers = self.servers_of(offer.name)
            self.events.record_tool_definition(
                at,
                number=number,
                tool=offer.name,
                description=offer.description,
                parameters=parameters,
                strict=offer.strict,
                server=servers[0] if len(servers) == 1 else "",
                shared=servers if len(servers) > 1 else (),
            )
        self.offered[offer.name] = offer, number
        return number

    def look_at_variables(self, given: Collection[str]) -> None:
        """Note what earlier scenarios of this process have changed; ``given`` of this one's own."""
        if self.texts is not None:
            self.texts.look_at_variables(self.modules, given)

    def _report_carried_texts(
        self, at: Position, call: str, candidates: Iterable[CarriedText]
    ) -> None:
        texts_carried = [
            carried for carried in candidates if not is_written_in(carried.text, self.modules)
        ]
        texts_carried.sort(key=lambda carried: len(carried.text) < LONG)  # Short ones prove less.
        for carried in texts_carried[:1]:
            self.events.record_carried_text(
                at,
                call=call,
                text=carried.text,
                said_by=carried.said_by,
                scenario=carried.scenario,
                others=len(texts_carried) - 1,
                variable=holder_of(carried.text, self.modules),
            )

    def _count_call(self, run: Run) -> None:
        """Count a run's model call; raise the error of the limit that it exceeds."""
        run.model_calls += 1
        if run.is_node and run.model_calls == 1:
            self._agent_runs += 1
        self.limit("model_calls_per_run", run.model_calls)

    def _system_parts(self, run: Run, messages: Sequence[Message]) -> list[e.InlinePart]:
        """Return the system messages at the front of a context, as its first parts."""
        front = takewhile(lambda message: message.role == "system", messages)
        return [
            e.InlinePart("", replace(message, agent=run.agent), tokens_of(message, self.count))
            for message in front
        ]

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
            self._session.authors[reply.content] = run.agent
        if reply.calls:
            self._session.ask_together(run.agent, run.id, reply.calls)
        run.has_replied = True
        if self.texts is not None:
            self.texts.add(reply.content, "assistant")
            self.texts.add_value([call.args for call in reply.calls])
            self.texts.add_value(reply.data)
        self.events.record_reply(
            self.at(run),
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

    def failed(self, run: Run, call: str, fails: Fails, partial: str = "") -> None:
        """Emit that the model did not answer, or broke off after ``partial``."""
        self.failures.add(call)
        self.events.record_model_failure(
            self.at(run),
            call=call,
            error=fails.kind,
            status=fails.status,
            message=fails.message,
            retry_after_ms=round((fails.retry_after or 0) * 1_000),
            partial=partial,
        )


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
