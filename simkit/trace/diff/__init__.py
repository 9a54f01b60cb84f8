"""Diffs of two runs: pure, over their views.

Contents are compared, not ids: a new message in the middle changes the numbers of all later ones,
and nothing else.
"""

from simkit.trace.diff.calls import Added, CallDiff, Changed, MessageEdit, Removed, Same
from simkit.trace.diff.parting import Parting, first_parting
from simkit.trace.diff.traces import (
    KINDS,
    FirstDifference,
    TraceDiff,
    TurnDiff,
    trace_diff,
    without,
)
from simkit.trace.diff.values import Edit, ItemEdit, Span, aligned

__all__ = [
    "KINDS",
    "Added",
    "CallDiff",
    "Changed",
    "Edit",
    "FirstDifference",
    "ItemEdit",
    "MessageEdit",
    "Parting",
    "Removed",
    "Same",
    "Span",
    "TraceDiff",
    "TurnDiff",
    "aligned",
    "first_parting",
    "trace_diff",
    "without",
]
