"""Comparison of a claim with a value, the event that a failing claim concerns; observability.

A finding shows the differences, and nothing else; the page and its timeline pin it to its event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from simkit.checks.findings import CLAIM, Difference, Finding, Path, Scope
from simkit.checks.searching import Search, names_section
from simkit.core.messages import JsonValue, or_nothing
from simkit.core.text import counted
from simkit.language.matching import Mismatch, compile_matcher
from simkit.language.paths import is_array, walk
from simkit.language.yaml import Document, SourcePath, path_text
from simkit.spec.scenario.claim_kinds import aspect
from simkit.spec.scenario.claim_names import ClaimNames
from simkit.spec.scenario.claims import CONTEXT_CLAIMS, SECTION_CLAIM, TURN_CLAIMS, Expect, Selector
from simkit.spec.scenario.known import KnownNames, ValueSchemas, values_in
from simkit.spec.scenario.model import Scenario
from simkit.trace import events as e
from simkit.trace.views import RunView, View
from simkit.trace.views.contexts import CURRENT, HISTORY, INSTRUCTIONS, RUN

T = TypeVar("T")
DIFFERENCES_MAX: Final = 12
NAMES_MAX: Final = 12
LINES_MAX: Final = 8
_CUT: Final = "\n…"
"""The end of a shortened excerpt."""
Lines: TypeAlias = Iterable[str] | Callable[[Sequence[Mismatch]], Iterable[str]]
"""Lines that explain a finding, or a function of the mismatches that they explain."""


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
        self, matcher: Any, value: Any, path: Path, label: str, *, many: bool = False, **rest: Any
    ) -> list[Finding]:
        """Return the findings that a value does not match, one a line; nothing if it does.

        ``many`` says that the claim concerns other values, too: what proposes changes then does
        not propose this one. The rest is as in `unlike`.
        """
        return self.unlike(self.misses(matcher, value), path, label, **rest)

    def unlike(
        self,
        misses: Sequence[Mismatch],
        path: Path,
        label: str,
        *,
        event: Callable[[Sequence[Mismatch]], int | None] | None = None,
        context: Lines = (),
        fix: str = "",
        **details: Any,
    ) -> list[Finding]:
        """Return a finding for each line of a claim with mismatches, in order, of many the first.

        ``details`` are those of `finding`; ``context`` is only read for a finding, so it may be an
        expensive generator. If it depends on a line's mismatches, it is a function of them, as is
        ``event``, the index of the event that they concern; else only the first finding has it.
        """
        by_line: dict[int, list[Mismatch]] = {}
        for miss in misses:
            by_line.setdefault(self.document.line((*path, *miss.at)), []).append(miss)
        lines = [some for _, some in sorted(by_line.items())]
        left_out = sum(map(len, lines[LINES_MAX:]))
        return [
            self.finding(
                # The first shows the whole claim, if that is short; the others their part.
                (*path, *some[0].at) if number else path,
                f"{label} does not match",
                differences=differences(some, left_out if number + 1 == LINES_MAX else 0),
                at=() if number else some[0].at,
                context=context(some) if callable(context) else () if number else context,
                fix="" if number else fix,
                event=None if event is None else event(some),
                **details,
            )
            for number, some in enumerate(lines[:LINES_MAX])
        ]

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
        excerpt, line = "", self.document.line((*path, *at))
        for size in range(len(at) + 1):
            place = (*path, *at[:size])
            excerpt = self.document.excerpt(place)
            # Several steps of a feature make one claim, whose place is the last of them.
            if not excerpt.endswith(_CUT) and self.document.line(place) <= line:
                break
        return excerpt


def differences(misses: Sequence[Mismatch], others: int = 0) -> list[Difference]:
    """Return the first differences, and the number of further ones with ``others``."""
    lines = [
        Difference(path_text(miss.path) if miss.path else "", miss.expected, miss.actual, miss.note)
        for miss in misses[:DIFFERENCES_MAX]
    ]
    more = max(0, len(misses) - DIFFERENCES_MAX) + others
    if more:
        lines.append(Difference("", "", "", f"and {counted(more, 'more difference')}"))
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
        yield f"  {index + 1}. {line_of(items[index])}"
    if head < size:
        yield f"  … {size - head - 1} more"
        yield f"  {size}. {line_of(items[-1])}"


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


# Observability: a claim on something that the driver does not observe never passes


EVENTS: Final[Mapping[str, str]] = {
    "AgentStarted": "runs",
    "AgentFinished": "runs",
    "StateUpdated": "state",
    "HandoffRequested": "handoffs",
    "HandoffRejected": "handoffs",
    "HandoffMade": "handoffs",
    "LogRecorded": "logs",
}
_OF_MESSAGES: Final = "Claim `includes`, `excludes` or `messages`"
_OTHERWISE: Final = "Remove the claim, or run a driver that sees them."


def unobservable(scope: Scope, name: str) -> str:
    """Return the aspect that a claim needs and the driver does not observe; empty if none."""
    for need in TURN_CLAIMS[name].needs:
        if not scope.can_observe(need):
            return need
    if name == "tool_calls" and _has_unseen_tools(scope):
        return "tools"
    if name == "events":
        kinds = [word for path, word in walk(scope.expect.events) if "kind" in path]
        for kind, need in EVENTS.items():
            if not scope.can_observe(need) and kind in kinds:
                return need
    return ""


def _has_unseen_tools(scope: Scope) -> bool:
    """Return whether a tool was requested and its execution, or its result, is unknown.

    Without an adapter a tool's result is only seen if a later request contains it.
    """
    facts = scope.pipeline
    if not facts.is_code or {"state", "filters", "tools"} & {*facts.observes}:
        return False
    ids_of_calls = {tool.call_id for tool in scope.tools}
    return any(
        call.id not in ids_of_calls and not call.is_handoff
        for run in scope.runs
        for message in run.messages
        for call in message.calls
    )


def unobservable_in_context(scope: Scope, selector: Selector, name: str, matcher: Any) -> str:
    """Return the same for a claim under ``context``, which may need sections."""
    if selector.run is not None and not scope.can_observe("runs"):
        return "runs"
    kind = CONTEXT_CLAIMS.get(name, SECTION_CLAIM)
    if kind.is_assignable and _is_named(scope, selector.agent):
        return ""
    for need in kind.needs:
        if not scope.can_observe(need):
            return need
    if name == "tools" and _is_of_definitions(matcher) and _lacks_definitions(scope):
        return "definitions"
    return "sections" if names_section(matcher) and not scope.can_observe("sections") else ""


def _is_of_definitions(matcher: Any) -> bool:
    """Return whether a claim on tools says more than their names."""
    return any(
        key in ("description", "parameters", "strict") for path, _ in walk(matcher) for key in path
    )


def _lacks_definitions(scope: Scope) -> bool:
    return (
        bool(scope.view.calls)
        and not scope.view.definitions
        and any(call.context.tools for call in scope.all_calls)
    )


def not_observable(
    scope: Scope, builder: FindingBuilder, path: Path, subject: str, need: str, agent: str = ""
) -> Iterator[Finding]:
    """Yield the finding that a claim is not observable; none if that was declared."""
    if need in scope.pipeline.unseen:
        builder.passed_over.append(
            builder.finding(
                path,
                f"{subject} was not looked at: {_why_unseen(scope, need)}",
                turn=scope.turn,
                agent=agent,
                fix="Claim something that the code shows, or report this in the code.",
            )
        )
        return
    driver = f"driver {scope.driver!r}" if scope.driver else "the driver of this trace"
    yield builder.finding(
        path,
        f"{subject} is not observable by {driver}, which does not see {aspect(need).words}",
        turn=scope.turn,
        agent=agent,
        fix=_in_code(need, str(path[-1]), agent) if builder.is_code else _OTHERWISE,
    )


def _why_unseen(scope: Scope, need: str) -> str:
    """Return the author's reason; traces of older versions contain none."""
    reason = " ".join(scope.pipeline.unseen_reasons.get(need, "").split())
    return f"{need}: {reason}" if reason else f"{need}: declared `unseen`"


