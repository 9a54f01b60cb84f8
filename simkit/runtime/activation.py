"""One agent run: its place, its input and state, its messages, its handoffs, its end.

`simkit.runtime.running` runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from simkit.core import messages as m
from simkit.core.errors import HandoffInvalid, OutputInvalid, PipelineError
from simkit.core.messages import ABSENT, HANDOFF_PREFIX, Handoff, Message, ToolCall, Usage
from simkit.language.json_schema import place_text, schema_errors
from simkit.runtime.compiled import CompiledAgent, CompiledRule, Request, reason_against, requested
from simkit.runtime.context.assembly import Assembled
from simkit.runtime.conversation import Branch
from simkit.runtime.scheduler import Steps, TimedOut, WaitForUser, within
from simkit.runtime.tool_use import ToolUse, changed_handoff, decisions_in
from simkit.runtime.turn import HistorySelection, Start, Turn
from simkit.trace.events import EditedCall, HandoffRequested
from simkit.trace.recorder import Position
from simkit.trace.store import canonical


def _run_of(branch: Branch | None) -> str:
    """Return the run that opened a branch; empty without one."""
    return branch.run if branch is not None else ""


class Activation(msgspec.Struct, eq=False):
    """One agent run in a turn; ``start`` announces it."""

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
    values: dict[str, Any] = {}
    """The state that it can read."""
    onward: Request | None = None
    """The handoff that ended this run, by transfer or replace; None if there is none."""
    output: Any = None
    final: Message | None = None
    messages: list[Message] = []
    tools: ToolUse | None = None
    """The tools that it has called; None if it has not called any."""
    own_numbers: tuple[int, ...] = ()
    """The numbers of these messages."""
    own_tokens: int = 0
    """Their tokens."""
    log: Sequence[Message] = ()
    """The messages before the run, if its context shows the log."""
    reading: HistorySelection | None = None
    """The histories of its context; None until it is built."""
    built: Assembled | None = None
    """Its context without its own messages; None until it is built."""
    call: str = ""
    """Its last model call."""
    base: str = ""
    """Its first model call, whose context the later ones repeat; empty before it."""
    model_calls: int = 0
    """The model calls since the user's last answer."""
    is_over: bool = False
    """Whether only its writes and its end remain."""
    stood_in: CompiledRule | None = None
    """The rule that it followed instead of running; None if it runs."""
    changed: tuple[str, ...] = ()
    """The channels that its function changed in place."""
    retried: frozenset[tuple[str, str]] = frozenset()
    """Target and type of handoffs that were refused once and may not be refused again."""
    thinking: str = ""
    """The thinking before the model's last reply."""
    _root: dict[str, Any] | None = None
    _usage: dict[str, int] = {}
    _has_ended: bool = False

    # Start

    def start(self) -> None:
        """Assign the run's number and the state that it can read, and emit AgentStarted."""
        turn, spec, handoff = self.turn, self.spec, self.spec.handoff
        turn.runs += 1
        turn.limit("agent_runs_per_turn", turn.runs)
        turn.numbers.runs += 1
        self.id = f"r{turn.numbers.runs}"
        self.started_at = turn.clock.now
        self._has_ended, self.base = False, ""
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
            self.log = turn.conversation.log_of(self.branch) if reads_log else ()
        self.input, recorded_input = turn.input, turn.recorded_input
        if handoff is not None or spec.input is not ABSENT:
            self.input, recorded_input = self._given_input()
        self.values, self._root = self._values_carried(carries), None
        turn.recorder.record_agent_start(
            self.position(),
            input=recorded_input,
            handoff=handoff.id if handoff else "",
            handoff_from=handoff.source if handoff else "",
            group=self.group,
            channels=carries,
            branch=_run_of(self.branch),
            outer=_run_of(outer if self.group else None),
            after=spec.after,
            task=spec.task,
            goal=spec.goal,
        )
        if spec.problem_text and not self.messages:
            self.hear(spec.problem_text, role="system")

    def root(self) -> dict[str, Any]:
        """Return the values for references before the run; few runs need them."""
        if self._root is not None:
            return self._root
        turn, spec, handoff = self.turn, self.spec, self.spec.handoff
        self._root = {
            "state": self.values,
            "run": None,
            "handoff": handoff.facts() if handoff is not None else None,
            "user": turn.input,
            "agent": self.agent.name,
            "input": self.input,
            "task": spec.task or None,
            "upstream": spec.upstream,
            "now": turn.clock.iso(self.started_at),
        }
        return self._root

    def _given_input(self) -> tuple[Any, m.JsonValue]:
        """Return the input that a step or a handoff gives, and the same as plain data."""
        value, handoff, turn = self.spec.input, self.spec.handoff, self.turn
        if handoff is not None:
            if value is ABSENT:
                value = handoff.payload if handoff.payload is not None else handoff.query
            if value is handoff.payload:
                return value, handoff.recorded_payload
        return value, turn.recorded_input if value is turn.input else canonical(value)

    def _values_carried(self, carries: Sequence[str] | None) -> dict[str, Any]:
        """Return a copy of the state, or of the channels that a handoff's contract carries."""
        # It does not read a delegate's writes, whether or not the contract has `carries`.
        turn, branch = self.turn, self.branch
        values = dict(turn.conversation.values if branch is None else turn.values(branch))
        if carries is None:
            return values
        return {name: values[name] for name in carries if name in values}

    def position(self) -> Position:
        """Return the run's current position: a run may go on in a later turn."""
        return Position(self.turn.session, self.turn.number, self.agent.name, self.id)

    def cancel(self, why: str = "cancelled") -> None:
        """End a run that was announced and has not ended yet."""
        if not self._has_ended:
            self.end(why)

    def end(self, status: str, changed: tuple[str, ...] = ()) -> None:
        """Emit the run's end."""
        self._has_ended = True
        if self.branch is not None:
            self.turn.conversation.branch_logs.end(self.id)
        self.turn.recorder.record_agent_end(
            self.position(),
            status=status,
            output=canonical(self.output),
            message=self.final.number if self.final is not None else 0,
            changed_in_place=changed,
        )

    def root_now(self) -> dict[str, Any]:
        """Return the values for a flow's references after the run."""
        root = self.root_with_run()
        root["state"] = self.turn.values(self.branch)
        return root

    def as_input(self) -> dict[str, Any]:
        """Return the run's result for later runs: its output and its tool calls."""
        return {"output": self.output, "tool_calls": self.tools.records if self.tools else []}

    def root_with_run(self) -> dict[str, Any]:
        """Return the values for references after the run, with the state before it."""
        root, tools, now = self.root(), self.tools, self.turn.clock.now
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

    # Its messages

    def add_usage(self, usage: m.Usage) -> None:
        """Add the tokens of a reply to those of the run."""
        for key, number in msgspec.structs.asdict(usage).items():
            self._usage[key] = self._usage.get(key, 0) + (number or 0)

    def say(
        self,
        text: str,
        calls: tuple[m.ToolCall, ...] = (),
        data: Any = None,
        *,
        kind: str = "",
        usage: m.Usage | None = None,
    ) -> Message:
        """Log a message of the run; with a kind, it is a reply to the model call."""
        message = self._add("assistant", text, agent=self.agent.name, calls=calls, data=data)
        if not calls:
            self.final = message
        if kind:
            self.turn.recorder.record_reply(
                self.position(),
                call=self.call,
                message=message.number,
                reply=kind,
                usage=usage,
                thinking=self.thinking,
            )
        return message

    def hear(
        self, text: str, call: m.ToolCall | None = None, data: Any = None, role: str = "tool"
    ) -> None:
        """Log a message to the run: the answer to one of its calls, or another role's words."""
        self._add(
            role,
            text,
            agent=None if role == "user" else self.agent.name,
            call_id=call.id if call is not None else "",
            tool=call.name if call is not None else "",
            data=data,
        )

    def _add(self, role: str, text: str, **facts: Any) -> Message:
        """Log a message of the run, which its later contexts show."""
        turn = self.turn
        message = turn.conversation.add(role, text, run=self.id, branch=self.branch, **facts)
        self.messages.append(message)
        number, tokens = turn.numbers.sizes[message.id]
        self.own_numbers += (number,)
        self.own_tokens += tokens
        return message

    # The user

    def ask_user(self, question: Any) -> Steps:
        """End with a question, and return the answer; the agent continues as a new run.

        The new run has the messages of this one.
        """
        event = self.turn.recorder.record_question(self.position(), question=question)
        self.end("interrupted")
        answer = yield WaitForUser(event)
        self.model_calls, self.built = 0, None
        # It opened its branch when it first started, and continues in it.
        self.group = ""
        self.start()
        if self.tools is not None:
            self.tools.continue_as(self.id)
        return answer

    def wait_for_decisions(self, calls: Sequence[ToolCall]) -> Steps:
        """Ask the user about calls; return the decisions in their order, or raise ScriptMisfit."""
        question = [{"tool": c.name, "args": c.args, "agent": self.agent.name} for c in calls]
        answer = yield from self.ask_user(canonical(question))
        return decisions_in(answer, calls, self.turn)

    def edit(self, call: ToolCall, args: Any) -> ToolCall:
        """Return a call with the user's arguments, and record the change."""
        before, after = EditedCall(call.name, call.args), EditedCall(call.name, args)
        self.turn.recorder.record_edit(
            self.position(), call_id=call.id, by="user", before=before, after=after
        )
        return ToolCall(call.id, call.name, args, is_ordinary=call.is_ordinary)

    # Schemas

    def check_output(self) -> None:
        """Raise OutputInvalid if its output does not satisfy the agent's schema."""
        self.check(self.agent.output, self.output, OutputInvalid, "output")

    def check(
        self, schema: m.JsonValue, value: Any, problem: type[PipelineError], noun: str
    ) -> None:
        """Raise a problem if a value does not satisfy a schema; ``noun`` is its name."""
        if schema is None:
            return
        for path, text in schema_errors(schema, canonical(value), self.turn.compiled.schemas):
            raise problem(f"the {noun} of agent {self.agent.name!r}{place_text(path)}: {text}")


