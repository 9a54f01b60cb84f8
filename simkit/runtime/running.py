"""One agent's run from its start to its end: rules, its function or its model calls, its writes.

Steps wait for what takes time, and for the schedule, by yielding to the scheduler. A call whose
answer takes no time yields nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from simkit.core import errors
from simkit.core import messages as m
from simkit.core.messages import Message
from simkit.core.text import short_end
from simkit.providers.failures import MALFORMED
from simkit.runtime.activation import Activation, TurnStopped, hand_off
from simkit.runtime.compiled import CompiledRule
from simkit.runtime.context.assembly import Assembled, ContextMessages
from simkit.runtime.ports import ModelRequest, ToolReply, WaitingCall
from simkit.runtime.scheduler import Steps
from simkit.runtime.tool_use import ToolUse, heard_as
from simkit.runtime.turn import HistorySelection
from simkit.trace.store import canonical, copied

_encode = msgspec.json.Encoder().encode


def run_agent(run: Activation) -> Steps:
    """Run an announced agent to its end."""
    try:
        if not _stands_in(run):
            yield from converse(run) if run.agent.function is None else _call_function(run)
        _finish(run)
    except GeneratorExit:
        run.cancel(run.turn.closing)
        raise
    except (TurnStopped, errors.TurnCut):
        run.cancel()
        raise
    except (errors.PipelineError, errors.ScriptBroken):
        run.cancel("failed")
        raise


def _stands_in(run: Activation) -> bool:
    """Check a run's input; return whether a rule writes in place of the agent."""
    agent = run.agent
    if agent.input is not None:
        run.check(agent.input, run.input, errors.InputInvalid, "input")
    if agent.before:
        run.stood_in = _first_that_holds(agent.before, run.root())
    return run.stood_in is not None


def _finish(run: Activation) -> None:
    """Write what a run writes, and end it."""
    agent, turn = run.agent, run.turn
    if run.onward is not None:
        run.end("handed_off")
        return
    if agent.writes is None and not agent.after and run.stood_in is None:
        run.end("done", run.changed)
        return
    root = run.root_with_run()
    rule, cause = run.stood_in, "before"
    if rule is None and agent.after:
        rule, cause = _first_that_holds(agent.after, root), "after"
    update = agent.writes.resolve(root) if agent.writes is not None else {}
    ruled = rule.writes.resolve(root) if rule is not None else None
    if ruled:
        update = {**update, **ruled}
    if update:
        turn.write(update, cause if ruled else "writes", agent.name, run.id, run.branch)
    run.end("done" if run.stood_in is None else "stood_in", run.changed)


def _first_that_holds(
    rules: Sequence[CompiledRule], root: Mapping[str, Any]
) -> CompiledRule | None:
    for rule in rules:
        if rule.holds(root):
            return rule
    return None


def _call_function(run: Activation) -> Steps:
    """Call the user's function that is the agent."""
    root_copy = {key: copied(value) for key, value in run.root().items()}
    state: Mapping[str, Any] = root_copy["state"]
    before = {channel: _encode(canonical(value)) for channel, value in state.items()}
    assert run.agent.function is not None
    run.turn.compiled.functions.caller = run.agent.name
    answer = run.agent.function(root_copy)
    after: Mapping[str, Any] = root_copy["state"]
    run.changed = tuple(
        channel
        for channel in sorted({*before, *after})
        if channel not in after or _encode(canonical(after[channel])) != before.get(channel)
    )
    if isinstance(answer, m.Handoff):
        yield from hand_off(run, answer, kind="")
    elif answer is not None:
        run.output = copied(answer)
        answer_value = canonical(answer)
        text = answer if isinstance(answer, str) else _encode(answer_value).decode()
        run.say(text, data=None if isinstance(answer, str) else answer_value)
    if run.onward is None:
        run.check_output()


# The model calls


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
                raise errors.ScriptBroken(f"a reply of kind {kind} cannot be served here")


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
        definitions=agent.definitions,
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
    except errors.TurnCut:
        raise
    except errors.PipelineError as problem:
        error, status, message = errors.unanswered_as(problem)
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
        _conclude(run, m.Text(MALFORMED), None)
        if run.agent.output is None:
            return
        raise errors.OutputInvalid(f"the output of agent {run.agent.name!r} is not valid JSON")
    run.turn.recorder.record_model_failure(
        run.position(),
        call=run.call,
        error=reply.kind,
        status=reply.status,
        message=reply.message,
        retry_after_ms=round((reply.retry_after or 0) * 1_000),
    )
    raise errors.ModelError(reply.message, reply.kind, reply.status)