def _in_code(need: str, claim: str, agent: str) -> str:
    """Describe how code can show it, or what to claim instead."""
    if need != "sections":
        return aspect(need).advice or _OTHERWISE
    kind = CONTEXT_CLAIMS.get(claim, SECTION_CLAIM)
    if not kind.is_assignable or agent == "*":
        return f"{_OF_MESSAGES}, or remove the claim."
    is_known = claim in (*CONTEXT_CLAIMS, INSTRUCTIONS, HISTORY, CURRENT, RUN)
    sections = "{}" if is_known else f"{{{claim}: {{system: {{$starts: …}}}}}}"
    is_of_messages = claim in CONTEXT_CLAIMS and kind.form == "messages"
    instead = "leave `section` out of it" if is_of_messages else f"c{_OF_MESSAGES[1:]}"
    return (
        "Say which messages are of which section, "
        f"`agents: {{{agent}: {{sections: {sections}}}}}`, or {instead}."
    )


def _is_named(scope: Scope, agent: str) -> bool:
    """Return whether the pipeline's file assigns an agent's messages to sections."""
    agents = scope.view.pipeline.agents
    return agent in agents and agents[agent].sections is not None


# Names of arguments in claims on code: those of the schemas that its requests offered


def schemas_of_calls(view: View) -> ValueSchemas:
    """Return the schemas of the tools that code was offered and called, and of their arguments.

    A function may receive more than the model asks for, so of a tool that was never called no names
    of arguments are known.
    """
    offers: dict[str, dict[bytes, Any]] = {}
    if view.pipeline.is_code and view.definitions:
        for tool in view.definitions.values():
            _add(offers, str(tool), tool.parameters)
        calls = [event for event in view.events if type(event) is e.ToolCalled]
        for call in calls:
            if call.tool in offers:
                for args in (call.args, view.requests.get(call.call_id)):
                    _add(offers, call.tool, _schema_of(args))
        offers = {call.tool: offers[call.tool] for call in calls if call.tool in offers}
    args = {tool: {"anyOf": [*schemas.values()]} for tool, schemas in offers.items()}
    return ValueSchemas(args, is_every_tool=False)


def _add(offers: dict[str, dict[bytes, Any]], tool: str, schema: JsonValue) -> None:
    offers.setdefault(tool, {})[msgspec.json.encode(schema)] = schema


def _schema_of(value: JsonValue) -> JsonValue:
    """Return a schema with the names in a value."""
    if isinstance(value, Mapping):
        properties = {key: _schema_of(part) for key, part in value.items()}
        return {"type": "object", "properties": properties}
    if is_array(value):
        return {"type": "array", "items": {"anyOf": [_schema_of(part) for part in value]}}
    return {"type": "string"}


def check_called(
    scenario: Scenario, document: Document, claims: Iterable[tuple[SourcePath, Expect]], view: View
) -> None:
    """Raise SourceError for the first argument in a claim that no call of its tool can have."""
    schemas = schemas_of_calls(view)
    if schemas.args:
        names = ClaimNames(document, KnownNames(values=schemas), {}, partial(values_in, scenario))
        for path, expect in claims:
            names.check(expect, path)
