"""The gate through which a scenario's model calls go: read, attributed, written down, answered."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from simkit import messages as m
from simkit.adapters.activations import Run
from simkit.adapters.attribution import Attribution
from simkit.adapters.chains import Chains
from simkit.adapters.handoff_calls import agents_named, args_for, misfit_of, passes_to
from simkit.adapters.hearing import Call, concluded, told
from simkit.adapters.output_calls import args_of, output_tool
from simkit.adapters.refused import refusal_of, sent_at
from simkit.adapters.scribe import Scribe
from simkit.context.tokens import tokens_of
from simkit.errors import (
    CallUnattributed,
    CassetteMissed,
    NetworkRefused,
    PipelineError,
    RunHalted,
    ScriptBroken,
    ScriptMisfit,
    SimkitError,
    WireInvalid,
)
from simkit.failures import BROKEN_OFF, FAILURES
from simkit.marks import Mark, current_mark
from simkit.messages import Answer, JsonValue, Message, ToolCall, Usage
from simkit.models.faults import FaultPlan
from simkit.ports import Model, ModelRequest
from simkit.runtime.parsing import parsed
from simkit.source import near, path_text
from simkit.transports.gate import Decision, Forward
from simkit.wire.counting import counted
from simkit.wire.failing import patience_ms
from simkit.wire.http import HttpAnswer, HttpRequest, HttpResponse, bytewise
from simkit.wire.protocols import protocol_of
from simkit.wire.values import Asked, Offer, Said

_encode: Final = msgspec.json.Encoder().encode


class _Sent(msgspec.Struct, frozen=True):
    """What an agent asked last, and how often."""

    call: Call
    attempt: int


class Answerer(Protocol):
    """Who answers what a script does not: recorded traffic, or the provider itself."""

    is_live: bool
    """Whether requests may reach the network."""

    def decide(self, call: Call, scribe: Scribe, told: Callable[[HttpAnswer], None]) -> Decision:
        """Answers a model call, or lets it through; raises PipelineError where it cannot.

        ``told`` is called with the whole answer, as soon as that is there.
        """

    def decide_other(self, request: HttpRequest, agent: str, scribe: Scribe) -> Decision | None:
        """Answers a request that is no model call, or lets it through; None to do neither."""

    def records(self, tool: str) -> bool:
        """Whether it carries out a tool's calls, or sees to it that they are."""

    def carried_out(
        self, tool: str, args: JsonValue, agent: str, scribe: Scribe, real: Callable[[], Any]
    ) -> Any:
        """Returns a tool's result, or what becomes it: a recorded one, or that of ``real``."""

    def unplayed(self) -> list[str]:
        """Returns what was recorded and answered nothing, a line for each."""

    def drifted(self) -> list[str]:
        """Returns where another request was answered than was recorded, a line for each."""


