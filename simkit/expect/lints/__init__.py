"""Invariants held on every run, without being asked: one family a file, one pass over the trace."""

from __future__ import annotations

from collections.abc import Iterator

from simkit.expect.lints.arguments import ArgumentLost
from simkit.expect.lints.clients import (
    CutReplyTaken,
    RetriedInVain,
    RetriedTooEarly,
    RetryStorm,
)
from simkit.expect.lints.context import CurrentMessageTwice, OverBudget, WrongInstructions
from simkit.expect.lints.delivery import ContextIgnored, DataInQuery, RequestLost
from simkit.expect.lints.duplicates import DuplicateMessage
from simkit.expect.lints.engine import Lint, Watch, run_lints
from simkit.expect.lints.facts import PrivateFactLeaked, RequiredFactMissing
from simkit.expect.lints.filters import FilteredComesBack
from simkit.expect.lints.flow import (
    AmbiguousRoute,
    CallAfterEnd,
    LimitPassed,
    PingPong,
    UndeclaredEdge,
)
from simkit.expect.lints.handoffs import (
    DanglingHandoff,
    PayloadInvalid,
    SeveralHandoffs,
    Unregistered,
    WrongTarget,
)
from simkit.expect.lints.interrupts import AskedAgain
from simkit.expect.lints.pairing import Pairing
from simkit.expect.lints.relevance import IrrelevantShare
from simkit.expect.lints.results import ResultsSwapped
from simkit.expect.lints.run import Drifted, ScriptMismatch, Uncontrolled, Unplayed, Unread
from simkit.expect.lints.sequence import (
    IllegalSequence,
    OrphanCall,
    OrphanResult,
    SystemNotFirst,
)
from simkit.expect.lints.state import (
    DoubleCount,
    ImpureReducer,
    InPlaceChange,
    LostUpdate,
    Shrinking,
    TwiceAnswered,
)
from simkit.expect.lints.tools import OpenWork, RepeatedCall

__all__ = ["Lint", "Watch", "all_lints", "run_lints"]


def all_lints() -> Iterator[Lint]:
    """Yields a fresh instance of every lint; each keeps its own state over one trace."""
    pairing = Pairing()
    yield ScriptMismatch()
    yield Uncontrolled()
    yield Unplayed()
    yield Drifted()
    yield Unread()
    yield OrphanResult(pairing)
    yield OrphanCall(pairing)
    yield WrongInstructions()
    yield RequiredFactMissing()
    yield PrivateFactLeaked()
    yield DuplicateMessage()
    yield OverBudget()
    yield IrrelevantShare()
    yield IllegalSequence(pairing)
    yield SystemNotFirst(pairing)
    yield CurrentMessageTwice()
    yield FilteredComesBack()
    yield ResultsSwapped()
    yield PayloadInvalid()
    yield RequestLost()
    yield WrongTarget()
    yield DanglingHandoff()
    yield SeveralHandoffs()
    yield DataInQuery()
    yield Unregistered()
    yield ContextIgnored()
    yield LostUpdate()
    yield ImpureReducer()
    yield Shrinking()
    yield DoubleCount()
    yield InPlaceChange()
    yield TwiceAnswered()
    yield LimitPassed()
    yield UndeclaredEdge()
    yield RepeatedCall()
    yield PingPong()
    yield CallAfterEnd()
    yield AskedAgain()
    yield OpenWork()
    yield AmbiguousRoute()
    yield ArgumentLost()
    yield RetriedInVain()
    yield RetriedTooEarly()
    yield CutReplyTaken()
    yield RetryStorm()
