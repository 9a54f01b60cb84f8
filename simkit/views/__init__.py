"""Views on a trace: turns, agent runs, model calls, contexts, handoffs, tool calls, state.

A view is built by one pass over the events, costs what is new with each of them, and shares what
stays: contexts are ranges over one log, state snapshots share their values.
"""

from simkit.views.contexts import ContextView, MadePart, Messages, ShownPart, StreamView
from simkit.views.happenings import CallView, HandoffView, RunView, ToolView, TurnView, run_ids
from simkit.views.view import View, said_in, view_of

__all__ = [
    "CallView",
    "ContextView",
    "HandoffView",
    "MadePart",
    "Messages",
    "RunView",
    "ShownPart",
    "StreamView",
    "ToolView",
    "TurnView",
    "View",
    "run_ids",
    "said_in",
    "view_of",
]