class ModelGate:
    """Takes every request that the pipeline sends while a scenario runs.

    It is entered from any thread; one request at a time is written down.
    """

    def __init__(
        self,
        scribe: Scribe,
        attribution: Attribution,
        script: ScriptedAnswers,
        others: Answerer | None,
        host_is_allowed: Callable[[str], bool],
        plan: FaultPlan,
        run_now: Callable[[], Run | None] = lambda: None,
        give_up: Callable[[], None] = lambda: None,
        wait_turn: Callable[[], None] = lambda: None,
        rename: Callable[[Run, str], None] = lambda run, agent: None,
        around: Callable[[], Run | None] = lambda: None,
    ) -> None:
        """``run_now`` is asked which activation the calling code belongs to, where none is
        marked; ``give_up`` is called when the run cannot go on. ``wait_turn`` lets threads be
        taken one after the other, in an order that is the same every time; ``rename`` gives a run
        the name that a rule has for its agent. ``around`` is asked which activation the code of a
        block with a name stands in."""
        self._scribe, self._attribution = scribe, attribution
        self._script, self._others = script, others
        self._host_is_allowed, self._plan, self._run_now = host_is_allowed, plan, run_now
        self._give_up, self._rename, self._around = give_up, rename, around
        self.wait_turn = wait_turn
        self._chains = Chains()
        self._last: dict[tuple[str, str], _Sent] = {}
        """What each agent of a session asked last."""
        self.lock: Final = scribe.lock
        """Held while something is written down."""
        self.halted: SimkitError | None = None
        """Why the run cannot go on, also where the pipeline's code has swallowed it."""
        self.last_failure: m.Fails | None = None
        """The failure that was served last."""

    def take(self, request: HttpRequest) -> Decision:
        """Answers a request; raises RunHalted where the run cannot go on."""
        self.wait_turn()
        with self.lock:
            if self.halted is not None:
                raise RunHalted(self.halted)
            try:
                return self._take(request)
            except SimkitError as problem:
                raise self.halt(problem) from problem

    def halt(self, problem: SimkitError) -> RunHalted:
        """Remembers why the run cannot go on; returns what says so to the pipeline's code."""
        with self.lock:
            self.halted = self.halted or problem
        self._give_up()
        return RunHalted(problem)

    def _take(self, request: HttpRequest) -> Decision:
        protocol = protocol_of(request)
        if protocol is None:
            return self._something_else(request)
        if not self._scribe.turn:
            raise CallUnattributed(
                f"the pipeline calls a model while it is built: {request.method} {request.url}"
                f"{sent_at()}.\nCall models only when the user says something: a function without "
                "parameters is called to make the pipeline, one of the message, "
                "`def answer(text): …`, to answer it."
            )
        try:
            asked = self._chains.followed(protocol.asked(request))
        except WireInvalid as problem:
            raise CallUnattributed(
                f"{request.method} {request.url} is no request that {protocol.name} knows: "
                f"{problem}"
            ) from problem
        run = self._run_of(asked, request)
        attempt = self._attempt(run, asked)
        call = Call(
            self._scribe.sent(
                run, asked.messages, asked.offers, _settings(asked), hidden=asked.hidden
            ),
            run, asked, protocol, request, self._chains,
        )  # fmt: skip
        self._last[run.agent, self._scribe.session] = _Sent(call, attempt)
        try:
            return self._disturbed(call) or self._answered(call)
        except PipelineError as problem:
            is_missed = isinstance(problem, CassetteMissed)
            kind = "no_recording" if is_missed else "no_reply_line"
            self._scribe.failed(run, call.id, kind, 0, str(problem))
            raise

    def _attempt(self, run: Run, asked: Asked) -> int:
        """Returns which attempt at one call this is; says so where it is not the first."""
        last = self._last.get((run.agent, self._scribe.session))
        if (
            last is None
            or last.call.id not in self._scribe.failures
            or last.call.asked.messages != asked.messages
        ):
            return 1
        self._scribe.retried(run, last.call.id, last.attempt + 1)
        return last.attempt + 1

    def _disturbed(self, call: Call) -> Decision | None:
        """Returns the planned failure of a call, where one is planned."""
        planned = self._plan.due(call.run.agent)
        if planned is None:
            return None
        self._scribe.disturbed(call.run, planned.words)
        return self._failing(call, planned.fails)

    def _answered(self, call: Call) -> Decision:
        if self._others is not None and not self._script.has_lines(call.run.agent):
            is_marked = self._script.is_marked(call.run)
            return self._others.decide(
                call, self._scribe, lambda answer: self._hear(call, is_marked, answer)
            )
        decision = self._script.decide(call)
        if isinstance(decision, m.Fails):
            return self._failing(call, decision)
        return decision

    def _hear(self, call: Call, is_marked: bool, answer: HttpAnswer) -> None:
        """Writes down what a provider has answered, from whichever thread reads it."""
        with self.lock:
            try:
                self.last_failure = told(call, answer, self._scribe, is_marked) or self.last_failure
            except SimkitError as problem:
                # The code that reads the answer could take it for the provider's failure.
                self.halt(problem)

    def _failing(self, call: Call, fails: m.Fails) -> Decision:
        self.last_failure = fails
        answer = call.protocol.failed(call.id, fails, call.asked)
        partial = ""
        if fails.kind in BROKEN_OFF and call.asked.is_streamed and isinstance(answer, HttpResponse):
            partial = call.protocol.heard(answer, call.asked).message.content
        if fails.kind in ("timeout", "stall"):
            clock = self._scribe.clock
            clock.advance_to(clock.now() + (patience_ms(call.request) or 0))
        self._scribe.failed(
            call.run, call.id, fails.kind, fails.status, fails.message, fails.retry_after, partial
        )
        return answer

    def _run_of(self, asked: Asked, request: HttpRequest) -> Run:
        mark = current_mark()
        if mark is not None:
            if mark.run is None or mark.run.is_over:
                mark.run = self._scribe.begin_marked(mark.agent, self._around())
            run: Run = mark.run
            return run
        known = self._run_now()
        agent = self._attribution.agent_of(asked, request, known.agent if known else "")
        if known is not None:
            if known.agent == agent:
                return known
            if not known.model_calls:
                self._rename(known, agent)
                return known
        return self._scribe.open_run(agent) or self._scribe.begin_run(agent)

    def _something_else(self, request: HttpRequest) -> Decision:
        """A request that is no model call: the tools' business, or an outage waiting to happen."""
        if self._host_is_allowed(request.url):
            self._scribe.unread(request)
            return Forward(None)
        try:
            decision = self._of_others(request)
        except CassetteMissed:
            decision = self.counted(request)
            if decision is None:
                raise
            return decision
        if decision is not None:
            self._scribe.unread(request)
            return decision
        decision = self.counted(request)
        if decision is None:
            raise refusal_of(request)
        return decision

    def _of_others(self, request: HttpRequest) -> Decision | None:
        """Returns what recorded traffic, or the provider, answers to what is no model call."""
        if self._others is None:
            return None
        mark = current_mark()
        agent = mark.agent if mark is not None else ""
        return self._others.decide_other(request, agent, self._scribe)

    def counted(self, request: HttpRequest) -> HttpResponse | None:
        """Returns how many tokens a context has, to a request that asks that; None for others."""
        count = self._scribe.count
        try:
            return counted(
                request, lambda messages: sum(tokens_of(m, count) for m in messages),
                self._chains.followed,
            )  # fmt: skip
        except WireInvalid as problem:
            raise NetworkRefused(
                f"{request.method} {request.url} counts no context that simkit knows: {problem}",
                "", None,
            ) from problem  # fmt: skip

    # What the pipeline's code says of itself

    def agent_began(self, mark: Mark) -> None:
        """An agent went to work."""
        self.wait_turn()
        with self.lock:
            mark.run = self._scribe.begin_marked(mark.agent, self._around())

    def agent_ended(self, mark: Mark, problem: BaseException | None) -> None:
        """It is done, or has failed."""
        self.wait_turn()
        with self.lock:
            if mark.run is not None:
                self._scribe.end_run(mark.run, _status_of(problem))

    def handed_over(
        self, source: str, to: str, payload: Any, type: str | None, query: str | None
    ) -> None:
        """Control goes to another agent."""
        self.wait_turn()
        with self.lock:
            runs = self._scribe.runs
            run = next((r for r in reversed(runs) if not source or r.agent == source), None)
            self._scribe.hand_over(
                source or (run.agent if run is not None else ""), to, payload, type=type,
                query=query, run=run,
            )  # fmt: skip

    def state_changed(self, agent: str, update: dict[str, Any]) -> None:
        """Channels have new values."""
        self.wait_turn()
        with self.lock:
            self._scribe.wrote(update, agent)