# Tools


def _use_tools(run: Activation, reply: m.Calls, usage: m.Usage | None) -> Steps:
    """Call all tools of one message at once."""
    if run.tools is None:
        run.tools = ToolUse(run.turn, run.agent.name, run.id)
    tools = run.tools
    calls = tools.calls_of(reply)
    run.say(reply.text, calls, kind="calls", usage=usage)
    watched_tools = run.turn.compiled.watched_tools
    waiting_calls = [call for call in calls if call.name in watched_tools] if watched_tools else []
    own_calls = [call for call in calls if call not in waiting_calls]
    replies = yield from _call_tools(run, tools, own_calls)
    if waiting_calls:
        approved_calls = yield from _ask_approval(run, waiting_calls)
        replies += yield from _call_tools(run, tools, approved_calls)
        own_calls += approved_calls
    if len(own_calls) == len(calls):
        _end_with_results(run, own_calls, replies)


def _ask_approval(run: Activation, calls: list[m.ToolCall]) -> Steps:
    """Return the calls that the user approves, as the user wants them; refuse the others."""
    approved_calls: list[m.ToolCall] = []
    decisions = yield from run.wait_for_decisions(calls)
    for call, decision in zip(calls, decisions, strict=True):
        if decision.is_approved:
            args = decision.args
            approved_calls.append(call if args is None else run.edit(call, args))
        else:
            run.hear(f"Tool {call.name} was not called: {decision.reason}", call)
    return approved_calls


def _call_tools(run: Activation, tools: ToolUse, calls: Sequence[m.ToolCall]) -> Steps:
    """Call tools at once, pass their answers on to the model, and return them."""
    replies: list[ToolReply] = []
    if calls:
        replies = yield from tools.call(calls, run.values)
    for call, reply in zip(calls, replies, strict=True):
        text, data = heard_as(reply)
        run.hear(text, call, data)
    return replies


def _end_with_results(
    run: Activation, calls: Sequence[m.ToolCall], replies: list[ToolReply]
) -> None:
    """End the run if its tools' results are its output."""
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
    """Ask the user, and go on with the answer."""
    question = reply.question
    text = question if isinstance(question, str) else _encode(question).decode()
    data = None if text is question else question
    run.say(text, data=data, kind="interrupt", usage=usage)
    run.final = None
    answer = yield from run.ask_user(question)
    is_text = isinstance(answer, str)
    text = answer if is_text else _encode(answer).decode()
    run.hear(text, data=None if is_text else answer, role="user")


# The output in a reply's text


_NONE: Any = object()
PLAIN_STARTS: Final = frozenset(map(chr, range(ord("!"), ord("~") + 1))) - {"{", "["}
"""Characters with which no JSON begins that ``auto`` would read, and no space either."""


def parsed(text: str, parse: str, agent: str) -> tuple[Any, str]:
    """Return the output, and how it was parsed: ``json``, ``json_in_text``, ``text`` or empty.

    ``text`` means that the text contains no JSON; empty, that it was not parsed. Raise
    OutputInvalid if ``parse: json`` meets something else.
    """
    if parse == "text" or (parse == "auto" and text[:1] in PLAIN_STARTS):
        # Most replies begin with a letter.
        return text, ""
    stripped = text.strip()
    if parse in ("json", "json_or_text", "json_in_text") or stripped[:1] in ("{", "["):
        value = _json(stripped)
        if value is not _NONE and (parse != "auto" or isinstance(value, (dict, list))):
            return value, "json"
    if parse == "json":
        raise errors.OutputInvalid(
            f"agent {agent!r} must answer with JSON, but said: {short_end(text, 80)!r}"
        )
    if parse == "json_in_text":
        value = _json_inside(text)
        if value is not _NONE:
            return value, "json_in_text"
        return text, "text"
    return text, ""


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return _NONE


def _json_inside(text: str) -> Any:
    """Return the first JSON object or array inside prose."""
    decoder = json.JSONDecoder()
    for index, character in enumerate(text):
        if character in "{[":
            try:
                value, _ = decoder.raw_decode(text, index)
            except ValueError:
                continue
            return value
    return _NONE
