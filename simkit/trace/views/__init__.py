"""Views of a trace: turns, agent runs, model calls, contexts, handoffs, tool calls, state.

A view is built in one pass over the events. Each event costs only its new values; the rest is
shared: contexts are ranges over one log, state snapshots share their values.
"""

from simkit.trace.events import Made as MadePart
from simkit.trace.views.arrivals import Arrival
from simkit.trace.views.contexts import (
    ContextView,
    Messages,
    ShownPart,
    StreamView,
    pieces_of,
)
from simkit.trace.views.turns_and_calls import (
    LOG_FIELDS,
    CallView,
    HandoffView,
    RunView,
    ToolView,
    TurnView,
    event_fields,
    log_fields,
    run_ids,
)
from simkit.trace.views.view import View, said_in, view_of

__all__ = [
    "LOG_FIELDS",
    "Arrival",
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
    "event_fields",
    "log_fields",
    "pieces_of",
    "run_ids",
    "said_in",
    "view_of",
]
