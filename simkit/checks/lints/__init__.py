"""Lints: invariants of every run, one family a file, checked in one pass over the trace."""

from __future__ import annotations

from collections.abc import Iterator

from simkit.checks.lints.clients import (
    CutReplyTaken,
    RetriedInVain,
    RetriedTooEarly,
    RetryStorm,
)
from simkit.checks.lints.context import CurrentMessageTwice, OverBudget, WrongInstructions
from simkit.checks.lints.delivery import ContextIgnored, DataInQuery, RequestLost
from simkit.checks.lints.duplicates import DuplicateMessage
from simkit.checks.lints.engine import Lint, Watch
from simkit.checks.lints.facts import PrivateFactLeaked, RequiredFactMissing
from simkit.checks.lints.filters import FilteredComesBack
from simkit.checks.lints.flow import (
    AmbiguousRoute,
    AskedAgain,
    CallAfterEnd,
    LimitPassed,
    PingPong,
    UndeclaredEdge,
)
from simkit.checks.lints.handoffs import (
    DanglingHandoff,
    PayloadInvalid,
    SeveralHandoffs,
    Unregistered,
    WrongTarget,
)
from simkit.checks.lints.pairing import Pairing
from simkit.checks.lints.relevance import IrrelevantShare
from simkit.checks.lints.results import ResultsSwapped
from simkit.checks.lints.run import Drifted, ScriptMismatch, Uncontrolled, Unplayed, Unread
from simkit.checks.lints.sequence import (
    IllegalSequence,
    OrphanCall,
    OrphanResult,
    SystemNotFirst,
)
from simkit.checks.lints.state import (
    DoubleCount,
    ImpureReducer,
    InPlaceChange,
    LostUpdate,
    Shrinking,
    TwiceAnswered,
)
from simkit.checks.lints.tools import ArgumentLost, OpenWork, RepeatedCall

__all__ = ["Lint", "Watch", "all_lints"]


def all_lints() -> Iterator[Lint]:
    """Yield a new instance of every lint; each keeps its state over one trace."""
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
