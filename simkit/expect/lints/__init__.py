"""Invariants held on every run, without being asked: one family a file, one pass over the trace."""

from __future__ import annotations

from collections.abc import Iterator

from simkit.expect.lints.context import CurrentMessageTwice, OverBudget, WrongInstructions
from simkit.expect.lints.delivery import ContextIgnored, DataInQuery, RequestLost
from simkit.expect.lints.duplicates import DuplicateMessage
from simkit.expect.lints.engine import Lint, run_lints
from simkit.expect.lints.flow import CallAfterEnd, LimitPassed, PingPong, UndeclaredEdge
from simkit.expect.lints.handoffs import (
    DanglingHandoff,
    PayloadInvalid,
    Unregistered,
    WrongTarget,
)
from simkit.expect.lints.relevance import IrrelevantShare
from simkit.expect.lints.run import ScriptMismatch, Uncontrolled
from simkit.expect.lints.state import ImpureReducer, InPlaceChange, LostUpdate, Shrinking

__all__ = ["Lint", "all_lints", "run_lints"]


def all_lints() -> Iterator[Lint]:
    """Yields a fresh instance of every lint; each keeps its own state over one trace."""
    yield ScriptMismatch()
    yield Uncontrolled()
    yield WrongInstructions()
    yield DuplicateMessage()
    yield OverBudget()
    yield IrrelevantShare()
    yield CurrentMessageTwice()
    yield PayloadInvalid()
    yield RequestLost()
    yield WrongTarget()
    yield DanglingHandoff()
    yield DataInQuery()
    yield Unregistered()
    yield ContextIgnored()
    yield LostUpdate()
    yield ImpureReducer()
    yield Shrinking()
    yield InPlaceChange()
    yield LimitPassed()
    yield UndeclaredEdge()
    yield PingPong()
    yield CallAfterEnd()