class ScriptedAnswers:
    """Answers model calls from the scenario's reply lines, in the provider's words."""

    def __init__(
        self, scribe: Scribe, model: Model, has_lines: Callable[[str], bool],
        is_marked: Callable[[Run], bool],
    ) -> None:  # fmt: skip
        """``is_marked`` says whether user code itself says when a run is over."""
        self._scribe, self._model, self.has_lines = scribe, model, has_lines
        self.is_marked = is_marked
        self.misfit = ""
        """What was wrong with the handoff that was answered last, by its tool's schema."""

    def decide(self, call: Call) -> Decision | m.Fails:
        """Returns the next line's answer, or failure; raises ReplyMissing or ScriptBroken."""
        scribe, run, asked = self._scribe, call.run, call.asked
        self.misfit = ""
        answer = self._model.answer(self._request(call))
        patience = patience_ms(call.request)
        if patience is not None and answer.latency_ms > patience:
            known = FAILURES["timeout"]
            return m.Fails("timeout", known.status, known.message)
        scribe.clock.advance_to(scribe.clock.now() + answer.latency_ms)
        reply = answer.reply
        if isinstance(reply, m.Fails):
            return reply
        message, kind = self._message(reply, call)
        if isinstance(reply, m.Handoff):
            self.misfit = _misfit(reply, answer.line, message.calls[0], call, scribe.turn)
        usage = self._usage(answer, message, asked)
        said = scribe.replied(run, call.id, message, kind, answer.usage)
        if not self.is_marked(run):
            concluded(scribe, run, said)
        chunks = None if answer.chunks == "bytes" else answer.chunks
        message = self._in_its_ids(message, call)
        served = call.protocol.served(Said(call.id, message, usage, chunks), asked)
        if answer.chunks == "bytes":
            served = bytewise(served)
        call.chains.remember(call.protocol, served, asked, message)
        return served

    def _in_its_ids(self, message: Message, call: Call) -> Message:
        """Returns a message whose calls have ids as the provider that was asked makes them."""
        prefix, served_id = call.protocol.call_prefix, self._scribe.served_id
        calls = tuple(ToolCall(served_id(c.id, prefix), c.name, c.args) for c in message.calls)
        return msgspec.structs.replace(message, calls=calls)

    def _request(self, call: Call) -> ModelRequest:
        asked, agent = call.asked, call.run.agent
        tools = tuple(offer.name for offer in asked.offers)
        return ModelRequest(
            agent, self._scribe.turn, call.run.id, call.id, tools, asked.output,
            lambda: asked.messages, dict, lambda text: parsed(text, "auto", agent)[0],
            {offer.name: offer.schema for offer in asked.offers if offer.schema is not None},
        )  # fmt: skip

    def _message(self, reply: m.Reply, call: Call) -> tuple[Message, str]:
        """Returns what the model says, and what kind of answer it is."""
        asked, agent = call.asked, call.run.agent
        if isinstance(reply, m.Text):
            return Message("assistant", reply.text), "text"
        if isinstance(reply, m.Structured):
            tool = output_tool(asked, reply.value, call.run.output_tools)
            if tool is not None:
                # How structured output is asked of providers that know no schema for it.
                args = args_of(reply.value, tool)
                made = ToolCall(self._scribe.new_call_id(), tool.name, args)
                return Message("assistant", calls=(made,)), "calls"
            text = _encode(reply.value).decode()
            return Message("assistant", text, data=reply.value), "json"
        if isinstance(reply, m.Calls):
            calls = tuple(
                ToolCall(self._scribe.new_call_id(), line.tool, line.args) for line in reply.calls
            )
            return Message("assistant", reply.text, calls=calls), "calls"
        if isinstance(reply, m.Handoff):
            return Message("assistant", reply.text, calls=(self._handoff(reply, call),)), "handoff"
        raise ScriptBroken(
            f"agent {agent!r} is served over the wire, where no model can answer with "
            f"`{type(reply).__name__.lower()}`: providers know text, JSON, calls and errors.",
            ("turns", self._scribe.turn - 1, "replies", agent),
        )

    def _handoff(self, reply: m.Handoff, call: Call) -> ToolCall:
        """Returns the call by which the offered tools pass control to an agent."""
        tools = self._scribe.handoff_tools
        routers, target_of = tools.routers, tools.target_of
        offers = [
            offer
            for offer in call.asked.offers
            if target_of(offer.name) == reply.to
            or passes_to(offer.schema, routers.get(offer.name), reply.to)
        ]
        tool = next((one for one in offers if one.name == reply.type), next(iter(offers), None))
        if tool is None:
            names = ", ".join(_shown(offer, routers) for offer in call.asked.offers) or "none"
            targets = (target_of(offer.name) for offer in call.asked.offers)
            nearest = near(reply.to, filter(None, targets))
            hint = f" Did you mean {nearest!r}?" if nearest else ""
            raise ScriptMisfit(
                f"agent {call.run.agent!r} is offered no tool that passes control to "
                f"{reply.to!r}.{hint} Offered: {names}.\n"
                f"Name the tool under `agents: {{{reply.to}: {{handoff: …}}}}`.",
                ("turns", self._scribe.turn - 1, "replies", call.run.agent),
            )
        try:
            args = args_for(reply, tool.schema)
        except ValueError as problem:
            raise ScriptMisfit(
                f"agent {call.run.agent!r} cannot hand off to {reply.to!r} by `{tool.name}`: "
                f"{problem}. Write `payload: {{KEY: …}}`.",
                ("turns", self._scribe.turn - 1, "replies", call.run.agent),
            ) from problem
        if tool.name in routers:
            args = {routers[tool.name]: reply.to, **args}
        return ToolCall(self._scribe.new_call_id(), tool.name, args)

    def _usage(self, answer: Answer, message: Message, asked: Asked) -> Usage:
        count, said = self._scribe.count, answer.usage
        sent = said.input_tokens if said is not None else None
        back = said.output_tokens if said is not None else None
        return Usage(
            sum(tokens_of(one, count) for one in asked.messages) if sent is None else sent,
            tokens_of(message, count) if back is None else back,
        )


