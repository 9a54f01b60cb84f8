"""Lints on tool calls: repeated ones, unanswered ones, and those with other arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import SHOWN_MAX, Facts, lint
from simkit.core.messages import JsonValue
from simkit.core.text import short_both
from simkit.language.json_schema.coercion import lost_in
from simkit.language.paths import as_text
from simkit.trace import events as e
from simkit.trace.views import View

REPEATED_MIN: Final = 3
"""The number of equal calls with equal results that is too many."""
_encode = msgspec.json.Encoder(order="sorted").encode


class OpenCalls(dict[str, tuple[str, str, bytes]]):
    """Call id to agent, tool and arguments, until the call is made again."""


@lint("FLW-03", e.ToolCalled)
@lint("FLW-10", e.ToolCalled)
def _note_args(event: e.ToolCalled, facts: Facts) -> None:
    # An unknown value equals nothing.
    if event.args is not None:
        facts.notes_of(OpenCalls)[event.call_id] = event.agent, event.tool, _encode(event.args)


class _Repetitions(dict[tuple[str, str, bytes], tuple[int, JsonValue]]):
    """How often a call has had equal results since the last write, and this result."""


@lint("FLW-03", e.ToolFailed, when=_Repetitions)
def _forget_failed(event: e.ToolFailed, facts: Facts) -> None:
    """Count from the beginning after a failure."""
    call = facts.notes_of(OpenCalls).get(event.call_id)
    if call is not None:
        facts.notes_of(_Repetitions).pop(call, None)


@lint("FLW-03", e.StateUpdated, e.TurnStarted, when=_Repetitions)
def _forget_results(event: e.StateUpdated | e.TurnStarted, facts: Facts) -> None:
    """Count from the beginning after a write, and in a new turn."""
    if isinstance(event, e.TurnStarted) or event.cause != "given":
        facts.notes_of(_Repetitions).clear()


@lint("FLW-03", e.ToolReturned, when=OpenCalls)
def repeated_call(event: e.ToolReturned, facts: Facts) -> Iterable[Hit]:
    """FLW-03: no agent makes the same call three times in a turn with the same result.

    Tool, arguments and result are the same each time, and no run writes to the state in between. A
    failure may be retried: it does not count, and counting restarts after it. If the driver sees no
    state, changes are unknown: a warning. From MAST 1.3, step repetition (15.7 % of failures).
    """
    call = facts.notes_of(OpenCalls).get(event.call_id)
    if call is None:
        return
    repetitions = facts.notes_of(_Repetitions)
    count, result = repetitions.get(call, (0, None))
    repetitions[call] = count + 1 if result == event.result else 1, event.result
    if repetitions[call][0] == REPEATED_MIN:
        problem = (
            f"agent {event.agent!r} called {event.tool!r} {REPEATED_MIN} times in turn "
            f"{event.turn} with the same arguments and the same result, and nothing changed "
            f"in between"
        )
        yield Hit.at("FLW-03", event, problem, is_warning=not facts.sees_state, tool=event.tool)


class _Open(NamedTuple):
    """A call that waits for its answer."""

    agent: str
    run: str
    tool: str
    message: int = 0
    """The number of the message that asks for it."""


class _OpenCalls:
    """The calls that wait for answers."""

    def __init__(self) -> None:
        self.sessions: dict[str, dict[str, _Open]] = {}
        """Session to its open calls."""
        self.beside_handoffs: set[tuple[int, str]] = set()
        """The turn and id of calls in messages with a handoff; ids come again in later turns."""
        self.answered: set[str] = set()
        """The calls that have their answers."""

    def __bool__(self) -> bool:
        return bool(self.sessions)

    def add(
        self, event: e.MessageAdded | e.ToolCalled, call: str, tool: str, message: int = 0
    ) -> None:
        """Let a call wait."""
        if event.turn and (event.turn, call) not in self.beside_handoffs:
            waiting = self.sessions.setdefault(event.session, {})
            waiting.setdefault(call, _Open(event.agent, event.run, tool, message))


@lint("FLW-07", e.MessageAdded, when="is_tool_message")
def _note_asked(event: e.MessageAdded, facts: Facts) -> None:
    """Keep calls until they are answered or the turn ends."""
    message = event.message
    if message.calls:
        calls, forced = facts.notes_of(_OpenCalls), _forced_tool(event, facts.view)
        if any(call.is_handoff for call in message.calls):
            calls.beside_handoffs.update((event.turn, call.id) for call in message.calls)
            return
        for call in message.calls:
            if call.id in calls.answered:
                continue  # The message was written again, with other arguments.
            if forced not in (call.name, "required"):
                calls.add(event, call.id, call.name, message.number)
    elif message.call_id and _OpenCalls in facts.notes:
        facts.notes_of(_OpenCalls).sessions.get(event.session, {}).pop(message.call_id, None)


@lint("FLW-07", e.ToolCalled)
def _note_called(event: e.ToolCalled, facts: Facts) -> None:
    """Keep a call that no message asks for."""
    facts.notes_of(_OpenCalls).add(event, event.call_id, event.tool)


@lint("FLW-07", e.ToolReturned, e.ToolFailed, when=_OpenCalls)
def _note_answered(event: e.ToolReturned | e.ToolFailed, facts: Facts) -> None:
    calls = facts.notes_of(_OpenCalls)
    calls.answered.add(event.call_id)
    calls.sessions.get(event.session, {}).pop(event.call_id, None)


@lint("FLW-07", e.ContextBuilt, when=_OpenCalls)
def _forget_left_out(event: e.ContextBuilt, facts: Facts) -> None:
    """Remove the calls of an agent that its next context leaves out."""
    if not facts.is_code:
        return
    view = facts.view
    waiting = facts.notes_of(_OpenCalls).sessions.get(event.session, {})
    for call, pending_call in list(waiting.items()):
        run = view.runs.get(pending_call.run)
        is_next = pending_call.run == event.run or run is None or run.finished
        if pending_call.agent == event.agent and pending_call.message and is_next:
            messages_shown = view.calls[event.call].context.messages
            if all(message.number != pending_call.message for message in messages_shown):
                del waiting[call]


@lint("FLW-07", e.TurnFinished, when=_OpenCalls)
def open_work(event: e.TurnFinished, facts: Facts) -> Iterable[Hit]:
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
    calls, view = facts.notes_of(_OpenCalls), facts.view
    waiting = calls.sessions.pop(event.session, {})
    turn = view.turns[-1]
    asks_user = any(run.status == "interrupted" for run in turn.runs)
    if event.error is not None or asks_user or turn.interrupt is not None:
        return
    for call, pending_call in waiting.items():
        agent = facts.pipeline.agents.get(pending_call.agent)
        if agent is not None and agent.ends_on_tools:
            continue
        severity = _severity_of(pending_call, event, view)
        if severity == "":
            continue
        problem = (
            f"turn {event.turn} ended, but {call} of agent {pending_call.agent!r} "
            f"(tool {pending_call.tool!r}) was never answered"
        )
        data: dict[str, JsonValue] = {"tool": pending_call.tool, "calls": [call]}
        is_warning, by = severity == "W", pending_call.agent
        yield Hit.at("FLW-07", event, problem, agent=by, is_warning=is_warning, **data)


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


class _ChangedCalls(dict[str, list[Hit]]):
    """Call to what was wrong with its arguments, unless an edit of the call explains it."""


@lint("FLW-09", e.ToolCalled)
def _note_arguments(event: e.ToolCalled, facts: Facts) -> None:
    """Compare the arguments of a call with those that the model wrote, or its last editor."""
    edit = facts.view.edits.get(event.call_id)
    request = edit.after.args if edit is not None else facts.view.requests.get(event.call_id)
    if request == event.args or not isinstance(request, Mapping):
        return
    args = event.args if isinstance(event.args, Mapping) else {}
    lost = [*lost_in(request, args)]
    if lost:
        author = "the model said" if edit is None else f"{edit.by!r} made of the call"
        problem = (
            f"tool {event.tool!r} of agent {event.agent!r} was called in turn {event.turn} with "
            f"other arguments than {author}: "
            + "; ".join(_words(key, request, args) for key in lost)
        )
        hit = Hit.at("FLW-09", event, problem, tool=event.tool, arguments=lost)
        facts.notes_of(_ChangedCalls).setdefault(event.call_id, []).append(hit)


@lint("FLW-09", e.CallEdited, when=_ChangedCalls)
def _forget_edited(event: e.CallEdited, facts: Facts) -> None:
    """Remove a call of which a message now says what was executed."""
    facts.notes_of(_ChangedCalls).pop(event.call_id, None)


@lint("FLW-09", e.TurnFinished, when=_ChangedCalls)
def argument_lost(event: e.TurnFinished, facts: Facts) -> Iterable[Hit]:
    """FLW-09: a tool is called with the arguments that the model wrote.

    Changes by a schema are no loss: defaults are added, texts become numbers, dates or objects,
    state and context objects are injected, a key has its alias. Nor are edits: the user's answer,
    or the call's message in the turn, says the new arguments. It is a warning, because code between
    model and function may change arguments on purpose.
    """
    for hits in facts.notes.pop(_ChangedCalls).values():
        yield from hits


def _words(key: str, request_args: Mapping[str, JsonValue], args: Mapping[str, JsonValue]) -> str:
    value_received = as_text(args[key]) if key in args else "nothing"
    pair = short_both(as_text(request_args[key]), value_received, SHOWN_MAX)
    return f"{key}: {' → '.join(pair)}"
