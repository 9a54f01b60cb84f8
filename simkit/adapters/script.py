"""Scripts: the parts of a scenario that a driver needs, and answers of its reply lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec

from simkit.adapters.model_calls import ModelCall, args_of, concluded, output_tool
from simkit.adapters.recorder.handoffs import agents_named, args_for, misfit_of, passes_to
from simkit.adapters.recorder.sessions import Run
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.core import messages as m
from simkit.core.errors import PipelineError, ScriptBroken, ScriptMisfit, WireInvalid, WordUnasked
from simkit.core.messages import Answer, JsonValue, Message, ToolCall, Usage
from simkit.core.text import guess
from simkit.language.yaml import SourcePath, path_text
from simkit.providers.failures import FAILURES, patience_ms
from simkit.providers.http import HttpResponse, bytewise
from simkit.providers.values import Offer, OutgoingReply
from simkit.runtime.context.rendering import Counter, tokens_of
from simkit.runtime.models.faults import FaultPlan
from simkit.runtime.ports import Model, ModelRequest, Schedule, Tools, TurnModel, UserTurn
from simkit.runtime.running import parsed
from simkit.spec.pipeline.model import Limits
from simkit.spec.scenario.apps import App
from simkit.trace import events as e
from simkit.trace.recorder import WHOLE_RUN
from simkit.trace.store import canonical

COUNTER: Final = "chars/4"


def sectioned(facts: e.PipelineFacts, app: App) -> e.PipelineFacts:
    """Return a pipeline's facts with the sections that its file assigns."""
    agents = {
        name: msgspec.structs.replace(
            facts.agents.get(name, e.AgentFacts()),
            sections=canonical(rule.sections),
            sees=rule.sees,
        )
        for name, rule in app.agents.items()
        if rule.sections is not None or rule.sees is not None
    }
    return msgspec.structs.replace(facts, agents={**facts.agents, **agents})


def facts_of(app: App, limits: Limits) -> e.PipelineFacts:
    """Return the facts in a pipeline's file."""
    agents = {
        name: e.AgentFacts(handoffs=tuple(other for other in app.agents if other != name))
        for name in app.agents
    }
    unseen = dict(app.implements.unseen) if app.implements is not None else {}
    return e.PipelineFacts(
        name=app.pipeline,
        agents=agents,
        tokens=COUNTER,
        observes=("runs", "handoffs", "state") if app.channels else ("runs", "handoffs"),
        channels={
            name: e.ChannelFacts(c.reducer_name, c.scope, canonical(c.default), c.last)
            for name, c in app.channels.items()
        },
        unseen=tuple(sorted(unseen)),
        unseen_reasons=dict(sorted(unseen.items())),
        is_open=True,
        limits={
            "irrelevant_share": limits.irrelevant_share,
            "context_tokens": limits.context_tokens,
        },
    )


class Script(msgspec.Struct, frozen=True):
    """The parts of a scenario that a driver needs."""

    scenario: str
    seed: int
    start: str
    model: TurnModel
    tools: Tools
    has_lines: Callable[[int, str], bool]
    """Returns whether the turn at an index has reply lines for an agent."""
    agents: Callable[[], Iterable[str]]
    """Returns the agents in reply lines since the last call, including targets of handoffs."""
    limits: Limits
    plan: FaultPlan
    """The model calls that fail, whatever would answer them."""
    schedule: Schedule
    """The order in which waiting model calls are answered."""
    initial_state: Mapping[str, JsonValue] = {}
    stubs: Callable[[int], Collection[str]] = lambda index: ()
    """Returns the tools for which the turn at an index has results."""
    logs: bool = False
    """Whether the scenario claims log records."""
    remembers: bool = True
    """Whether it is noticed that a text of an earlier scenario of this process is carried over."""
    given_project: str | None = None
    """The project that gets given project channels; None means the first turn's."""

    def begin_turn(self, turn: UserTurn, recorder: TraceRecorder) -> None:
        """Begin the next turn of a pipeline that is given one turn after the other."""
        index = recorder.turn
        recorder.clock.advance_to(turn.not_before)
        recorder.handoff_tools.know(self.agents())
        recorder.begin_turn(
            index + 1, turn.session, turn.project, turn.text, turn.value, resumes=turn.resumes
        )
        self.begin_parts(index)

    def begin_parts(self, index: int) -> None:
        """Begin the turn at an index: its lines, failures, results and order."""
        for part in (self.schedule, self.model, self.plan, self.tools):
            part.begin_turn(index)

    def end_turn(
        self, reply: JsonValue, error: e.ErrorFacts | None, recorder: TraceRecorder
    ) -> None:
        """End a turn; without a reply of the pipeline, it is the last message of an agent."""
        if error is None and reply is None and not recorder.waits_for:
            last = recorder.last_message()
            reply = last.content if last is not None else None
        recorder.end_turn(reply, error, self.model.unused(), self.tools.unused())


