"""One run's tool calls: requests, parallel execution, answers, records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from simkit.core.messages import Calls, JsonValue, ToolCall, call_of
from simkit.language.json_schema import place_text, schema_errors
from simkit.runtime.models.faults import ToolStart
from simkit.runtime.models.returned import refuse_unwrapped
from simkit.runtime.ports import ToolReply, WaitingCall
from simkit.runtime.querying import looked_up
from simkit.runtime.scheduler import Steps, Together
from simkit.runtime.turn import Turn
from simkit.spec.scenario.moments import AT_END, AT_START
from simkit.spec.scenario.orders import TOOL_MARK
from simkit.trace.recorder import Position
from simkit.trace.store import canonical


class ToolAnswer(msgspec.Struct, frozen=True, gc=False):
    """A tool's answer, as the agent gets it."""

    call: ToolCall
    text: str
    data: JsonValue
    """The value that the text was made from; None if it was text."""
    result: JsonValue
    failed: bool = False


class ToolUse:
    """The tools that one run has called."""

    def __init__(self, turn: Turn, agent: str) -> None:
        self._turn, self._agent = turn, agent
        self.names: list[str] = []
        """Tools in the order of their answers."""
        self.results: dict[str, Any] = {}
        """Tool to its last result; two calls of one tool collide, as in reference system 1."""
        self.records: list[dict[str, Any]] = []
        """Every call with its answer and its virtual times, in the order of the calls."""
        self.timestamps: dict[str, dict[str, str]] = {}
        """Call id to the virtual times of its start and end."""
        self._starts: dict[str, ToolStart | None] = {}
        """Call id to its numbers, in a turn that is to end at a tool."""

    def calls_of(self, reply: Calls) -> tuple[ToolCall, ...]:
        """Return the calls of a reply with new ids."""
        calls = []
        for line in reply.calls:
            self._turn.numbers.calls += 1
            calls.append(call_of(f"call{self._turn.numbers.calls}", line.tool, line.args))
        return tuple(calls)

    def called(
        self, calls: Sequence[ToolCall], position: Callable[[], Position], state: Mapping[str, Any]
    ) -> Steps:
        """Call all at once, and return the answers in the order of the calls.

        ``state`` is the state that the run sees.
        """
        turn, first = self._turn, len(self.records)
        started = turn.clock.now
        if not turn.plan.ends_at_tool:  # A call at which the turn ends was never made.
            for call in calls:
                turn.recorder.record_tool_call(
                    position(), call_id=call.id, tool=call.name, args=call.args
                )
        schedule = turn.schedule
        if not schedule.answers_at_once and schedule.orders_tools and len(calls) > 1:
            each = [self._waits(call, state, started, position) for call in calls]
            replies = yield Together(each)
            self._put_in_order(first, calls)
            return [_answer_of(call, answer) for call, answer in zip(calls, replies, strict=True)]
        turn.compiled.functions.caller = self._agent
        replies = [self._answered(candidate, state, position) for candidate in calls]
        latencies = [reply.latency_ms for reply in replies]
        for place in sorted(range(len(calls)), key=latencies.__getitem__):
            wait = started + latencies[place] - turn.clock.now
            if wait > 0:
                yield wait
            self._record(calls[place], replies[place], started, position())
        if len(calls) > 1:
            self._put_in_order(first, calls)
        return [_answer_of(call, answer) for call, answer in zip(calls, replies, strict=True)]

    def _put_in_order(self, first: int, calls: Sequence[ToolCall]) -> None:
        """Sort the records from an index on as the calls, which templates count."""
        places = {call.id: place for place, call in enumerate(calls)}
        self.records[first:] = sorted(
            self.records[first:], key=lambda record: places[record["call_id"]]
        )

    def _waits(
        self,
        call: ToolCall,
        state: Mapping[str, Any],
        started: int,
        position: Callable[[], Position],
    ) -> Steps:
        """Answer one of several calls when the schedule chooses it; return the reply."""
        yield WaitingCall(f"{call.name}{TOOL_MARK}", call.id)
        self._turn.compiled.functions.caller = self._agent
        reply = self._answered(call, state, position)
        if reply.latency_ms:
            yield reply.latency_ms
        self._record(call, reply, started, position())
        return reply

    def _answered(
        self, call: ToolCall, state: Mapping[str, Any], position: Callable[[], Position]
    ) -> ToolReply:
        """Begin a call, unless the turn ends here; return the reply."""
        turn = self._turn
        if turn.plan.ends_at_tool:
            self._starts[call.id] = turn.plan.begin_tool(self._agent, call.name)
            self._end_turn_if_due(call, AT_START)
            turn.recorder.record_tool_call(
                position(), call_id=call.id, tool=call.name, args=call.args
            )
        return self._valid(call, self._answer(call, state))

    def _answer(self, call: ToolCall, state: Mapping[str, Any]) -> ToolReply:
        turn = self._turn
        if call.name not in turn.compiled.tool_names:
            # Only a line with `unchecked` says this: models make such calls, too.
            return ToolReply(None, f"there is no tool {call.name!r}")
        channel = turn.compiled.tool_reads.get(call.name)
        if channel is None or turn.tools.scripts(call.name):
            return turn.tools.call(self._agent, call.name, call.args)
        return looked_up(channel, state.get(channel), call.args)

    def _end_turn_if_due(self, call: ToolCall, at: str) -> None:
        """Raise TurnCut if the turn ends at the start or at the end of a call."""
        cut = self._turn.plan.due_at_tool(self._starts[call.id], at)
        if cut is not None:
            raise cut

    def _valid(self, call: ToolCall, reply: ToolReply) -> ToolReply:
        """Return a failure in place of a result that the tool's schema rejects."""
        schema = self._turn.compiled.tool_returns.get(call.name)
        if schema is None or reply.error is not None:
            return reply
        refuse_unwrapped(call.name, reply, schema, self._turn.compiled.schemas)
        for path, text in schema_errors(schema, reply.result, self._turn.compiled.schemas):
            error = f"the result of tool {call.name!r}{place_text(path)}: {text}"
            return ToolReply(None, error, reply.latency_ms)
        return reply

    def _record(self, call: ToolCall, reply: ToolReply, started: int, position: Position) -> None:
        turn = self._turn
        if turn.plan.ends_at_tool:
            self._end_turn_if_due(call, AT_END)
        self.names.append(call.name)
        called_at, returned_at = turn.clock.iso(started), turn.clock.iso(turn.clock.now)
        self.timestamps[call.id] = {"executedAt": called_at, "returnedAt": returned_at}
        self.records.append(
            {
                "call_id": call.id,
                "tool": call.name,
                "args": call.args,
                "result": reply.result,
                "error": reply.error,
                "called_at": called_at,
                "returned_at": returned_at,
            }
        )
        if reply.error is not None:
            turn.recorder.record_tool_failure(
                position, call_id=call.id, tool=call.name, error=reply.error
            )
        else:
            self.results[call.name] = reply.result
            turn.recorder.record_tool_result(
                position, call_id=call.id, tool=call.name, result=reply.result
            )


def _answer_of(call: ToolCall, reply: ToolReply) -> ToolAnswer:
    if reply.error is not None:
        return ToolAnswer(call, reply.error, None, None, failed=True)
    if isinstance(reply.result, str):
        return ToolAnswer(call, reply.result, None, reply.result)
    text = msgspec.json.encode(canonical(reply.result)).decode()
    return ToolAnswer(call, text, reply.result, reply.result)
