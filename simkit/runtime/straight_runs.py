"""Straight runs: an agent whose reply is at hand runs to its end at once, in one pass.

Most runs of a script wait for nothing: the agent's recipe is plain, and its next reply line is a
text or a value without latency. Such a run emits the events of `Activation.start` and
`Activation.steps`, in the same order; a property test holds the two against each other. It needs
no generators, no request and no values for references, and most decisions are made once an agent
(`CompiledAgent.plain`) instead of once a run.
"""

from __future__ import annotations

from typing import Any

import msgspec

from simkit.core.errors import PipelineError, ScriptBroken
from simkit.core.messages import Message, Structured, Text
from simkit.runtime.activation import Activation
from simkit.runtime.compiled import CompiledAgent
from simkit.runtime.context.history import HistoryReader, Slice
from simkit.runtime.parsing import parsed
from simkit.runtime.turn import Start, Turn
from simkit.trace import events as e
from simkit.trace.store import canonical

_encode = msgspec.json.Encoder().encode


def ran_straight(turn: Turn, agent: CompiledAgent) -> Activation | None:
    """Return a run of an agent, which has ended; None, and nothing has happened, if it may wait.

    The run has no handoff, branch or input of its own. It is one function because most runs come
    through here: what it costs is the number of its steps.
    """
    plain, name = agent.plain, agent.name
    if (
        plain is None
        or not turn.is_plain
        or not turn.schedule.answers_at_once
        or turn.runs >= turn.limits.agent_runs_per_turn
    ):
        return None
    answer = turn.model.at_hand(name)
    if answer is None:
        return None
    session, number, numbers = turn.session, turn.number, turn.numbers
    conversation, recorder = turn.conversation, turn.recorder
    emit, clock, text = recorder.emit, recorder.clock, turn.input
    turn.runs += 1
    numbers.runs += 1
    identity, now = f"r{numbers.runs}", clock.now
    run = Activation(turn, Start(name), agent, None, "", identity, now, text)
    emit(e.AgentStarted(now, session, number, name, identity, input=text))
    try:
        # The context.
        current, current_number, size = turn.user
        tokens = plain.tokens
        parts: list[e.Part] = []
        for entry in plain.entries:
            if type(entry) is e.Made:
                parts += (entry,)
            elif isinstance(entry, HistoryReader):
                history = _history(turn, name, entry, current.id if plain.shows_current else "")
                parts += (history.shown_part,)
                tokens += history.tokens
            else:
                message = Message(
                    entry.role,
                    current.content,
                    current.id,
                    None,
                    current.turn,
                    (),
                    "",
                    "",
                    None,
                    entry.name,
                )
                parts += (e.Made(entry.name, message, size, (), current_number),)
                tokens += size
        # The model call.
        numbers.model_calls += 1
        call, now = f"c{numbers.model_calls}", clock.now
        emit(
            e.ContextBuilt(
                now,
                session,
                number,
                name,
                identity,
                call=call,
                parts=tuple(parts),
                tools=agent.tools,
                settings=agent.settings or None,
                tokens=tokens,
                budget=turn.limits.context_tokens or 0,
                handoffs=agent.passes_to,
            )
        )
        emit(e.ModelCalled(now, session, number, name, identity, call=call))
        # The reply.
        reply, usage = answer.reply, answer.usage
        if usage is not None:
            run.add_usage(usage)
        if type(reply) is Text:
            kind, reply_text, data = "text", reply.text, None
        else:
            assert type(reply) is Structured
            kind, data = "json", reply.value
            reply_text = _encode(data).decode()
        message = conversation.add("assistant", reply_text, agent=name, run=identity, data=data)
        run.final, run.messages, last = message, [message], numbers.messages
        emit(
            e.ModelReplied(
                clock.now,
                session,
                number,
                name,
                identity,
                call=call,
                message=last,
                reply=kind,
                usage=usage,
            )
        )
        output, how = (data, "") if kind == "json" else parsed(reply_text, agent.parse, name)
        run.output = output
        if how:
            recorder.record_parsed_reply(run.position(), call=call, how=how, value=output)
        # The writes.
        if agent.writes is not None:
            if agent.plain_writes is not None:
                update = agent.plain_writes(name, text, reply_text, output, message)
            else:
                update = agent.writes.resolve(run.root_with_run())
            if update:
                turn.write(update, "writes", name, identity)
        emit(
            e.AgentFinished(
                clock.now,
                session,
                number,
                name,
                identity,
                status="done",
                output=output if type(output) is str else canonical(output),
                message=last,
            )
        )
    except (PipelineError, ScriptBroken):
        run.cancel("failed")
        raise
    turn.reply = output
    return run


def _history(turn: Turn, agent: str, reader: HistoryReader, omit: str) -> Slice:
    """Return what an agent's history shows; its run reports it, whatever else happens."""
    conversation, channel = turn.conversation, reader.channel
    source: Any
    anchor: Any
    if channel == "log":
        source, anchor = conversation.log_of(None), conversation.log
    else:
        source = conversation.values[channel]
        source = anchor = () if source is None else source
    stream = conversation.stream(agent, reader.section, anchor)
    history = reader.read(
        stream,
        source,
        conversation.starts[channel],
        omit,
        turn.state.committed,
        conversation.sizes,
        conversation.first_turn,
    )
    stream.numbers_kept, stream.cuts, stream.restarts = [], [], False
    return history
