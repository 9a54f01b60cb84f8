"""Runs of simkit as OTLP, by today's GenAI conventions: what `simkit export` writes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from simkit.capture.telemetry import conventions as names
from simkit.core.messages import JsonValue, Message, Usage
from simkit.language.matching.values import ToolName
from simkit.language.paths import as_text
from simkit.trace import events as e
from simkit.trace.views import View
from simkit.trace.views.turns_and_calls import CallView, RunView, ToolView, TurnView

_CLIENT: Final = 3
_INTERNAL: Final = 1
_FAILED: Final = 2
_MICROSECOND: Final = 1_000
_MILLISECOND: Final = 1_000_000
_DECLARED: Final = "native"
_SETTINGS: Final[Mapping[type, str]] = {
    e.CheckpointRestored: "restart", e.FaultInjected: "faults", e.LimitReached: "limits",
}  # fmt: skip


def otlp_of(view: View, run: str = "") -> dict[str, Any]:
    """Return a run as one OTLP message in JSON's form; equal runs give equal messages.

    ``run`` tells it from others that have the same scenario's name.
    """
    return {"resourceSpans": [_Writer(view, run).resource()]}


class _Writer:
    """Writes the spans of one run. Spans of one moment are a microsecond apart: viewers keep it."""

    def __init__(self, view: View, run: str) -> None:
        assert view.started is not None
        self._view, self._count, self._started = view, 0, view.started
        self._key = run or self._started.scenario
        self._start = round(datetime.fromisoformat(self._started.start).timestamp()) * 10**9
        self._forms = {
            event.call: event.reply for event in view.events if isinstance(event, e.ModelReplied)
        }
        self._tokens = {
            event.message.id: event.tokens
            for event in view.events
            if isinstance(event, e.MessageAdded)
        }
        self._spans: list[dict[str, Any]] = []

    def resource(self) -> dict[str, Any]:
        """Return all spans, with what they share."""
        for turn in self._view.turns:
            self._turn(turn)
        shared = {
            "service.name": self._view.pipeline.name,
            names.PIPELINE: self._view.pipeline.name,
            names.SCENARIO: self._started.scenario,
            names.RUN: self._key,
            names.SEED: self._started.seed,
            names.START: self._started.start,
            names.GIVEN: self._values_given(),
        }
        scope = {"scope": {"name": names.OWN}, "spans": self._spans}
        return {"resource": {"attributes": _attributes(shared)}, "scopeSpans": [scope]}

    def _values_given(self) -> dict[str, JsonValue]:
        """Return the values that the scenario gave the state."""
        given: dict[str, JsonValue] = {}
        for event in self._view.events:
            if isinstance(event, e.StateUpdated) and event.cause == "given":
                for channel, value in self._view.update_of(event).items():
                    is_reset = isinstance(value, Mapping) and [*value] == ["$set"]
                    text = json.dumps(value["$set"] if is_reset else value, default=_encode_given)
                    given.setdefault(channel, json.loads(text))
        return given

    def _turn(self, turn: TurnView) -> None:
        first = len(self._spans)
        messages = [_message(turn.message)] if turn.message is not None else []
        data = turn.message.data if turn.message is not None else None
        root = self._span(
            turn,
            f"turn {turn.number}",
            turn.at,
            f"invoke_workflow {self._view.pipeline.name}",
            {
                names.CONVERSATION: f"{self._started.scenario} {turn.session}",
                names.SESSION: turn.session,
                names.PROJECT: self._view.projects.get(turn.session, ""),
                names.TURN: turn.number,
                names.SETTINGS: self._settings(turn),
                **self._answer(turn),
                **({names.DATA: data} if data is not None else {}),
                names.INPUT: json.dumps(messages, ensure_ascii=False),
                names.KIND: "CHAIN",
                **_display_values(turn.message, turn.reply),
            },
            "",
            None if turn.error is None else (turn.error.type, turn.error.message),
        )
        tools = {tool.call_id: self._tool(turn, tool, root) for tool in turn.tools}
        runs = {run.id: self._run(turn, run, tools.get(run.call_id, root)) for run in turn.runs}
        for call in turn.calls:
            self._call(turn, call, runs.get(call.run, root))
        for handoff in turn.handoffs:
            if handoff.outcome == "made":
                event = handoff.event
                attributes = {
                    names.HANDOFF_FROM: event.from_agent,
                    names.HANDOFF_TO: event.to_agent,
                    names.KIND: "CHAIN",
                    **_display_values(handoff.payload),
                }
                name = f"agent_handoff {event.to_agent}"
                self._span(turn, handoff.id, event.at, name, attributes, root)
        count = {names.SPANS: len(self._spans) - first}
        self._spans[first]["attributes"] += _attributes(count)

    def _settings(self, turn: TurnView) -> list[JsonValue]:
        """Return the keys of its scenario whose values are not in the trace."""
        before = self._view.turns[turn.number - 2].hi if turn.number > 1 else 0
        events = self._view.events[before : turn.hi]
        keys = {_SETTINGS[type(event)] for event in events if type(event) in _SETTINGS}
        keys |= {"latency_ms"} if events[-1].at > turn.at else set()
        keys |= {"pause"} if before and turn.at > self._view.events[before - 1].at else set()
        keys |= {"app"} if self._started.driver != _DECLARED and not before else set()
        return [*sorted(keys)]

    def _answer(self, turn: TurnView) -> dict[str, JsonValue]:
        """Return the user's answer to the question of a turn that waited; empty for a message."""
        for event in self._view.events:
            if isinstance(event, e.TurnResumed) and event.turn == turn.number:
                return {names.RESUME: event.value}
        return {}

    def _run(self, turn: TurnView, run: RunView, parent: str) -> str:
        attributes = {names.AGENT: run.agent, **_display_values(run.input, run.output)}
        name = f"{names.INVOKES[0]} {run.agent}"
        return self._span(turn, run.id, run.at, name, attributes, parent)

    def _tool(self, turn: TurnView, tool: ToolView, parent: str) -> str:
        attributes: dict[str, JsonValue] = {
            names.TOOL_NAME: tool.tool,
            names.CALL_ID: tool.call_id,
            names.ARGUMENTS: tool.args,
            **({names.SERVER: tool.server} if tool.server else {}),
            **_display_values(tool.args, tool.error),
        }
        if tool.error is None and tool.returned_at is not None:
            attributes[names.RESULT] = tool.result
        name, key = f"{names.TOOL} {tool.tool}", f"tool {tool.call_id}"
        failure = None if tool.error is None else ("tool_error", tool.error)
        return self._span(turn, key, tool.at, name, attributes, parent, failure)

    def _call(self, turn: TurnView, call: CallView, parent: str) -> None:
        messages = [_message(message) for message in call.context.messages]
        size = self._tokens.get(call.reply.id, 0) if call.reply is not None else 0
        usage = call.usage or Usage(call.context.tokens, size)
        attributes: dict[str, JsonValue] = {
            names.PROVIDER: names.OWN,
            names.AGENT: call.agent,
            names.INPUT: json.dumps(messages, ensure_ascii=False),
            names.INPUT_TOKENS: usage.input_tokens,
            names.OUTPUT_TOKENS: usage.output_tokens,
            **_display_values(call.context.messages[-1] if messages else None, call.reply),
        }
        if call.reply is not None:
            finish = {"finish_reason": "tool_call" if call.reply.calls else "stop"}
            output = [{**_message(call.reply), **finish}]
            attributes[names.OUTPUT] = json.dumps(output, ensure_ascii=False)
            attributes[names.FORM] = self._forms.get(call.id, "")
        if call.context.tools:
            offers = [{"type": "function", **_offer(tool)} for tool in call.context.tools]
            attributes[names.OFFERS] = json.dumps(offers, ensure_ascii=False)
        failure = None if call.error is None else (call.error.error, call.error.message)
        self._span(turn, call.id, call.at, names.ASKS[0], attributes, parent, failure, _CLIENT)

    def _span(
        self,
        turn: TurnView,
        key: str,
        at: int,
        name: str,
        attributes: Mapping[str, JsonValue],
        parent: str = "",
        failure: tuple[str, str] | None = None,
        kind: int = _INTERNAL,
    ) -> str:
        """Add a span; return its id."""
        self._count += 1
        started = self._start + at * _MILLISECOND + self._count * _MICROSECOND
        identity = _digest(self._key, turn.session, key)[:16]
        values = {names.OPERATION: name.partition(" ")[0], **attributes}
        values |= {names.ERROR: failure[0]} if failure else {}
        self._spans.append(
            {
                "traceId": _digest(self._key, turn.session, str(turn.number))[:32],
                "spanId": identity,
                **({"parentSpanId": parent} if parent else {}),
                "name": name,
                "kind": kind,
                "startTimeUnixNano": str(started),
                "endTimeUnixNano": str(started + _MICROSECOND),
                "attributes": _attributes(values),
                "status": {"code": _FAILED, "message": failure[1]} if failure else {},
            }
        )
        return identity


