"""Straight runs: an agent whose reply is at hand runs to its end at once, in one pass.

Most runs of a script wait for nothing: the agent's recipe is plain, and its next reply line is a
text or a value without latency. For such runs each agent of a pipeline has a plan, a function with
all in it that does not depend on the run. It emits the events of `Activation.start` and
`Activation.steps`, in the same order; a property test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from simkit.core.errors import PipelineError, ScriptBroken
from simkit.core.messages import Answer, JsonValue, Message, Structured, Text
from simkit.runtime.activation import Activation
from simkit.runtime.compiled import CompiledAgent, CompiledPipeline
from simkit.runtime.context.assembly import PlainRecipe
from simkit.runtime.parsing import PLAIN_STARTS, parsed
from simkit.runtime.shared_histories import history_of
from simkit.runtime.turn import Start, Turn
from simkit.trace import events as e
from simkit.trace.store import canonical

_encode = msgspec.json.Encoder().encode


class StraightRun(msgspec.Struct, eq=False):
    """A run that has ended, or failed."""

    turn: Turn
    agent: CompiledAgent
    id: str
    started_at: int
    answer: Answer
    final: Message | None = None
    """Its message; None if it failed before it had one."""
    output: Any = None

    def activation(self) -> Activation:
        """Return the same run as others see a run."""
        final = self.final
        run = Activation(
            self.turn, Start(self.agent.name), self.agent, None, "", self.id, self.started_at,
            self.turn.input, output=self.output, final=final,
            messages=[] if final is None else [final],
        )  # fmt: skip
        if final is not None and self.answer.usage is not None:
            run.add_usage(self.answer.usage)
        return run

    def root_now(self) -> dict[str, Any]:
        """Return the values for a flow's references after the run."""
        return self.activation().root_now()


Plan: TypeAlias = Callable[[Turn, Answer], StraightRun]
"""Runs an agent that has no handoff, branch or input of its own, and gets this answer."""
_Ask: TypeAlias = Callable[[Turn, StraightRun], str]
"""Builds a run's context, and calls the model with it; returns the call."""
_Read: TypeAlias = Callable[[Turn, StraightRun, str, str], JsonValue]
"""Sets a run's output to the value of its answer, a text, to a call; returns what is recorded."""


def plans_of(compiled: CompiledPipeline) -> dict[str, Plan | None]:
    """Return the plan of each agent; None for those whose runs are never straight."""
    return {
        name: None if agent.plain is None else _plan_of(agent, agent.plain, compiled)
        for name, agent in compiled.agents.items()
    }


def ran_straight(turn: Turn, agent: str, plan: Plan | None) -> StraightRun | None:
    """Return a run of an agent, which has ended; None, and nothing has happened, if it may wait."""
    if plan is None or not turn.is_plain or turn.runs >= turn.runs_max:
        return None
    answer = turn.model.at_hand(agent)
    return None if answer is None else plan(turn, answer)


def _plan_of(agent: CompiledAgent, plain: PlainRecipe, compiled: CompiledPipeline) -> Plan:
    name, count = agent.name, compiled.count
    # Most replies begin with a letter, and are what they are.
    plain_starts = PLAIN_STARTS if agent.parse == "auto" else frozenset[str]()
    ask, read, writes = _asking(agent, plain), _reading(agent), agent.writes
    write = agent.plain_writes.write if agent.plain_writes is not None else None

    def run(turn: Turn, answer: Answer) -> StraightRun:
        session, number, numbers = turn.session, turn.number, turn.numbers
        emit, now = turn.recorder.emit, turn.recorder.clock.now
        turn.runs += 1
        numbers.runs = runs = numbers.runs + 1
        identity = f"r{runs}"
        emit(e.AgentStarted(now, session, number, name, identity, input=turn.input))
        this = StraightRun(turn, agent, identity, now, answer)
        try:
            call = ask(turn, this)
            reply, kind, value = answer.reply, "text", None
            if type(reply) is Text:
                text = reply.text
            else:
                assert type(reply) is Structured
                kind, value = "json", reply.value
                text = _encode(value).decode()
            # As `Conversation.add` does it.
            numbers.messages = place = numbers.messages + 1
            this.final = message = Message("assistant", text, f"m{place}", name, number, data=value)
            size, conversation = count(text), turn.conversation
            conversation.log += (message,)
            conversation.sizes[message.id] = place, size
            emit(e.MessageAdded(now, session, number, name, identity, message=message, tokens=size))
            emit(
                e.ModelReplied(
                    now, session, number, name, identity,
                    call=call, message=place, reply=kind, usage=answer.usage,
                )
            )  # fmt: skip
            if kind == "json":
                this.output, recorded = value, canonical(value)
            elif text[:1] in plain_starts:
                this.output = recorded = text
            else:
                recorded = read(turn, this, text, call)
            if write is not None:
                write(turn, identity, text, this.output, recorded, message, place)
            elif writes is not None:
                update = writes.resolve(this.activation().root_with_run())
                if update:
                    turn.write(update, "writes", name, identity)
            emit(
                e.AgentFinished(
                    now, session, number, name, identity,
                    status="done", output=recorded, message=place,
                )
            )  # fmt: skip
        except (PipelineError, ScriptBroken):
            this.activation().cancel("failed")
            raise
        turn.reply = this.output
        return this

    return run


def _asking(agent: CompiledAgent, plain: PlainRecipe) -> _Ask:
    """Return the function that calls an agent's model."""
    name, tools, passes_to = agent.name, agent.tools, agent.passes_to
    settings = agent.settings or None
    parts, constant_tokens, current = plain.parts, plain.tokens, plain.current
    omits = current is not None
    histories = [(place, history_of(reader, name, omits)) for place, reader in plain.histories]

    def ask(turn: Turn, this: StraightRun) -> str:
        built: list[Any] = [*parts]
        tokens = constant_tokens
        if current is not None:
            place, shown_as = current
            parts_of_user = turn.users_parts
            if shown_as not in parts_of_user:
                turn.make_users_part(shown_as)
            built[place] = part = parts_of_user[shown_as]
            tokens += part.tokens
        for place, show in histories:
            built[place], size = show(turn)
            tokens += size
        numbers, session, number = turn.numbers, turn.session, turn.number
        emit, now, run = turn.recorder.emit, this.started_at, this.id
        numbers.model_calls = calls = numbers.model_calls + 1
        call = f"c{calls}"
        emit(
            e.ContextBuilt(
                now, session, number, name, run,
                call=call, parts=tuple(built), tools=tools, settings=settings, tokens=tokens,
                budget=turn.budget, handoffs=passes_to,
            )
        )  # fmt: skip
        emit(e.ModelCalled(now, session, number, name, run, call=call))
        return call

    return ask


def _reading(agent: CompiledAgent) -> _Read:
    """Return the function that reads an agent's texts."""
    name, parse = agent.name, agent.parse

    def read(turn: Turn, this: StraightRun, text: str, call: str) -> JsonValue:
        this.output, how = parsed(text, parse, name)
        recorded = canonical(this.output)
        if how:
            turn.recorder.record_parsed_reply(
                turn.position(name, this.id), call=call, how=how, value=this.output
            )
        return recorded

    return read
