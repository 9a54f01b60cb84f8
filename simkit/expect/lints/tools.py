"""Lints on tool calls: the same one again and again, and those that nobody answered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from simkit import events as e
from simkit.expect.findings import Hit
from simkit.messages import JsonValue
from simkit.views import View

REPEATED_MIN: Final = 3
"""How often the same call with the same result is one too many."""

_encode = msgspec.json.Encoder(order="sorted").encode


class _Times(msgspec.Struct):
    """How often in a row a call had the same result."""

    count: int
    result: JsonValue


class RepeatedCall:
    """FLW-03: no agent makes the same call three times in a turn, and learns nothing by it.

    Tool, arguments and result are the same each time, and no write to the state comes in between.
    A failure may be tried again: it counts neither way, and the count begins anew after it.
    From MAST 1.3, step repetition (15.7 % of failures).
    """

    id = "FLW-03"
    kinds: tuple[type, ...] = (e.ToolCalled, e.ToolReturned, e.ToolFailed, e.StateUpdated,
                               e.TurnStarted)  # fmt: skip

    def __init__(self) -> None:
        self._asked: dict[str, tuple[str, str, bytes]] = {}
        self._times: dict[tuple[str, str, bytes], _Times] = {}

    def look(
        self,
        event: e.ToolCalled | e.ToolReturned | e.ToolFailed | e.StateUpdated | e.TurnStarted,
        view: View,
    ) -> Iterable[Hit]:
        """Counts the results of equal calls since the last write."""
        if isinstance(event, e.ToolCalled):
            self._asked[event.call_id] = event.agent, event.tool, _encode(event.args)
        elif isinstance(event, e.ToolReturned):
            return self._returned(event)
        elif isinstance(event, e.ToolFailed):
            call = self._asked.pop(event.call_id, None)
            if call is not None:
                self._times.pop(call, None)
        elif self._times and (isinstance(event, e.TurnStarted) or event.cause != "given"):
            self._times.clear()
        return ()

    def _returned(self, event: e.ToolReturned) -> Iterable[Hit]:
        call = self._asked.pop(event.call_id, None)
        if call is None:
            return ()
        times = self._times.get(call)
        if times is None or times.result != event.result:
            self._times[call] = _Times(1, event.result)
            return ()
        times.count += 1
        if times.count != REPEATED_MIN:
            return ()
        what = (
            f"agent {event.agent!r} called {event.tool!r} {REPEATED_MIN} times in turn "
            f"{event.turn} with the same arguments and the same result, and nothing changed "
            f"in between"
        )
        return (Hit(self.id, what, event.turn, event.agent, data={"tool": event.tool}),)


class _Open(NamedTuple):
    """A call that waits for its answer."""

    agent: str
    run: str
    tool: str


class OpenWork:
    """FLW-07: a turn does not end with tool calls that were asked for and never answered.

    It may if it ends with an error or a question to the user, and a run that was cancelled or
    timed out owes nothing. Handoffs, and calls made beside them, are left to HND-06. Where code let
    the model choose no other tool (`tool_choice`), the call may be the answer itself: that is how
    structured output is asked for. From MAST 3.1, premature termination.
    """

    id = "FLW-07"
    kinds: tuple[type, ...] = (e.MessageAdded, e.ToolCalled, e.ToolReturned, e.ToolFailed,
                               e.TurnFinished)  # fmt: skip

    def __init__(self) -> None:
        self._open: dict[str, dict[str, _Open]] = {}
        """Session to its open calls."""
        self._beside: set[str] = set()
        """Calls that were made beside a handoff."""

    def look(
        self,
        event: e.MessageAdded | e.ToolCalled | e.ToolReturned | e.ToolFailed | e.TurnFinished,
        view: View,
    ) -> Iterable[Hit]:
        """Remembers calls until they are answered or the turn ends."""
        if isinstance(event, e.MessageAdded):
            message = event.message
            if message.calls:
                self._asked(event, _forced_tool(event, view))
            elif message.call_id:
                self._answered(event.session, message.call_id)
        elif isinstance(event, e.ToolCalled):
            self._add(event, event.call_id, event.tool)
        elif isinstance(event, e.TurnFinished):
            return self._ended(event, view) if self._open else ()
        else:
            self._answered(event.session, event.call_id)
        return ()

    def _asked(self, event: e.MessageAdded, forced: JsonValue) -> None:
        calls = event.message.calls
        if any(call.is_handoff for call in calls):
            self._beside.update(call.id for call in calls)
            return
        for call in calls:
            if call.name != forced:
                self._add(event, call.id, call.name)

    def _add(self, event: e.MessageAdded | e.ToolCalled, call: str, tool: str) -> None:
        if event.turn and call not in self._beside:
            waiting = self._open.setdefault(event.session, {})
            waiting[call] = _Open(event.agent, event.run, tool)

    def _answered(self, session: str, call: str) -> None:
        if self._open:
            self._open.get(session, {}).pop(call, None)

    def _ended(self, event: e.TurnFinished, view: View) -> list[Hit]:
        waiting = self._open.pop(event.session, {})
        self._beside.clear()
        turn = view.turns[-1]
        asks_user = any(run.status == "interrupted" for run in turn.runs)
        if event.error is not None or asks_user or turn.interrupt is not None:
            return []
        hits = []
        for call, (agent, run_id, tool) in waiting.items():
            run = view.runs.get(run_id)
            if run is not None and run.status in ("cancelled", "timed_out"):
                continue
            what = (
                f"turn {event.turn} ended, but {call} of agent {agent!r} (tool {tool!r}) "
                f"was never answered"
            )
            data: dict[str, JsonValue] = {"tool": tool, "calls": [call]}
            hits.append(Hit(self.id, what, event.turn, agent, data=data))
        return hits


def _forced_tool(event: e.MessageAdded, view: View) -> JsonValue:
    """Returns what the request that a message answers says of which tool to call."""
    run = view.runs.get(event.run)
    if run is None or not run.calls:
        return None
    return (run.calls[-1].context.settings or {}).get("tool_choice")
