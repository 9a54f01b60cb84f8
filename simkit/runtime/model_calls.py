"""The model calls of one run: its context, the calls, and what their answers ask for.

Steps wait for what takes time, and for the schedule, by yielding to the scheduler. A call whose
answer takes no time yields nothing.
"""

from __future__ import annotations

import msgspec

from simkit.core import messages as m
from simkit.core.errors import (
    ModelError,
    OutputInvalid,
    PipelineError,
    ScriptBroken,
    TurnCut,
    unanswered_as,
)
from simkit.core.messages import Message
from simkit.runtime.activation import Activation
from simkit.runtime.context.assembly import Assembled
from simkit.runtime.context.on_demand import ContextMessages
from simkit.runtime.handoff_execution import hand_off
from simkit.runtime.history_selection import HistorySelection
from simkit.runtime.parsing import parsed
from simkit.runtime.ports import ModelRequest, ToolReply, WaitingCall
from simkit.runtime.scheduler import Steps, Waiting
from simkit.runtime.tool_use import ToolUse, heard_as

_encode = msgspec.json.Encoder().encode


def converse(run: Activation) -> Steps:
    """Make a run's model calls until it is over."""
    while not run.is_over:
        if run.built is None:
            run.built = _build_context(run)
            if run.reading is not None and run.reading.latency_ms:
                yield from _wait_for_summaries(run, run.reading)
        _record_call(run)
        answer = yield from _answer(run)
        reply, usage = answer.reply, answer.usage
        run.thinking = "" if answer.extras is m.NO_EXTRAS else m.thinking_said(answer)
        if usage is not None:
            run.add_usage(usage)
        match reply:
            case m.Text() | m.Structured():
                _conclude(run, reply, usage)
            case m.Calls():
                yield from _use_tools(run, reply, usage)
            case m.Handoff():
                yield from hand_off(run, reply, usage)
            case m.Interrupts():
                yield from _ask_user(run, reply, usage)
            case m.Fails():
                _fail(run, reply)
            case _:
                kind = type(reply).__name__
                raise ScriptBroken(f"a reply of kind {kind} cannot be served here")


def _build_context(run: Activation) -> Assembled:
    """Return what the run's model calls begin with; agents may summarise its histories."""
    turn, agent, handoff = run.turn, run.agent, run.spec.handoff
    current = turn.user
    if handoff is not None and handoff.query is not None:
        current = Message("user", handoff.query, turn=turn.number), 0, 0
    run.reading = HistorySelection(
        turn, agent.name, run.id, handoff, run.values, run.branch, run.log, current
    )
    return agent.assembly.build(run.root(), run.reading)


def _wait_for_summaries(run: Activation, reading: HistorySelection) -> Steps:
    yield reading.latency_ms
    reading.latency_ms = 0
    if run.branch is not None:
        # A parallel run may have emitted meanwhile what this context was about to emit.
        run.built = run.agent.assembly.build(run.root(), reading)


def _record_call(run: Activation) -> None:
    """Record a model call and its context."""
    turn, agent, built, reading = run.turn, run.agent, run.built, run.reading
    assert built is not None
    assert reading is not None
    run.model_calls += 1
    turn.limit("model_calls_per_run", run.model_calls)
    # They are others after a wait, if another process continues the turn.
    recorder, numbers, position = turn.recorder, turn.numbers, run.position()
    numbers.model_calls += 1
    run.call, is_first = f"c{numbers.model_calls}", not run.base
    recorder.record_context(
        position,
        call=run.call,
        parts=tuple(built.parts) if is_first else (),
        base=run.base,
        said=run.own_numbers,
        tools=agent.tools,
        settings=agent.settings or None,
        tokens=built.tokens + run.own_tokens,
        budget=turn.limits.context_tokens or 0,
        left_out=built.left_out if is_first else (),
        handoffs=agent.passes_to,
    )
    if is_first:
        run.base = run.call
    for history_slice in reading.slices.values():
        # The event has reported all settled parts.
        stream = history_slice.stream
        stream.numbers_kept, stream.cuts, stream.restarts = [], [], False
    recorder.record_model_call(position, call=run.call)


# The answer