def error_facts(problem: PipelineError, text: str = "") -> e.ErrorFacts:
    """Return the facts of a pipeline's error, with its own text or another one."""
    status = getattr(problem, "status", 0) or 0
    return e.ErrorFacts(problem.type, text or str(problem), status=status)


def record_run_start(
    recorder: TraceRecorder, script: Script, driver: str, facts: e.PipelineFacts
) -> None:
    """Record that a run begins."""
    recorder.learn_channels(facts.channels)
    recorder.events.record_run_start(
        WHOLE_RUN,
        scenario=script.scenario,
        seed=script.seed,
        start=script.start,
        driver=driver,
        pipeline=facts,
    )


_NOTHING: Final = Usage()
_WORD: Final = re.compile(r"\w+")
_WORDS: Final = ("thinking", "logprobs", "citations", "usage")


def counted_usage(answer: Answer, message: Message, context_tokens: int, count: Counter) -> Usage:
    """Return a provider's token counts: the line's, or else simkit's.

    Cached tokens are part of the input and thinking is part of the output, so that neither side is
    less than its part.
    """
    usage, thinking = answer.usage or _NOTHING, answer.extras.thinking
    thought = usage.reasoning_tokens
    if thought is None and thinking is not None:
        thought = count(thinking.text or "")
    input_tokens, output_tokens = usage.input_tokens, usage.output_tokens
    if input_tokens is None:
        cached = (usage.cached_tokens or 0) + (usage.cache_write_tokens or 0)
        input_tokens = max(context_tokens, cached)
    if output_tokens is None:
        output_tokens = tokens_of(message, count) + (thought or 0)
    thought = thought and min(thought, output_tokens)
    return Usage(
        input_tokens, output_tokens, usage.cached_tokens, usage.cache_write_tokens, thought
    )


def reported(answer: Answer, usage: Usage) -> Usage | None:
    """Return the token counts for a trace: those of a line that gives any, or that thinks."""
    return answer.usage and msgspec.structs.replace(
        answer.usage, reasoning_tokens=usage.reasoning_tokens
    )


def served_beside(
    reply: OutgoingReply, call: ModelCall, at: SourcePath
) -> tuple[HttpResponse, JsonValue]:
    """Return a reply in its provider's protocol, and its extras.

    Raise ScriptBroken at the key that the provider does not send, ScriptMisfit if this request does
    not ask for it.
    """
    try:
        served = call.protocol.served(reply, call.model_request)
        if reply.extras.is_nothing:
            return served, reply.message.data
        message = call.protocol.parse_response(served, call.model_request).message
    except WordUnasked as problem:
        raise ScriptMisfit(*_problem_text(problem, call, at)) from problem
    except WireInvalid as problem:
        raise ScriptBroken(*_problem_text(problem, call, at)) from problem
    except (AttributeError, KeyError, TypeError) as problem:
        if reply.extras.raw is None:
            raise
        odd = WireInvalid(f"the response would not be one: {problem!r}", "raw")
        raise ScriptBroken(*_problem_text(odd, call, at)) from problem
    if reply.extras.raw is not None:
        _check_raw(reply, call, at, message)
    return served, message.data if message.data is not None else reply.message.data


def _problem_text(problem: WireInvalid, call: ModelCall, at: SourcePath) -> tuple[str, SourcePath]:
    """Return why a key cannot be served, and its place."""
    word = _WORD.match(problem.field)
    where = (*at, word[0] if word and word[0] in _WORDS else "raw")
    label = f"{path_text(where)} cannot be served to {call.run.agent!r} over {call.protocol.name}"
    return f"{label}: {problem}.", where