# Execution of handoffs: request, contract, and transfer to the target or back


_encode = msgspec.json.Encoder().encode


class TurnStopped(Exception):
    """A contract's ``stop`` ended the turn, without an error."""


def hand_off(
    source: Activation, reply: Handoff, usage: Usage | None = None, kind: str = "handoff"
) -> Steps:
    """Pass control if the contract allows it; otherwise the run gets the reason.

    ``kind`` is empty if no model asked for it.
    """
    turn = source.turn
    request = _make_request(source, reply)
    turn.numbers.calls += 1
    arguments: dict[str, Any] = {"type": request.type}
    if request.query is not None:
        arguments["query"] = request.query
    if request.recorded_payload is not None:
        arguments["payload"] = request.recorded_payload
    name = f"{HANDOFF_PREFIX}{reply.to}"
    handoff_call = ToolCall(f"call{turn.numbers.calls}", name, arguments)
    source.say(reply.text, (handoff_call,), kind=kind, usage=usage)
    event = record_request(source, request, handoff_call.id)
    reason = _reason_against(source, request)
    if not reason and request.contract is not None and request.contract.approval:
        (decision,) = yield from source.wait_for_decisions([handoff_call])
        if not decision.is_approved:
            turn.recorder.record_rejection(source.position(), event, reason=decision.reason)
            _tell_rejection(source, request, handoff_call, decision.reason)
            return
        if decision.args is not None:
            turn.recorder.record_rejection(source.position(), event, reason="the user changes it")
            handoff_call = source.edit(handoff_call, decision.args)
            request = _make_request(source, changed_handoff(decision.args, reply, turn))
            event = record_request(source, request, handoff_call.id)
            reason = _reason_against(source, request)
    if reason:
        turn.recorder.record_rejection(source.position(), event, reason=reason)
        _reject(source, request, handoff_call, reason)
        return
    make_handoff(source, request, event)
    if request.mode == "delegate":
        yield from _delegate(source, request, handoff_call)
        return
    source.hear(f"Transferred to {request.target}.", handoff_call)
    source.onward = request
    source.is_over = True