def _display_values(source: Any, output: Any = None) -> dict[str, JsonValue]:
    """Return what viewers show of a span at once, by OpenInference's names."""
    if isinstance(output, Message):
        output = output.content or {call.name: call.args for call in output.calls}
    values = {names.SHOWN_INPUT: source, names.SHOWN_OUTPUT: output}
    return {key: as_text(value) for key, value in values.items() if value is not None}


def _offer(tool: str) -> dict[str, Any]:
    """Return what a model is sent of a tool, as far as the trace has it."""
    if not isinstance(tool, ToolName):
        return {"name": tool}
    return {"name": str(tool), "description": tool.description, "parameters": tool.parameters}


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _message(message: Message) -> dict[str, Any]:
    """Return a message in the form of GenAI conventions."""
    if message.role == "tool":
        parts = [{"type": "tool_call_response", "id": message.call_id, "response": message.content}]
        return {"role": "tool", "parts": parts}
    parts = [{"type": "text", "content": message.content}] if message.content else []
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.args}
        for call in message.calls
    ]
    return {"role": message.role, "parts": parts}


def _encode_given(value: Message | Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a message, or a mapping of the state, as a scenario gives it to the state."""
    if isinstance(value, Mapping):
        return dict(value)
    calls: list[JsonValue] = [{"id": c.id, "tool": c.name, "args": c.args} for c in value.calls]
    fields = {"agent": value.agent, "calls": calls, "call_id": value.call_id, "tool": value.tool}
    parts = {key: field for key, field in fields.items() if field}
    return {"role": value.role, "content": value.content, **parts}


def _attributes(values: Mapping[str, JsonValue]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _any_value(value)} for key, value in values.items()]


def _any_value(value: JsonValue) -> dict[str, Any]:
    """Return a value as OTLP's `AnyValue`, which keeps its type."""
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case Mapping():
            return {"kvlistValue": {"values": _attributes(value)}}
        case Sequence():
            return {"arrayValue": {"values": [_any_value(item) for item in value]}}
    return {}