def _check_raw(reply: OutgoingReply, call: ModelCall, at: SourcePath, message: Message) -> None:
    """Reject a ``raw`` that changes parts that the line's other keys set."""
    usual = msgspec.structs.replace(reply, extras=msgspec.structs.replace(reply.extras, raw=None))
    before = call.protocol.parse_response(
        call.protocol.served(usual, call.model_request), call.model_request
    ).message
    for field, is_same in (
        ("text", message.content == before.content),
        ("calls", message.calls == before.calls),
    ):
        if not is_same:
            raise ScriptBroken(
                f"{path_text((*at, 'raw'))} changes the reply's {field} in the words of "
                f"{call.protocol.name}. Write `{field}:`; `raw` is for what has no word.",
                (*at, "raw"),
            )


_encode: Final = msgspec.json.Encoder().encode


class ScriptedAnswers(msgspec.Struct, eq=False):
    """Answers model calls from the scenario's reply lines, in the provider's protocol."""

    _recorder: TraceRecorder
    _model: Model
    has_lines: Callable[[str], bool]
    is_marked: Callable[[Run], bool]
    """Returns whether user code itself reports the end of a run."""
    misfit: str = ""
    """The error of the last handoff by its tool's schema; empty if none."""

    def chosen(self, call: ModelCall) -> Answer:
        """Return the next line's answer, or a timeout if it comes after the client's timeout.

        Raise ReplyMissing or ScriptBroken.
        """
        answer = self._model.answer(self._request(call))
        patience = patience_ms(call.request)
        if patience is not None and answer.latency_ms > patience:
            failure = FAILURES["timeout"]
            return Answer(m.Fails("timeout", failure.status, failure.message))
        return answer

    def served(self, call: ModelCall, answer: Answer) -> HttpResponse:
        """Return an answer in the provider's protocol; raise ScriptBroken if that is impossible."""
        recorder, run, model_request = self._recorder, call.run, call.model_request
        self.misfit, reply = "", answer.reply
        message, kind = self._message(reply, call)
        if isinstance(reply, m.Handoff):
            self.misfit = _misfit(reply, answer.line, message.calls[0], call, recorder.turn)
        usage = counted_usage(answer, message, call.tokens, recorder.count)
        chunks = None if answer.chunks == "bytes" else answer.chunks
        out = self._in_its_ids(message, call)
        words = OutgoingReply(call.id, out, usage, chunks, extras=answer.extras)
        served, data = served_beside(words, call, self._place(answer, call))
        reply_ = recorder.replied(
            run, call.id, msgspec.structs.replace(message, data=data), kind, reported(answer, usage)
        )
        if not self.is_marked(run):
            concluded(recorder, run, reply_)
        if answer.chunks == "bytes":
            served = bytewise(served)
        out = msgspec.structs.replace(out, data=data)
        call.chains.remember(call.protocol, served, model_request, out)
        return served

    def _place(self, answer: Answer, call: ModelCall) -> SourcePath:
        """Return the path of a reply line in the scenario."""
        where = ("turns", self._recorder.turn - 1, "replies", call.run.agent)
        return where if answer.line is None else (*where, answer.line)

    def _in_its_ids(self, message: Message, call: ModelCall) -> Message:
        """Return a message with call ids in the format of the provider."""
        prefix, served_id = call.protocol.call_prefix, self._recorder.served_id
        calls = tuple(ToolCall(served_id(c.id, prefix), c.name, c.args) for c in message.calls)
        return msgspec.structs.replace(message, calls=calls)

    def _request(self, call: ModelCall) -> ModelRequest:
        model_request, agent = call.model_request, call.run.agent
        tools = tuple(offer.name for offer in model_request.offers)
        return ModelRequest(
            agent,
            self._recorder.turn,
            call.run.id,
            call.id,
            tools,
            model_request.output,
            lambda: model_request.messages,
            dict,
            lambda text: parsed(text, "auto", agent)[0],
            {
                offer.name: offer.schema
                for offer in model_request.offers
                if offer.schema is not None
            },
            choice=model_request.choice,
            is_one_call=model_request.is_one_call,
            allowed=model_request.allowed,
            can_think=model_request.can_think,
        )

    def _message(self, reply: m.Reply, call: ModelCall) -> tuple[Message, str]:
        """Return the model's message, and the kind of answer."""
        model_request, agent = call.model_request, call.run.agent
        if isinstance(reply, m.Text):
            return Message("assistant", reply.text), "text"
        if isinstance(reply, m.Structured):
            tool = output_tool(model_request, reply.value, call.run.output_tools)
            if tool is not None:
                # Providers without answer schemas get structured output like this.
                args = args_of(reply.value, tool, call.run.output_tools)
                call_made = ToolCall(self._recorder.new_call_id(), tool.name, args)
                return Message("assistant", calls=(call_made,)), "calls"
            text = _encode(reply.value).decode()
            return Message("assistant", text, data=reply.value), "json"
        if isinstance(reply, m.Calls):
            calls = tuple(
                ToolCall(self._recorder.new_call_id(), line.tool, line.args) for line in reply.calls
            )
            return Message("assistant", reply.text, calls=calls), "calls"
        if isinstance(reply, m.Handoff):
            return Message("assistant", reply.text, calls=(self._handoff(reply, call),)), "handoff"
        raise ScriptBroken(
            f"agent {agent!r} is served over the wire, where no model can answer with "
            f"`{type(reply).__name__.lower()}`: providers know text, JSON, calls and errors.",
            ("turns", self._recorder.turn - 1, "replies", agent),
        )

    def _handoff(self, reply: m.Handoff, call: ModelCall) -> ToolCall:
        """Return the call by which the offered tools pass control to an agent."""
        tools = self._recorder.handoff_tools
        routers, target_of = tools.routers, tools.target_of
        offers = [
            offer
            for offer in call.model_request.offers
            if target_of(offer.name) == reply.to
            or passes_to(offer.schema, routers.get(offer.name), reply.to)
        ]
        tool = next(
            (candidate for candidate in offers if candidate.name == reply.type),
            next(iter(offers), None),
        )
        if tool is None:
            names = (
                ", ".join(_offer_text(offer, routers) for offer in call.model_request.offers)
                or "none"
            )
            targets = (target_of(offer.name) for offer in call.model_request.offers)
            hint = guess(reply.to, filter(None, targets))
            raise ScriptMisfit(
                f"agent {call.run.agent!r} is offered no tool that passes control to "
                f"{reply.to!r}.{hint} Offered: {names}.\n"
                f"Name the tool under `agents: {{{reply.to}: {{handoff: …}}}}`.",
                ("turns", self._recorder.turn - 1, "replies", call.run.agent),
            )
        try:
            args = args_for(reply, tool.schema)
        except ValueError as problem:
            raise ScriptMisfit(
                f"agent {call.run.agent!r} cannot hand off to {reply.to!r} by `{tool.name}`: "
                f"{problem}. Write `payload: {{KEY: …}}`.",
                ("turns", self._recorder.turn - 1, "replies", call.run.agent),
            ) from problem
        if tool.name in routers:
            args = {routers[tool.name]: reply.to, **args}
        return ToolCall(self._recorder.new_call_id(), tool.name, args)


def _offer_text(offer: Offer, routers: Mapping[str, str]) -> str:
    """Return a tool's name, with its possible target agents."""
    named = agents_named(offer.schema, routers.get(offer.name))
    return f"{offer.name} (to {', '.join(named)})" if named else offer.name


def _misfit(
    line: m.Handoff, index: int | None, tool_call: ToolCall, call: ModelCall, turn: int
) -> str:
    """Return how a handoff differs from its tool's schema; empty if it fits.

    This is no error by itself: the test may be how the pipeline handles it.
    """
    schema = next(
        (offer.schema for offer in call.model_request.offers if offer.name == tool_call.name), None
    )
    wrong = misfit_of(tool_call.args, schema)
    at = () if index is None else (index,)
    where = path_text(("turns", turn - 1, "replies", call.run.agent, *at))
    return (
        f"The payload of the handoff to {line.to!r} under {where} is not what `{tool_call.name}` "
        f"takes: {wrong}."
        if wrong
        else ""
    )
