"""Origins: the event at which a finding's run went wrong, the code that led there, what it repeats.

A wrong part of a state or a context comes back in each later context. A claim whose wrong parts are
all among those of an earlier one follows from that; any other wrong part is a finding of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Final

from msgspec.structs import replace

from simkit.checks.findings import CLAIM, Finding
from simkit.core.text import late_pattern
from simkit.language.matching.misses import NOTHING
from simkit.spec.scenario.claims import CONTEXT_CLAIMS
from simkit.trace import events as e
from simkit.trace.views import CallView, View

_INDEXED: Final = frozenset((e.ContextBuilt, e.RequestSent, e.ToolCalled, e.TurnFinished))
LEFT_OVER: Final = "RUN-01"
_MISSING: Final = (NOTHING, "absent")
_WORD: Final = late_pattern(r"(?<![\w$])\w[\w.'-]*")
_BETWEEN: Final = late_pattern(r"\\[nrt]|…")
_INDEX: Final = late_pattern(r"\[\d+\]")
Parts = frozenset[str]


class Places:
    """Finds the event of each finding in a run."""

    def __init__(self, view: View) -> None:
        self._view = view

    @cached_property
    def _index(self) -> Mapping[tuple[type, str | int], int]:
        """Kind of event, and its call or turn, to its index."""
        return {
            (type(event), getattr(event, "call", event.turn)): index
            for index, event in enumerate(self._view.events)
            if type(event) in _INDEXED
        }

    def placed(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return findings with their events, and with the code that led there."""
        places = [(finding, self._of(finding)) for finding in findings]
        return [replace(finding, event=at, code=self._code_of(at)) for finding, at in places]

    def _of(self, finding: Finding) -> int:
        """Return the event's index: a call's context; a turn's end if nothing is nearer."""
        tools = self._view.turns[finding.turn - 1].tools if self.is_of_error(finding) else ()
        if tools and tools[-1].returned_at is None:
            # The error ended this call: claims on what the call lacks come after it.
            return self._index[e.ToolCalled, finding.turn]
        calls = self.calls_of(finding)
        if finding.call is not None and finding.call < len(calls):
            return self._index[e.ContextBuilt, calls[finding.call].id]
        if finding.event is not None:
            # A lint that reports at the end reports something earlier.
            event = self._view.events[finding.event]
            if not isinstance(event, e.TurnFinished | e.RunFinished) or event.error is not None:
                return finding.event
        if calls and finding.id not in (CLAIM, LEFT_OVER):
            return self._index[e.ContextBuilt, calls[-1].id]
        return self._index.get((e.TurnFinished, finding.turn), len(self._view.events) - 1)

    def is_of_error(self, finding: Finding) -> bool:
        """Return whether a finding is what the error that ended its turn says."""
        index = self._index.get((e.TurnFinished, finding.turn))
        error = getattr(self._view.events[index], "error", None) if index is not None else None
        return error is not None and error.message in finding.what

    def calls_of(self, finding: Finding) -> Sequence[CallView]:
        """Return the calls of a finding's agent in its turn, or in the run."""
        turns = self._view.turns
        chosen = turns[finding.turn - 1 : finding.turn] if finding.turn else turns
        return [*chain.from_iterable(turn.calls_by_agent.get(finding.agent, ()) for turn in chosen)]

    def _code_of(self, at: int) -> str:
        """Return the line that sent an event's request, or its run's last one before the event."""
        event = self._view.events[at]
        run = self._view.runs.get(event.run)
        calls = [] if run is None else [call.id for call in run.calls]
        requests = [self._index.get((e.RequestSent, call), -1) for call in calls]
        own = self._index.get((e.RequestSent, getattr(event, "call", "")), -1)
        request = self._view.events[own if own >= 0 else max(n for n in (-1, *requests) if n < at)]
        return request.where if isinstance(request, e.RequestSent) else ""


def wrong_parts(finding: Finding, calls: Sequence[CallView]) -> tuple[Parts, Parts, Parts]:
    """Return all wrong parts of a claim, and twice those from which its others follow.

    They are the names on the path of what is missing or too much as a whole, with the place in its
    list, or the words of the values. A minus is before each missing part, a plus before the others.
    """
    paths, texts, whole = set[str](), set[str](), set[str]()
    if "excludes" in finding.path:
        paths.add(f"+{finding.excerpt} {finding.path[-1]}")
    for difference in finding.differences:
        expected, actual = _words(difference.expected), _words(difference.actual)
        words = {f"-{word}" for word in expected - actual} | {
            f"+{word}" for word in actual - expected
        }
        ends = ("-", difference.actual), ("+", difference.expected)
        sign = next((sign for sign, text in ends if text in _MISSING), "")
        names = {f"{sign}{name}" for name in _names(difference.at, finding, calls)} if sign else ()
        texts |= words
        whole |= words.union(names)
        paths |= {*names} or words
    return frozenset(whole | paths), frozenset(paths), frozenset(texts)


def _names(at: str, finding: Finding, calls: Sequence[CallView]) -> Parts:
    """Return the names on a path, or the place in a list; a section of which nothing was sent."""
    below = finding.path[finding.path.index("expect") + 1 :] if "expect" in finding.path else ()
    claim = str(below[2]) if len(below) > 2 else ""
    kind = CONTEXT_CLAIMS.get(claim)
    is_section = finding.call is not None and (kind is None or not kind.read)
    if is_section and not any(call.context.section(claim) for call in calls[finding.call :][:1]):
        return frozenset((claim,))
    if at.endswith("]"):
        return frozenset((f"{finding.agent}.{claim}{at}" if at.startswith("[") else at,))
    return _words(_INDEX.sub(" ", at))


def _words(text: str) -> Parts:
    return frozenset(_WORD.findall(_BETWEEN.sub(" ", text))) - {*_MISSING}
