"""Lints on tool calls: repeated ones, and unanswered ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from simkit.checks.findings import Hit
from simkit.checks.lints.runner import ToolMessage, reads
from simkit.core.messages import JsonValue
from simkit.core.text import short_both
from simkit.language.json_schema.coercion import lost_in
from simkit.language.paths import as_text
from simkit.trace import events as e
from simkit.trace.views import View

REPEATED_MIN: Final = 3
"""The number of equal calls with equal results that is too many."""
_encode = msgspec.json.Encoder(order="sorted").encode


class _Times(msgspec.Struct):
    """The number of consecutive equal results of a call."""

    count: int
    result: JsonValue


class RepeatedCall:
    """FLW-03: no agent makes the same call three times in a turn with the same result.

    Tool, arguments and result are the same each time, and no run writes to the state in between. A
    failure may be retried: it does not count, and counting restarts after it. If the driver sees no
    state, changes are unknown: a warning. From MAST 1.3, step repetition (15.7 % of failures).
    """

    id = "FLW-03"

    def __init__(self) -> None:
        self._last_calls: dict[str, tuple[str, str, bytes]] = {}
        self._times: dict[tuple[str, str, bytes], _Times] = {}

    @reads(e.ToolCalled)
    def call(self, event: e.ToolCalled, view: View) -> Iterable[Hit]:
        """Remember the arguments of a call."""
        # An unknown value equals nothing.
        if event.args is not None:
            self._last_calls[event.call_id] = event.agent, event.tool, _encode(event.args)
        return ()

    @reads(e.ToolFailed)
    def fail(self, event: e.ToolFailed, view: View) -> Iterable[Hit]:
        """Count from the beginning after a failure."""
        call = self._last_calls.pop(event.call_id, None)
        if call is not None:
            self._times.pop(call, None)
        return ()

    @reads(e.StateUpdated, e.TurnStarted, waits="_times")
    def write(self, event: e.StateUpdated | e.TurnStarted, view: View) -> Iterable[Hit]:
        """Count from the beginning after a write, and in a new turn."""
        if isinstance(event, e.TurnStarted) or event.cause != "given":
            self._times.clear()
        return ()

    @reads(e.ToolReturned)
    def look(self, event: e.ToolReturned, view: View) -> Iterable[Hit]:
        """Count the results of equal calls since the last write."""
        sees_state = "state" in view.pipeline.observes
        call = self._last_calls.pop(event.call_id, None)
        if call is None:
            return ()
        times = self._times.get(call)
        if times is None or times.result != event.result:
            self._times[call] = _Times(1, event.result)
            return ()
        times.count += 1
        if times.count != REPEATED_MIN:
            return ()
        problem = (
            f"agent {event.agent!r} called {event.tool!r} {REPEATED_MIN} times in turn "
            f"{event.turn} with the same arguments and the same result, and nothing changed "
            f"in between"
        )
        severity: Literal["W"] | None = None if sees_state else "W"
        data = {"tool": event.tool}
        return (Hit(self.id, problem, event.turn, event.agent, severity=severity, data=data),)


class _Open(NamedTuple):
    """A call that waits for its answer."""

    agent: str
    run: str
    tool: str
    message: int = 0
    """The number of the message that asks for it."""


class OpenWork:
    """FLW-07: a turn does not end with requested tool calls that were never answered.

    It may if it ends with an error or a question to the user; a run that was cancelled or timed out
    need not answer. Handoffs, and calls beside them, are left to HND-06. If code forced the model
    to choose this tool, or any (`tool_choice`), the call may be the answer itself: that is one way
    to request structured output, and a loop whose model must call can only end with a call.

    Code may read a call instead of answering it. It does if a later context of the agent continues
    without the call, and if the agent's run is over and the turn has a reply. If that reply is only
    the text beside the call, or if no adapter sees the run, the hit is a warning. From MAST 3.1,
    premature termination.
    """

    id = "FLW-07"

    def __init__(self) -> None:
        self._open: dict[str, dict[str, _Open]] = {}
        """Session to its open calls."""
        self._group_runs: set[str] = set()
        """Calls beside a handoff."""

    @reads(ToolMessage)
    def hear(self, event: e.MessageAdded, view: View) -> Iterable[Hit]:
        """Keep calls until they are answered or the turn ends."""
        message = event.message
        if message.calls:
            self._open_calls(event, _forced_tool(event, view))
        else:
            self._answered(event.session, message.call_id)
        return ()

    @reads(e.ToolCalled)
    def call(self, event: e.ToolCalled, view: View) -> Iterable[Hit]:
        """Keep a call that no message asks for."""
        self._add(event, event.call_id, event.tool)
        return ()

    @reads(e.ToolReturned, e.ToolFailed)
    def take(self, event: e.ToolReturned | e.ToolFailed, view: View) -> Iterable[Hit]:
        """Note that a call is answered."""
        self._answered(event.session, event.call_id)
        return ()

    def _open_calls(self, event: e.MessageAdded, forced: JsonValue) -> None:
        message = event.message
        if any(call.is_handoff for call in message.calls):
            self._group_runs.update(call.id for call in message.calls)
            return
        for call in message.calls:
            if forced not in (call.name, "required"):
                self._add(event, call.id, call.name, message.number)

    def _add(
        self, event: e.MessageAdded | e.ToolCalled, call: str, tool: str, message: int = 0
    ) -> None:
        if event.turn and call not in self._group_runs:
            waiting = self._open.setdefault(event.session, {})
            if call not in waiting:
                waiting[call] = _Open(event.agent, event.run, tool, message)

    def _answered(self, session: str, call: str) -> None:
        if self._open:
            self._open.get(session, {}).pop(call, None)

    @reads(e.ContextBuilt, waits="_open")
    def go_on(self, event: e.ContextBuilt, view: View) -> Iterable[Hit]:
        """Remove the calls of an agent that its next context leaves out."""
        if not view.pipeline.is_code:
            return ()
        waiting = self._open.get(event.session, {})
        for call, pending_call in list(waiting.items()):
            run = view.runs.get(pending_call.run)
            is_next = pending_call.run == event.run or run is None or run.finished
            if pending_call.agent == event.agent and pending_call.message and is_next:
                messages_shown = view.calls[event.call].context.messages
                if all(message.number != pending_call.message for message in messages_shown):
                    del waiting[call]
        return ()

    @reads(e.TurnFinished, waits="_open")
    def end(self, event: e.TurnFinished, view: View) -> Iterable[Hit]:
        """Report the calls that were never answered."""
        waiting = self._open.pop(event.session, {})
        self._group_runs.clear()
        turn = view.turns[-1]
        asks_user = any(run.status == "interrupted" for run in turn.runs)
        if event.error is not None or asks_user or turn.interrupt is not None:
            return []
        hits = []
        for call, pending_call in waiting.items():
            facts = view.pipeline.agents.get(pending_call.agent)
            if facts is not None and facts.ends_on_tools:
                continue
            severity = _severity_of(pending_call, event, view)
            if severity == "":
                continue
            problem = (
                f"turn {event.turn} ended, but {call} of agent {pending_call.agent!r} "
                f"(tool {pending_call.tool!r}) was never answered"
            )
            data: dict[str, JsonValue] = {"tool": pending_call.tool, "calls": [call]}
            hits.append(
                Hit(self.id, problem, event.turn, pending_call.agent, severity=severity, data=data)
            )
        return hits


def _severity_of(pending_call: _Open, event: e.TurnFinished, view: View) -> Literal["W", ""] | None:
    """Return the severity of an unanswered call, None for the default; empty for none at all."""
    run, facts = view.runs.get(pending_call.run), view.pipeline
    if run is not None and run.status in ("cancelled", "timed_out"):
        return ""
    if not facts.is_code:
        return None
    if event.reply in (None, "", [], {}) or run is None or not run.finished:
        return None if facts.has_adapter else "W"
    message = view.messages.get(pending_call.message)
    return "W" if message is not None and event.reply == message.content else ""


def _forced_tool(event: e.MessageAdded, view: View) -> JsonValue:
    """Return the `tool_choice` of the request that a message answers."""
    run = view.runs.get(event.run)
    if run is None or not run.calls:
        return None
    return (run.calls[-1].context.settings or {}).get("tool_choice")


# Lints on tools' arguments: the function gets the arguments that the model wrote


_SHOWN_MAX: Final = 60


class ArgumentLost:
    """FLW-09: a tool is called with the arguments that the model wrote.

    Changes by a schema are no loss: defaults are added, texts become numbers, dates or objects,
    state and context objects are injected, a key has its alias. It is a warning, because code
    between model and function may change arguments on purpose.
    """

    id = "FLW-09"

    @reads(e.ToolCalled)
    def look(self, event: e.ToolCalled, view: View) -> Iterable[Hit]:
        """Compare the arguments of a tool call with those that the model wrote."""
        request = view.requests.get(event.call_id)
        if request == event.args or not isinstance(request, Mapping):
            return ()
        args = event.args if isinstance(event.args, Mapping) else {}
        lost = [*lost_in(request, args)]
        if not lost:
            return ()
        problem = (
            f"tool {event.tool!r} of agent {event.agent!r} was called in turn {event.turn} with "
            "other arguments than the model said: "
            + "; ".join(_words(key, request, args) for key in lost)
        )
        data = {"tool": event.tool, "arguments": lost}
        return (Hit(self.id, problem, event.turn, event.agent, data=data),)


def _words(key: str, request_args: Mapping[str, JsonValue], args: Mapping[str, JsonValue]) -> str:
    value_received = as_text(args[key]) if key in args else "nothing"
    requested_text, value_received = short_both(
        as_text(request_args[key]), value_received, _SHOWN_MAX
    )
    return f"{key}: {requested_text} → {value_received}"
