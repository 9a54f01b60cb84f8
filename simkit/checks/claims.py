"""Comparison of a claim with a value, and the event of the trace that a failing claim concerns.

A finding shows the differences, and nothing else; the page and its timeline pin it to its event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from simkit.checks.findings import CLAIM, Difference, Finding
from simkit.checks.scope import Path, Scope
from simkit.checks.searching import Search
from simkit.core.messages import or_nothing
from simkit.core.text import counted
from simkit.language.matching import Mismatch, compile_matcher
from simkit.language.yaml import Document, path_text
from simkit.trace import events as e
from simkit.trace.views import RunView

T = TypeVar("T")
DIFFERENCES_MAX: Final = 12
NAMES_MAX: Final = 12
LINES_MAX: Final = 8
_CUT: Final = "\n…"
"""The end of a shortened excerpt."""


class FindingBuilder:
    """Builds findings: it knows the scenario's document, for file and line.

    It keeps what was looked for already.
    """

    def __init__(self, document: Document, is_code: bool = False) -> None:
        """``is_code``: the findings concern code, so that their advice does, too."""
        self.document, self.is_code = document, is_code
        self.search = Search()
        self.passed_over: list[Finding] = []
        """Claims that were skipped, because a file declares what they need as unseen."""

    def compare(
        self,
        matcher: Any,
        value: Any,
        path: Path,
        label: str,
        *,
        several: bool = False,
        event: Callable[[Sequence[Mismatch]], int | None] | None = None,
        **details: Any,
    ) -> list[Finding]:
        """Return the finding that a value does not match; nothing if it does.

        ``details`` are those of `finding`; its ``context`` is only read for a finding, so it may be
        an expensive generator. ``several`` says that the claim concerns other values, too; the
        advice then does not propose the actual value. ``event`` returns the index of the event that
        the mismatches concern.
        """
        misses = self.misses(matcher, value)
        if not misses:
            return []
        details |= {"differences": differences(misses), "at": misses[0].at}
        index = None if event is None else event(misses)
        return [self.finding(path, f"{label} does not match", **details, event=index)]

    def holds(self, matcher: Any, value: Any) -> bool:
        """Return whether a whole claim holds for a value."""
        return compile_matcher(matcher).holds(or_nothing(value))

    def misses(self, matcher: Any, value: Any) -> Sequence[Mismatch]:
        """Return the mismatches of a value; if there are none, nothing is rendered."""
        compiled, value = compile_matcher(matcher), or_nothing(value)
        return () if compiled.holds(value) else compiled.mismatches(value)

    def finding(
        self,
        path: Path,
        what: str,
        *,
        turn: int = 0,
        agent: str = "",
        call: int | None = None,
        differences: Sequence[Difference] = (),
        context: Iterable[str] = (),
        fix: str = "",
        at: Path = (),
        breaks: bool = False,
        event: int | None = None,
    ) -> Finding:
        """Return a finding at a claim; ``at`` is the path of the failing part inside it.

        ``event`` is the index in the trace of the event that it concerns.
        """
        which = self.document.repetition(path)
        what = f"{what}, {which}" if which else what
        return Finding(
            CLAIM, "E", what, self.document.position((*path, *at)), (*path, *at), turn, agent,
            call, tuple(differences), tuple(context), self._around(path, at), fix, breaks,
            event=event,
        )  # fmt: skip

    def _around(self, path: Path, at: Path) -> str:
        """Return the whole claim, or the largest short enough part around the failing one."""
        excerpt = ""
        for size in range(len(at) + 1):
            excerpt = self.document.excerpt((*path, *at[:size]))
            if not excerpt.endswith(_CUT):
                break
        return excerpt


def differences(misses: Sequence[Mismatch]) -> list[Difference]:
    """Return the first differences, and the number of further ones."""
    lines = [
        Difference(path_text(miss.path) if miss.path else "", miss.expected, miss.actual, miss.note)
        for miss in misses[:DIFFERENCES_MAX]
    ]
    if len(misses) > DIFFERENCES_MAX:
        more = counted(len(misses) - DIFFERENCES_MAX, "more difference")
        lines.append(Difference("", "", "", f"and {more}"))
    return lines


def listed(names: Sequence[str] | Mapping[str, Any]) -> str:
    """Return names with commas, or ``none``; the first ones of many."""
    if len(names) <= NAMES_MAX:
        return ", ".join(names) or "none"
    return f"{', '.join(list(names)[:NAMES_MAX])}, … ({len(names)} in all)"


def index_error(index: int, count: int) -> str:
    """Return the text that an index does not exist, and how indices are counted."""
    existing = f"the first is [0], the last [{count - 1}]" if count > 1 else "the only one is [0]"
    return f"so there is no [{index}]: {existing}"


def cut_short(lines: Sequence[str], most: int = LINES_MAX) -> list[str]:
    """Return the first of many lines, and how many more there are."""
    more = len(lines) - most
    return [*lines[:most], f"… {more} more"] if more > 0 else [*lines]


def listing(
    title: str, items: Sequence[T], line_of: Callable[[T], str], otherwise: str
) -> Iterator[str]:
    """Yield a title and a numbered line for each item below it, of many the first and the last.

    ``otherwise`` if there are no items.
    """
    size = len(items)
    head = size if size <= LINES_MAX else LINES_MAX - 2
    yield title if size else otherwise
    for index in range(head):
        yield f"  [{index}] {line_of(items[index])}"
    if head < size:
        yield f"  … {size - head - 1} more"
        yield f"  [{size - 1}] {line_of(items[-1])}"


Fits = Callable[[Any], bool]
_SHARED: Final = ("project", "global")
"""Scopes of channels that sessions share."""


def event_at(
    scope: Scope, kind: type, fits: Fits | None = None, *, last: bool = False
) -> int | None:
    """Return the index of the first event of a kind in a scope, or of the last one."""
    events = scope.view.events
    span = range(*scope.span.indices(len(events)))
    for index in reversed(span) if last else span:
        event = events[index]
        if type(event) is kind and (fits is None or fits(event)):
            return index
    return None


def element_of(matcher: Any, values: Sequence[Any], misses: Sequence[Mismatch]) -> int | None:
    """Return the index of the element of a list that a mismatch concerns.

    It is the differing one; of a wanted element that is nowhere, the nearest one; of a denial, the
    first one that is denied. None if the list has no such element.
    """
    if not misses or not values:
        return None
    miss = misses[0]
    if miss.path and isinstance(miss.path[0], int):
        return miss.path[0] if miss.path[0] < len(values) else None
    part = matcher
    for step in miss.at:
        try:
            part = part[step]
        except (LookupError, TypeError):
            return None
    if miss.at and miss.at[-1] == "$not":
        return _first_denied(part, values)
    if not miss.at or not isinstance(miss.at[-1], int):
        return None
    element = compile_matcher(part)
    return min(range(len(values)), key=lambda index: element.distance(values[index]))


def _first_denied(denied: Any, values: Sequence[Any]) -> int | None:
    """Return the index of the first value that matches the operand of a ``$not``."""
    elements = [compile_matcher(element) for element in _elements(denied)]
    for index, value in enumerate(values):
        if any(element.holds(value) for element in elements):
            return index
    return None


def _elements(matcher: Any) -> Iterator[Any]:
    """Yield the matchers of single elements in a matcher of a list."""
    if isinstance(matcher, Mapping):
        for operand in matcher.values():
            yield from _elements(operand)
    elif isinstance(matcher, (list, tuple)):
        yield from matcher


def write_of(scope: Scope, channel: str) -> int | None:
    """Return the last write of a channel in a scope; of a whole run, in its last session."""
    facts = scope.pipeline.channels.get(channel)
    turns = scope.view.turns
    session = "" if scope.turn or not turns else turns[-1].session
    is_shared = facts is not None and facts.scope in _SHARED

    def fits(event: e.StateUpdated) -> bool:
        is_here = is_shared or not session or event.session == session
        return channel in event.update and not event.state and is_here

    return event_at(scope, e.StateUpdated, fits, last=True)


def end_of(scope: Scope) -> int | None:
    """Return the event with the error that ended a turn, or the run."""
    index = event_at(scope, e.TurnFinished, lambda event: event.error is not None, last=True)
    return event_at(scope, e.RunFinished, last=True) if index is None else index


def run_of(scope: Scope, run: RunView, moment: str, channels: Sequence[str] = ()) -> int | None:
    """Return the event of a run at a moment, `ClaimKind.happens_at`.

    ``channels`` are the differing ones of an update.
    """

    def is_its(event: e.Event) -> bool:
        return event.run == run.id

    if moment == "start":
        first = event_at(scope, e.ContextBuilt, is_its)
        return event_at(scope, e.AgentStarted, is_its) if first is None else first
    if moment == "write":
        for channel in channels:
            index = event_at(
                scope,
                e.StateUpdated,
                lambda event: is_its(event) and channel in event.update,  # noqa: B023
                last=True,
            )
            if index is not None:
                return index
    index = event_at(scope, e.ContextBuilt, is_its, last=True)
    return event_at(scope, e.AgentFinished, is_its, last=True) if index is None else index