def _make_request(source: Activation, reply: Handoff) -> Request:
    turn = source.turn
    identity, depth = turn.count_handoff(), source.spec.depth + 1
    return requested(turn.compiled, identity, source.agent.name, reply, depth)


def _reason_against(source: Activation, request: Request) -> str:
    if not source.agent.hands_over:
        return f"{source.agent.name!r} says `handoffs: []`: its model passes control to nobody"
    return reason_against(source.turn.compiled, request)


def _tell_rejection(source: Activation, request: Request, call: ToolCall, reason: str) -> None:
    source.hear(f"Handoff to {request.target} rejected: {reason}", call)


def _reject(source: Activation, request: Request, call: ToolCall, reason: str) -> None:
    _tell_rejection(source, request, call, reason)
    pair = request.target, request.type
    check_refusal(request, reason, pair in source.retried)
    source.retried |= {pair}


def check_refusal(request: Request, reason: str, has_retried: bool) -> None:
    """Raise TurnStopped or HandoffInvalid if a contract's `on_invalid` ends a refused handoff.

    Otherwise its source may try again.
    """
    policy = request.contract.on_invalid if request.contract is not None else "reject"
    if policy == "stop":
        raise TurnStopped(reason)
    if policy == "retry" and has_retried:
        raise HandoffInvalid(
            f"the handoff from {request.source!r} to {request.target!r} was refused again: {reason}"
        )