def _status_of(problem: BaseException | None) -> str:
    """Returns how an activation ended that ended with this."""
    if problem is None:
        return "done"
    return "cancelled" if isinstance(problem, CancelledError) else "failed"


def _shown(offer: Offer, routers: Mapping[str, str]) -> str:
    """Returns a tool's name, with the agents to which it may pass control."""
    named = agents_named(offer.schema, routers.get(offer.name))
    return f"{offer.name} (to {', '.join(named)})" if named else offer.name


def _misfit(line: m.Handoff, place: int | None, made: ToolCall, call: Call, turn: int) -> str:
    """Says what a handoff's tool takes otherwise; empty where it takes what the line says.

    It is no error by itself: how the pipeline copes with it may be what is tested.
    """
    schema = next((one.schema for one in call.asked.offers if one.name == made.name), None)
    wrong = misfit_of(made.args, schema)
    at = () if place is None else (place,)
    where = path_text(("turns", turn - 1, "replies", call.run.agent, *at))
    return (
        f"The payload of the handoff to {line.to!r} under {where} is not what `{made.name}` takes: "
        f"{wrong}."
        if wrong
        else ""
    )


def _settings(asked: Asked) -> dict[str, Any]:
    settings: dict[str, Any] = {"model": asked.model} if asked.model else {}
    settings.update(asked.settings)
    if asked.output is not None:
        settings["output"] = asked.output
    if asked.choice != "auto":
        settings["tool_choice"] = asked.choice
    return settings
