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
from simkit.core.messages import JsonValue, Message, Structured, Text, Usage
from simkit.runtime.activation import Activation
from simkit.runtime.compiled import CompiledAgent
from simkit.runtime.context.history import HistoryReader
from simkit.runtime.parsing import parsed
from simkit.runtime.turn import Start, Turn
from simkit.trace import events as e
from simkit.trace.store import canonical

_encode = msgspec.json.Encoder().encode


class StraightRun(msgspec.Struct, frozen=True, eq=False):
    """A run that has ended, or failed."""

    turn: Turn
    agent: CompiledAgent
    id: str
    started_at: int
    output: Any
    final: Message | None
    """Its message; None if it failed before it had one."""
    usage: Usage | None

    def activation(self) -> Activation:
        """Return the same run as others see a run."""
        final = self.final
        run = Activation(
            self.turn, Start(self.agent.name), self.agent, None, "", self.id, self.started_at,
            self.turn.input, output=self.output, final=final,
            messages=[] if final is None else [final],
        )  # fmt: skip
        if self.usage is not None:
            run.add_usage(self.usage)
        return run

    def root_now(self) -> dict[str, Any]:
        """Return the values for a flow's references after the run."""
        return self.activation().root_now()


def ran_straight(turn: Turn, agent: CompiledAgent) -> StraightRun | None:
    """Return a run of an agent, which has ended; None, and nothing has happened, if it may wait.

    The run has no handoff, branch or input of its own. It is one function because most runs come
    through here: what it costs is the number of its steps.
    """
    plain = agent.plain
    if plain is None or not turn.is_plain or turn.runs >= turn.runs_max:
        return None
    name = agent.name
    answer = turn.model.at_hand(name)
    if answer is None:
        return None
    session, number, numbers, text = turn.session, turn.number, turn.numbers, turn.input
    conversation, recorder = turn.conversation, turn.recorder
    emit, now = recorder.emit, recorder.clock.now
    turn.runs += 1
    numbers.runs = run_number = numbers.runs + 1
    run = f"r{run_number}"
    emit(e.AgentStarted(now, session, number, name, run, input=text))
    message: Message | None = None
    output: Any = None
    usage = answer.usage
    try:
        # The context.
        parts: list[Any] = [*plain.parts]
        tokens, current = plain.tokens, plain.current
        if current is not None:
            place, section, role = current
            parts[place] = users_part = turn.users_part(section, role)
            tokens += users_part.tokens
        for place, reader in plain.histories:
            omit = turn.user[0].id if current is not None else ""
            parts[place], size = _history(turn, name, reader, omit)
            tokens += size
        # The model call.
        numbers.model_calls = call_number = numbers.model_calls + 1
        call = f"c{call_number}"
        emit(
            e.ContextBuilt(
                now,
                session,
                number,
                name,
                run,
                call=call,
                parts=tuple(parts),
                tools=agent.tools,
                settings=agent.settings or None,
                tokens=tokens,
                budget=turn.budget,
                handoffs=agent.passes_to,
            )
        )
        emit(e.ModelCalled(now, session, number, name, run, call=call))
        # The reply.
        reply = answer.reply
        value: Any = None
        if type(reply) is Text:
            kind, reply_text = "text", reply.text
        else:
            assert type(reply) is Structured
            kind, value = "json", reply.value
            reply_text = _encode(value).decode()
        message = conversation.add("assistant", reply_text, agent=name, run=run, data=value)
        last = numbers.messages
        emit(
            e.ModelReplied(
                now, session, number, name, run,
                call=call, message=last, reply=kind, usage=usage,
            )
        )  # fmt: skip
        recorded: JsonValue = reply_text
        if kind == "json":
            output, how = value, ""
        else:
            output, how = parsed(reply_text, agent.parse, name)
        if output is not reply_text:
            recorded = canonical(output)
        if how:
            position = turn.position(name, run)
            recorder.record_parsed_reply(position, call=call, how=how, value=output)
        # The writes.
        writes = agent.plain_writes
        if writes is not None:
            update = writes.resolve(name, text, reply_text, output, message)
            if writes.reducers is not None:
                turn.write_plain(
                    writes.reducers,
                    update,
                    writes.resolve(name, text, reply_text, recorded, {"$message": last}),
                    message.id if writes.commits else "",
                    name,
                    run,
                )
            elif update:
                turn.write(update, "writes", name, run)
        elif agent.writes is not None:
            now_ended = StraightRun(turn, agent, run, now, output, message, usage).activation()
            update = agent.writes.resolve(now_ended.root_with_run())
            if update:
                turn.write(update, "writes", name, run)
        emit(
            e.AgentFinished(
                now, session, number, name, run, status="done", output=recorded, message=last
            )
        )
    except (PipelineError, ScriptBroken):
        StraightRun(turn, agent, run, now, output, message, usage).activation().cancel("failed")
        raise
    turn.reply = output
    return StraightRun(turn, agent, run, now, output, message, usage)


def _history(turn: Turn, agent: str, reader: HistoryReader, omit: str) -> tuple[e.Shown, int]:
    """Return what an agent's history shows, and its tokens."""
    conversation, channel = turn.conversation, reader.channel
    source: Any
    if channel != "log":
        source = anchor = conversation.values[channel]
        if source is None:
            source = anchor = ()
    else:
        source = anchor = conversation.log
        if conversation.branch_logs.paths:
            source = conversation.log_of(None)
    return reader.read_whole(
        conversation.stream(agent, reader.section, anchor),
        source,
        conversation.starts[channel],
        omit,
        turn.state.committed,
        conversation.sizes,
        conversation.first_turn,
    )