def _delegate(source: Activation, request: Request, call: ToolCall) -> Steps:
    """Run the target, and give its output to the source."""
    turn = source.turn
    start = Start(request.target, request, request.depth, source.branch, goal=source.spec.goal)
    steps = turn.chain(turn, start)
    timeout = request.contract.timeout_ms if request.contract is not None else None
    try:
        last = yield from steps if timeout is None else run_within(turn, steps, timeout)
    except TimedOut:
        source.hear(f"Handoff to {request.target} timed out after {timeout} ms", call)
        return
    output = last.output
    text = output if isinstance(output, str) else _encode(canonical(output)).decode()
    source.hear(text, call, None if text is output else output)


def make_handoff(source: Activation, request: Request, event: HandoffRequested) -> None:
    """Emit that a handoff is made, and apply its contract's writes, before its target starts.

    The writes are the source's update: its model asked for the handoff.
    """
    turn = source.turn
    turn.recorder.record_handoff(source.position(), event, depth=request.depth)
    writes = turn.compiled.writes_of(request.contract)
    if writes is None:
        return
    update = writes.resolve({**source.root_now(), "handoff": request.facts()})
    turn.write(update, "handoff", source.agent.name, source.id, source.branch, request.id)


def record_request(source: Activation, request: Request, call_id: str = "") -> HandoffRequested:
    """Record that a run asks for a handoff; return the event, which its outcome refers to."""
    return source.turn.recorder.record_handoff_request(
        source.position(),
        handoff=request.id,
        from_agent=request.source,
        to_agent=request.target,
        type=request.type,
        mode=request.mode,
        query=request.query,
        payload=request.recorded_payload,
        call_id=call_id,
    )


def run_within(turn: Turn, steps: Steps, timeout_ms: int) -> Steps:
    """Run a turn's work for a limited time; raise TimedOut after it."""

    def closes() -> None:
        turn.closing = "timed_out"

    try:
        result = yield from within(steps, turn.clock, timeout_ms, closes)
    except TimedOut:
        turn.closing = "cancelled"
        raise
    return result
