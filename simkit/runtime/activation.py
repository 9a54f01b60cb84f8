"""One agent run: its context, its model calls, its tools, its writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from simkit.core import messages as m
from simkit.core.errors import (
    InputInvalid,
    ModelError,
    OutputInvalid,
    PipelineError,
    ScriptBroken,
    TurnCut,
    unanswered_as,
)
from simkit.core.messages import ABSENT, Message
from simkit.language.json_schema import place_text, schema_errors
from simkit.runtime.branch import Branch
from simkit.runtime.compiled import CompiledAgent, CompiledRule
from simkit.runtime.context.on_demand import ContextMessages
from simkit.runtime.handoff_execution import Passing, TurnStopped
from simkit.runtime.handoffs import Request
from simkit.runtime.history_selection import HistorySelection
from simkit.runtime.parsing import parsed
from simkit.runtime.ports import ModelRequest, WaitingCall
from simkit.runtime.scheduler import Steps, Waiting
from simkit.runtime.tool_use import ToolAnswer, ToolUse
from simkit.runtime.turn import Start, Turn
from simkit.trace import events as e
from simkit.trace.recorder import Position
from simkit.trace.store import canonical, copied

_encode = msgspec.json.Encoder().encode


class Activation(msgspec.Struct, eq=False):
    """One agent run in a turn; ``start`` announces it, ``steps`` runs it."""

    turn: Turn
    spec: Start
    agent: CompiledAgent
    branch: Branch | None
    """Its parallel branch; None if there is none."""
    group: str = ""
    """The parallel group in which it opens a branch; empty for none."""
    id: str = ""
    started_at: int = 0
    input: Any = None
    root: dict[str, Any] = {}
    """The values for references before the run."""
    onward: Request | None = None
    """The handoff that ended this run, by transfer or replace; None if there is none."""
    output: Any = None
    final: Message | None = None
    messages: list[Message] = []
    tools: ToolUse | None = None
    """The tools that it has called; None if it has not called any."""
    _log: Sequence[Message] = ()
    _usage: dict[str, int] = {}
    _thinking: str = ""
    _model_calls: int = 0
    _has_ended: bool = False
    _handoff_execution: Passing | None = None
    _base: str = ""

    # Start

    def start(self) -> None:
        """Assign the run's number and the state that it can read, and emit AgentStarted."""
        turn, spec, handoff = self.turn, self.spec, self.spec.handoff
        turn.runs += 1
        if turn.runs > turn.runs_max:
            turn.limit("agent_runs_per_turn", turn.runs)
        turn.numbers.runs += 1
        self.id = f"r{turn.numbers.runs}"
        self.started_at = turn.clock.now
        self._has_ended, self._base = False, ""
        contract = handoff.contract if handoff is not None else None
        carries = contract.carries if contract is not None else None
        outer = self.branch
        if self.group:
            self.branch = turn.branch(self.group, self.id, outer)
        if self.branch is not None:
            turn.conversation.branch_logs.at_work.add(self.id)
        if not self.messages:
            # Its own messages are a section of their own, also if it continues in a later turn.
            reads_log = self.agent.assembly.reads_log
            self._log = turn.conversation.log_of(self.branch) if reads_log else ()
        # It does not read a delegate's writes, whether or not the contract has `carries`.
        branch = self.branch
        values = dict(turn.conversation.values if branch is None else turn.values(branch))
        if carries is not None:
            values = {name: values[name] for name in carries if name in values}
        self.input, recorded_input = turn.input, turn.recorded_input
        if handoff is not None or spec.input is not ABSENT:
            self.input, recorded_input = self._given_input()
        self.root = self._root_before(values)
        recorder = turn.recorder
        recorder.emit(
            e.AgentStarted(
                recorder.clock.now,
                turn.session,
                turn.number,
                self.agent.name,
                self.id,
                input=recorded_input,
                handoff=handoff.id if handoff else "",
                handoff_from=handoff.source if handoff else "",
                group=self.group,
                channels=carries,
                branch=branch.run if branch is not None else "",
                outer=outer.run if self.group and outer is not None else "",
                after=spec.after,
                task=spec.task,
                goal=spec.goal,
            )
        )
        if spec.problem_text and not self.messages:
            self._hear_from("system", spec.problem_text)

    def _root_before(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values for references before the run; ``values`` is the state."""
        turn, spec, handoff = self.turn, self.spec, self.spec.handoff
        return {
            "state": values,
            "run": None,
            "handoff": handoff.facts() if handoff is not None else None,
            "user": turn.input,
            "agent": self.agent.name,
            "input": self.input,
            "task": spec.task or None,
            "upstream": spec.upstream,
            "now": turn.clock.last_iso[1]
            if turn.clock.last_iso[0] == self.started_at
            else turn.clock.iso(self.started_at),
        }

    def _given_input(self) -> tuple[Any, m.JsonValue]:
        """Return the input that a step or a handoff gives, and the same as plain data."""
        value, handoff, turn = self.spec.input, self.spec.handoff, self.turn
        if handoff is not None:
            if value is ABSENT:
                value = handoff.payload if handoff.payload is not None else handoff.query
            if value is handoff.payload:
                return value, handoff.recorded_payload
        return value, turn.recorded_input if value is turn.input else canonical(value)

    @property
    def name(self) -> str:
        """Return the name under which it runs."""
        return self.agent.name

    def position(self) -> Position:
        """Return the run's current position: a run may go on in a later turn."""
        return Position(self.turn.session, self.turn.number, self.agent.name, self.id)

    # Run

    def steps(self) -> Steps:
        """Run the agent to its end."""
        try:
            turn, agent = self.turn, self.agent
            status, changed = "done", ()
            if agent.input is not None:
                self._check(agent.input, self.input, InputInvalid, "input")
            before = _first_that_holds(agent.before, self.root) if agent.before else None
            if before is not None:
                status = "stood_in"
            elif agent.function is not None:
                changed = yield from self._call_function()
            else:
                yield from self._converse()
            if self.onward is not None:
                self.end("handed_off")
                return
            root = self.root_with_run()
            rule, cause = before, "before"
            if before is None and agent.after:
                rule, cause = _first_that_holds(agent.after, root), "after"
            update = agent.writes.resolve(root) if agent.writes is not None else {}
            ruled = rule.writes.resolve(root) if rule is not None else None
            if ruled:
                update = {**update, **ruled}
            if update:
                turn.write(update, cause if ruled else "writes", agent.name, self.id, self.branch)
            self.end(status, changed)
        except GeneratorExit:
            self.cancel(self.turn.closing)
            raise
        except (TurnStopped, TurnCut):
            self.cancel()
            raise
        except (PipelineError, ScriptBroken):
            self.cancel("failed")
            raise

    def cancel(self, why: str = "cancelled") -> None:
        """End a run that was announced and has not ended yet."""
        if not self._has_ended:
            self.end(why)

    def end(self, status: str, changed: tuple[str, ...] = ()) -> None:
        """Emit the run's end."""
        self._has_ended = True
        if self.branch is not None:
            self.turn.conversation.branch_logs.end(self.id)
        turn, final, output = self.turn, self.final, self.output
        recorder = turn.recorder
        recorder.emit(
            e.AgentFinished(
                recorder.clock.now,
                turn.session,
                turn.number,
                self.agent.name,
                self.id,
                status=status,
                output=output if type(output) is str else canonical(output),
                message=turn.numbers.sizes[final.id][0] if final is not None else 0,
                changed_in_place=changed,
            )
        )

    def root_now(self) -> dict[str, Any]:
        """Return the values for a flow's references after the run."""
        root = self.root_with_run()
        root["state"] = self.turn.values(self.branch)
        return root

    def left(self) -> dict[str, Any]:
        """Return the run's result for later runs: its output and its tool calls."""
        return {"output": self.output, "tool_calls": self.tools.records if self.tools else []}

    def root_with_run(self) -> dict[str, Any]:
        """Return the values for references after the run, with the state before it."""
        if not self.root:
            # A straight run seldom needs them.
            self.root = self._root_before(dict(self.turn.values(self.branch)))
        root, tools, now = self.root, self.tools, self.turn.clock.now
        run: dict[str, Any] = {
            "agent": self.agent.name,
            "reply": self.final.content if self.final is not None else None,
            "output": self.output,
            "final_message": self.final,
            "messages": list(self.messages),
            "tools_called": tools.names if tools is not None else [],
            "tool_results": tools.results if tools is not None else {},
            "tool_calls": tools.records if tools is not None else [],
            "took_ms": now - self.started_at,
        }
        if tools is not None and tools.timestamps:
            run["timestamps"] = tools.timestamps
        if self._usage and any(self._usage.values()):
            usual = ("input_tokens", "output_tokens")
            run["usage"] = {key: n for key, n in self._usage.items() if n or key in usual}
        iso = root["now"] if now == self.started_at else self.turn.clock.iso(now)
        return {**root, "run": run, "now": iso}

    # A function agent

    def _call_function(self) -> Steps:
        root_copy = {key: copied(value) for key, value in self.root.items()}
        state: Mapping[str, Any] = root_copy["state"]
        before = {channel: _encode(canonical(value)) for channel, value in state.items()}
        assert self.agent.function is not None
        self.turn.compiled.functions.caller = self.agent.name
        answer = self.agent.function(root_copy)
        after: Mapping[str, Any] = root_copy["state"]
        changed = tuple(
            channel
            for channel in sorted({*before, *after})
            if channel not in after or _encode(canonical(after[channel])) != before.get(channel)
        )
        if isinstance(answer, m.Handoff):
            self.onward = yield from self._handing_off(answer, "")
        elif answer is not None:
            self.output = copied(answer)
            plain = canonical(answer)
            text = answer if isinstance(answer, str) else _encode(plain).decode()
            self.say(text, data=None if isinstance(answer, str) else plain)
        if self.onward is None:
            self._check_output()
        return changed

    # A model agent

    def _converse(self) -> Steps:
        """Call the model until it answers with text, or passes control.

        Every model call of every run comes through here, so that it is one function: the context,
        its events, the answer.
        """
        turn, agent, messages = self.turn, self.agent, self.messages
        reading: HistorySelection | None = None
        while True:
            if reading is None:
                # Once for all model calls of the run.
                handoff = self.spec.handoff
                current = turn.user if handoff is None else self._current(handoff)
                reading = HistorySelection(
                    turn, agent.name, self.id, handoff, self.root["state"], self.branch,
                    self._log, current,
                )  # fmt: skip
                built = agent.assembly.build(self.root, reading)
                if reading.latency_ms:
                    yield reading.latency_ms
                    if self.branch is not None:
                        # A parallel run may have emitted meanwhile what this context was about to
                        # emit.
                        built = agent.assembly.build(self.root, reading)
            self._model_calls += 1
            if self._model_calls > turn.limits.model_calls_per_run:
                turn.limit("model_calls_per_run", self._model_calls)
            # They are others after a wait, if another process continues the turn.
            recorder, numbers = turn.recorder, turn.numbers
            numbers.model_calls += 1
            call = f"c{numbers.model_calls}"
            base, self._base = self._base, self._base or call
            sizes = [numbers.sizes[message.id] for message in messages] if messages else ()
            tokens = built.tokens + sum([size for _, size in sizes]) if sizes else built.tokens
            now = recorder.clock.now
            recorder.emit(
                e.ContextBuilt(
                    now,
                    turn.session,
                    turn.number,
                    agent.name,
                    self.id,
                    call=call,
                    parts=() if base else tuple(built.parts),
                    base=base,
                    said=tuple([number for number, _ in sizes]) if sizes else (),
                    tools=agent.tools,
                    settings=agent.settings or None,
                    tokens=tokens,
                    budget=turn.budget,
                    left_out=() if base else built.left_out,
                    handoffs=agent.passes_to,
                )
            )
            for name in reading.slices:
                # The event has reported all settled parts.
                stream = reading.slices[name].stream
                stream.numbers_kept, stream.cuts, stream.restarts = [], [], False
            recorder.emit(
                e.ModelCalled(now, turn.session, turn.number, agent.name, self.id, call=call)
            )
            context = ContextMessages(built.parts, tuple(messages), reading.history_of)
            request = ModelRequest(
                agent.name, turn.number, self.id, call, agent.tools, agent.output,
                context.messages, context.sections, self._read, {}, agent.passes_to, turn.session,
            )  # fmt: skip
            if not turn.schedule.answers_at_once:
                yield WaitingCall(agent.name, self.id)
            try:
                answer = turn.model.answer(request)
            except PipelineError as problem:
                if not isinstance(problem, TurnCut):
                    self._fail_unanswered(call, problem)
                raise
            if answer.fault:
                recorder.record_fault(self.position(), fault=answer.fault)
            self._thinking = "" if answer.extras is m.NO_EXTRAS else m.thinking_said(answer)
            if answer.latency_ms:
                yield answer.latency_ms
            if answer.usage is not None:
                self.add_usage(answer.usage)
            reply = answer.reply
            if type(reply) is m.Text or type(reply) is m.Structured:
                self._conclude(call, reply, answer.usage)
                return
            is_done = yield from self._act_on(call, reply, answer.usage)
            if is_done:
                return
            if type(reply) is m.Interrupts:
                reading = None

    def _current(self, handoff: Request) -> tuple[Message, int, int]:
        """Return the message that a handoff's target answers, with its number and tokens."""
        if handoff.query is None:
            return self.turn.user
        return Message("user", handoff.query, turn=self.turn.number), 0, 0

    def add_usage(self, usage: m.Usage) -> None:
        """Add the tokens of a reply to those of the run."""
        for key, number in msgspec.structs.asdict(usage).items():
            self._usage[key] = self._usage.get(key, 0) + (number or 0)

    def _fail_unanswered(self, call: str, problem: PipelineError) -> None:
        """Emit that a call got no answer."""
        error, status, message = unanswered_as(problem)
        self.turn.recorder.record_model_failure(
            self.position(), call=call, error=error, status=status, message=message
        )

    def _act_on(self, call: str, reply: m.Reply, usage: m.Usage | None) -> Steps:
        """Do what a reply asks for; return whether the run's conversation is over."""
        if type(reply) is m.Calls:
            return (yield from self._use_tools(call, reply, usage))
        if type(reply) is m.Handoff:
            self.onward = yield from self._handing_off(reply, call, usage)
            return self.onward is not None
        if isinstance(reply, m.Fails):
            self._fail(call, reply)
            return True
        if not isinstance(reply, m.Interrupts):
            raise ScriptBroken(f"a reply of kind {type(reply).__name__} cannot be served here")
        yield from self._ask_user(call, reply, usage)
        return False

    def _handing_off(self, reply: m.Handoff, call: str, usage: m.Usage | None = None) -> Steps:
        # Made on first use: the two refer to each other, so that only the garbage collector frees
        # them.
        execution = self._handoff_execution = self._handoff_execution or Passing(self)
        return execution.hand_off(reply, call, usage)

    def _read(self, text: str) -> m.JsonValue:
        return parsed(text, self.agent.parse, self.agent.name)[0]

    def say(self, text: str, calls: tuple[m.ToolCall, ...] = (), data: Any = None) -> Message:
        message = self.turn.conversation.add(
            "assistant",
            text,
            agent=self.agent.name,
            run=self.id,
            calls=calls,
            data=data,
            branch=self.branch,
        )
        self.messages.append(message)
        if not calls:
            self.final = message
        return message

    def replied(self, call: str, message: Message, kind: str, usage: m.Usage | None) -> None:
        turn = self.turn
        turn.recorder.record_reply(
            Position(turn.session, turn.number, self.agent.name, self.id),
            call=call,
            message=turn.numbers.sizes[message.id][0],
            reply=kind,
            usage=usage,
            thinking=self._thinking,
        )

    def _conclude(self, call: str, reply: m.Text | m.Structured, usage: m.Usage | None) -> None:
        """End the conversation with the model's last message.

        It makes the message and its event itself: `say` and `replied` would be two calls more in
        every run.
        """
        turn, agent, how = self.turn, self.agent, ""
        if type(reply) is m.Structured:
            kind, data = "json", reply.value
            text, self.output = _encode(data).decode(), data
        else:
            assert type(reply) is m.Text
            kind, text, data = "text", reply.text, None
        self.final = message = turn.conversation.add(
            "assistant", text, agent=agent.name, run=self.id, data=data, branch=self.branch
        )
        self.messages += (message,)
        recorder = turn.recorder
        recorder.emit(
            e.ModelReplied(
                recorder.clock.now,
                turn.session,
                turn.number,
                agent.name,
                self.id,
                call=call,
                message=turn.numbers.messages,
                reply=kind,
                usage=usage,
                thinking=self._thinking,
            )
        )
        if kind == "text":
            self.output, how = parsed(text, agent.parse, agent.name)
            if how:
                recorder.record_parsed_reply(self.position(), call=call, how=how, value=self.output)
        if agent.output is not None:
            self._check_output()

    def _check_output(self) -> None:
        self._check(self.agent.output, self.output, OutputInvalid, "output")

    def _check(
        self, schema: m.JsonValue, value: Any, problem: type[PipelineError], noun: str
    ) -> None:
        """Check an agent's input or output with its schema, if it has one."""
        if schema is None:
            return
        for path, text in schema_errors(schema, canonical(value), self.turn.compiled.schemas):
            raise problem(f"the {noun} of agent {self.agent.name!r}{place_text(path)}: {text}")

    def _fail(self, call: str, reply: m.Fails) -> None:
        """Emit a provider's failure.

        A broken reply is passed on broken, so that the parser meets it.
        """
        if reply.kind == "malformed_json":
            self._conclude(call, m.Text('{"malformed": '), None)
            if self.agent.output is None:
                return
            raise OutputInvalid(f"the output of agent {self.agent.name!r} is not valid JSON")
        self.turn.recorder.record_model_failure(
            self.position(),
            call=call,
            error=reply.kind,
            status=reply.status,
            message=reply.message,
            retry_after_ms=round((reply.retry_after or 0) * 1_000),
        )
        raise ModelError(reply.message, reply.kind, reply.status)

    def _use_tools(self, call: str, reply: m.Calls, usage: m.Usage | None) -> Steps:
        """Call all tools of one message at once; return True if their result is the output."""
        self.tools = tools = self.tools or ToolUse(self.turn, self.agent.name)
        calls = tools.calls_of(reply)
        self.replied(call, self.say(reply.text, calls), "calls", usage)
        answers: list[ToolAnswer] = yield from tools.called(
            calls, self.position, self.root["state"]
        )
        for answer in answers:
            self.hear(answer.call, answer.text, answer.data)
        if self.agent.returns != "tool_output" or any(answer.failed for answer in answers):
            return False
        results = {answer.call.name: self._read_result(answer.result) for answer in answers}
        self.output = next(iter(results.values())) if len(answers) == 1 else results
        self._check_output()
        return True

    def _read_result(self, result: m.JsonValue) -> m.JsonValue:
        """Return the value of a tool's text if it is JSON, as for a reply."""
        return self._read(result) if isinstance(result, str) else result

    def hear(self, call: m.ToolCall, text: str, data: Any = None) -> None:
        self._hear_from("tool", text, data, call)

    def _hear_from(
        self, role: str, text: str, data: Any = None, call: m.ToolCall | None = None
    ) -> None:
        """Add a message to the run's own part of the context."""
        self.messages.append(
            self.turn.conversation.add(
                role,
                text,
                agent=None if role == "user" else self.agent.name,
                run=self.id,
                call_id=call.id if call is not None else "",
                tool=call.name if call is not None else "",
                data=data,
                branch=self.branch,
            )
        )

    # The user

    def _ask_user(self, call: str, reply: m.Interrupts, usage: m.Usage | None) -> Steps:
        """Wait for the user: this run ends, and a new one continues with the answer.

        The new run belongs to the same agent and gets the messages of this one.
        """
        question = reply.question
        text = question if isinstance(question, str) else _encode(question).decode()
        message = self.say(text, data=None if text is question else question)
        self.final = None
        self.replied(call, message, "interrupt", usage)
        event = self.turn.recorder.record_question(self.position(), question=question)
        self.end("interrupted")
        answer = yield Waiting(event)
        self._model_calls = 0
        # It opened its branch when it first started, and continues in it.
        self.group = ""
        self.start()
        self._hear_from(
            "user",
            answer if isinstance(answer, str) else _encode(answer).decode(),
            None if isinstance(answer, str) else answer,
        )


def _first_that_holds(
    rules: Sequence[CompiledRule], root: Mapping[str, Any]
) -> CompiledRule | None:
    for rule in rules:
        if rule.holds(root):
            return rule
    return None