def _answer(run: Activation) -> Steps:
    """Ask the model, and return its answer once it is there.

    This is where a model call waits, if it does: for the schedule, and for its latency.
    """
    turn, agent, built, reading = run.turn, run.agent, run.built, run.reading
    assert built is not None
    assert reading is not None
    context = ContextMessages(built.parts, tuple(run.messages), reading.history_of)

    def read(text: str) -> m.JsonValue:
        return parsed(text, agent.parse, agent.name)[0]

    request = ModelRequest(
        agent.name, turn.number, run.id, run.call, agent.tools, agent.output,
        context.messages, context.sections, read, {}, agent.passes_to, turn.session,
    )  # fmt: skip
    if not turn.schedule.answers_at_once:
        yield WaitingCall(agent.name, run.id)
    try:
        answer = turn.model.answer(request)
    except TurnCut:
        raise
    except PipelineError as problem:
        error, status, message = unanswered_as(problem)
        turn.recorder.record_model_failure(
            run.position(), call=run.call, error=error, status=status, message=message
        )
        raise
    if answer.fault:
        turn.recorder.record_fault(run.position(), fault=answer.fault)
    if answer.latency_ms:
        yield answer.latency_ms
    return answer


def _conclude(run: Activation, reply: m.Text | m.Structured, usage: m.Usage | None) -> None:
    """End the conversation with the model's last message."""
    agent = run.agent
    if type(reply) is m.Structured:
        run.output = reply.value
        text = _encode(reply.value).decode()
        run.say(text, data=reply.value, kind="json", usage=usage)
    else:
        assert type(reply) is m.Text
        run.say(reply.text, kind="text", usage=usage)
        run.output, how = parsed(reply.text, agent.parse, agent.name)
        if how:
            run.turn.recorder.record_parsed_reply(
                run.position(), call=run.call, how=how, value=run.output
            )
    if agent.output is not None:
        run.check_output()
    run.is_over = True


def _fail(run: Activation, reply: m.Fails) -> None:
    """Emit a provider's failure.

    A broken reply is passed on broken, so that the parser meets it.
    """
    if reply.kind == "malformed_json":
        _conclude(run, m.Text('{"malformed": '), None)
        if run.agent.output is None:
            return
        raise OutputInvalid(f"the output of agent {run.agent.name!r} is not valid JSON")
    run.turn.recorder.record_model_failure(
        run.position(),
        call=run.call,
        error=reply.kind,
        status=reply.status,
        message=reply.message,
        retry_after_ms=round((reply.retry_after or 0) * 1_000),
    )
    raise ModelError(reply.message, reply.kind, reply.status)


# Tools


def _use_tools(run: Activation, reply: m.Calls, usage: m.Usage | None) -> Steps:
    """Call all tools of one message at once."""
    if run.tools is None:
        run.tools = ToolUse(run.turn, run.agent.name, run.id)
    tools = run.tools
    calls = tools.calls_of(reply)
    run.say(reply.text, calls, kind="calls", usage=usage)
    replies = yield from tools.call(calls, run.values)
    _hear(run, calls, replies)


def _hear(run: Activation, calls: tuple[m.ToolCall, ...], replies: list[ToolReply]) -> None:
    """Pass the answers of tools on to the model; the run is over if they are its output."""
    for call, reply in zip(calls, replies, strict=True):
        text, data = heard_as(reply)
        run.hear(text, call, data)
    agent = run.agent
    if agent.returns != "tool_output" or any(reply.error is not None for reply in replies):
        return
    results = {
        # The value of a tool's text if it is JSON, as for a reply.
        call.name: parsed(reply.result, agent.parse, agent.name)[0]
        if isinstance(reply.result, str)
        else reply.result
        for call, reply in zip(calls, replies, strict=True)
    }
    run.output = next(iter(results.values())) if len(replies) == 1 else results
    run.check_output()
    run.is_over = True


# The user


def _ask_user(run: Activation, reply: m.Interrupts, usage: m.Usage | None) -> Steps:
    """Wait for the user: this run ends, and a new one continues with the answer.

    The new run belongs to the same agent and gets the messages of this one.
    """
    question = reply.question
    text = question if isinstance(question, str) else _encode(question).decode()
    data = None if text is question else question
    run.say(text, data=data, kind="interrupt", usage=usage)
    run.final = None
    event = run.turn.recorder.record_question(run.position(), question=question)
    run.end("interrupted")
    answer = yield Waiting(event)
    run.model_calls, run.built = 0, None
    # It opened its branch when it first started, and continues in it.
    run.group = ""
    run.start()
    if run.tools is not None:
        run.tools.continue_as(run.id)
    is_text = isinstance(answer, str)
    text = answer if is_text else _encode(answer).decode()
    run.hear(text, data=None if is_text else answer, role="user")
