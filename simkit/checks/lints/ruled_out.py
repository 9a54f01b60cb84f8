"""The methods of lints that find nothing in plain events, and why.

`simkit.checks.lints.silence` proves that events are plain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from simkit.trace import events as e


class ToolMessage:
    """The kind of a `MessageAdded` with tool calls, or with the result of one."""


RULED_OUT: Final[Mapping[type, Mapping[str, str]]] = {
    e.MessageAdded: {"Screen.hear": "it finds nothing itself"},
    e.StateUpdated: {
        "DoubleCount.look": "lists begin with a message of the run's own",
        "LostUpdate.look": "no group, and one handoff at a time",
        "PingPong.write": "it forgets",
        "RepeatedCall.write": "it forgets",
        "TwiceAnswered.look": "each call is made and answered by one message each",
        "PrivateFactLeaked.write": "nothing is private",
        "Shrinking.count": "no channel counts",
    },
    e.ContextBuilt: {
        "Screen.look": "it finds nothing itself; what waits for it finds nothing in messages that "
        "each come once, have a text or calls, and are answered one after the other",
        "WrongInstructions.look": "the agent's instructions, once, word for word",
        "OverBudget.look": "the budget has room",
        "RequestLost.look": "a target's first context shows the query or the user's message",
        "ContextIgnored.look": "a target's first context shows the payload",
        "OpenWork.go_on": "it forgets",
        "PrivateFactLeaked.look": "nothing is private",
        "ResultsSwapped.look": "each of several results is its call's own",
        "PingPong.look": "no run has another's input",
    },
    e.ModelCalled: {"CallAfterEnd.look": "it belongs to the current turn"},
    e.ModelReplied: {},
    e.AgentStarted: {
        "UndeclaredEdge.look": "a start, a target of the route, or of a declared handoff",
        "PingPong.start": "no run of an agent has the input of one before",
        "RequestLost.start": "it notes",
        "ContextIgnored.start": "it notes",
        "WrongTarget.start": "what starts is what the handoff announces",
        "LostUpdate.start": "it forgets",
    },
    e.AgentFinished: {
        "ContextIgnored.finish": "the payload was shown",
        "PingPong.look": "no run has another's input",
    },
    ToolMessage: {
        "ResultsSwapped.hear": "of several calls in a message, each has its own result",
        "DanglingHandoff.hear": "a handoff is alone in its message",
        "SeveralHandoffs.look": "a handoff is alone in its message",
        "TwiceAnswered.hear": "it notes",
        "OpenWork.hear": "it notes",
    },
    e.ToolCalled: {
        "RepeatedCall.call": "it notes",
        "OpenWork.call": "the call waits, in the same session",
        "ArgumentLost.look": "the arguments are those of the message",
    },
    e.ToolReturned: {
        "RepeatedCall.look": "no arguments come three times",
        "OpenWork.take": "it forgets",
        "ResultsSwapped.take": "it notes",
    },
    e.HandoffRequested: {"DanglingHandoff.request": "it is made", "PingPong.request": "it notes"},
    e.HandoffMade: {
        "PayloadInvalid.look": "all requested keys are there, and the contract holds",
        "WrongTarget.make": "it notes",
        "DataInQuery.look": "a short query",
    },
    e.RouteChosen: {"UndeclaredEdge.route": "it notes"},
    e.TurnStarted: {
        "UndeclaredEdge.begin": "it notes",
        "PingPong.begin": "it forgets",
        "CallAfterEnd.begin": "it notes",
        "RepeatedCall.write": "it forgets",
        "DanglingHandoff.begin": "it forgets",
    },
    e.TurnFinished: {
        "ScriptMismatch.end": "no line or result is unused",
        "DanglingHandoff.end": "no handoff is on its way",
        "CallAfterEnd.end": "it notes",
        "LostUpdate.start": "it forgets",
        "LostUpdate.end": "it forgets",
        "WrongTarget.end": "no handoff is on its way",
        "RequestLost.end": "only code loses a request until then",
        "ContextIgnored.end": "the payload was shown",
        "OpenWork.end": "no call is open",
        "PingPong.end": "no run has another's input",
        "Shrinking.end": "no values of channels are reported",
    },
    e.ToolFailed: {"RepeatedCall.fail": "it forgets", "OpenWork.take": "it forgets"},
    e.ReplyParsed: {},
    e.StoreRead: {},
    e.StoreWritten: {},
    e.CheckpointSaved: {},
    e.SessionStarted: {},
    e.RunStarted: {
        "PrivateFactLeaked.begin": "nothing is private",
        "Shrinking.begin": "no channel counts",
    },
    e.RunFinished: {
        "ScriptMismatch.end_run": "no misfits",
        "Unplayed.end_run": "nothing unplayed",
        "Drifted.look": "no drift",
    },
}
"""Each kind of a plain event, the most frequent first, with the methods that read it, and why they
find nothing if all events are plain.

Methods that wait for something are listed if their lint has other methods here; else it is only
there after an event that is not plain."""
UNSET: Final[Mapping[type, tuple[str, ...]]] = {
    e.StateUpdated: ("group",),
    e.TurnFinished: ("error", "unused", "unused_results"),
    e.RunFinished: ("error", "misfits", "unplayed", "drifted"),
}
"""Fields that a plain event does not set, beside those for which methods are called."""


class Asking(NamedTuple):
    """The questions about events of a kind that may be plain."""

    unset: tuple[str, ...] = ()
    """The fields that a plain one does not set."""
    alone: tuple[tuple[str, ...], ...] = ()
    """The fields of which one must be set so that a lint reads it that decides by it alone: one
    tuple for each such lint, empty if it reads all events."""


Plain: TypeAlias = Mapping[type, Asking]
"""Each kind of event that may be plain to what is asked about it."""
