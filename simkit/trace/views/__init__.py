"""Views of a trace: turns, agent runs, model calls, contexts, handoffs, tool calls, state.

A view is built in one pass over the events. Each event costs only its new values; the rest is
shared: contexts are ranges over one log, state snapshots share their values.
"""

from simkit.trace.events import InlinePart
from simkit.trace.views.arrivals import Arrival
from simkit.trace.views.contexts import ContextView, HistoryView, StreamView, pieces_of
from simkit.trace.views.prefixes import Prefix, Relation, Relations, prefix_of, shows_past
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
