"""Claims on handoffs, state, logs and events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from simkit.checks.claims import LINES_MAX, Writer, listed, listing
from simkit.checks.findings import Finding
from simkit.checks.pinning import element_of, event_at, write_of
from simkit.checks.scope import Scope, event_fields, log_fields
from simkit.core.text import short
from simkit.language.matching import Mismatch
from simkit.language.matching.compiling import is_operator
from simkit.language.paths import head_of, walk
from simkit.trace import events as e

_ENDS: Final = ("outcome", "reason")
"""Fields of a handoff's outcome; only a rejected one has a reason."""


def check_handoffs(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """Check handoff requests in order; an element of a plain list means a made one by default."""
    handoffs = [handoff.fields() for handoff in scope.handoffs]
    title = f"handoffs requested {scope.words}:"
    otherwise = f"no handoff was requested {scope.words}"
    claimed = _made_by_default(scope.expect.handoffs)

    def event(misses: Sequence[Mismatch]) -> int | None:
        place = element_of(claimed, handoffs, misses)
        if place is None:
            return None
        id_ = scope.handoffs[place].id
        return event_at(scope, e.HandoffRequested, lambda event_: event_.handoff == id_)

    yield from writer.compare(
        claimed,
        handoffs,
        (*scope.path, "handoffs"),
        "handoffs",
        turn=scope.turn,
        context=listing(title, handoffs, _handoff_line, otherwise),
        event=event,
    )


def _made_by_default(matcher: Any) -> Any:
    """Return the claim with ``made`` added to elements of a plain list without an outcome.

    Inside operators nothing is added, because it would weaken a denial.
    """
    if not isinstance(matcher, (list, tuple)):
        return matcher
    return [
        {**element, "outcome": "made"} if _is_named(element) and not _says_end(element) else element
        for element in matcher
    ]


def _is_named(matcher: Any) -> bool:
    """Return whether an element names fields of a handoff beside its operators."""
    return isinstance(matcher, Mapping) and any(not is_operator(key) for key in matcher)


def _says_end(matcher: Any) -> bool:
    """Return whether a matcher of one handoff mentions its outcome, also inside an operator."""
    if isinstance(matcher, (list, tuple)):
        return any(_says_end(element) for element in matcher)
    return isinstance(matcher, Mapping) and any(
        _says_end(inner) if is_operator(key) else head_of(key) in _ENDS
        for key, inner in matcher.items()
    )


def _handoff_line(handoff: Mapping[str, Any]) -> str:
    reason = f": {short(handoff['reason'], 160)}" if handoff.get("reason") else ""
    kind = f"{handoff['type']}, {handoff['mode']}" if handoff["type"] else handoff["mode"]
    return f"{handoff['from']} → {handoff['to']} ({kind}), {handoff['outcome']}{reason}"


def check_state(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """Check the channels after the turn, or after the run."""
    misses = writer.misses(scope.expect.state, scope.state)
    if misses:
        yield from writer.compare(
            scope.expect.state,
            scope.state,
            (*scope.path, "state"),
            "state",
            turn=scope.turn,
            context=list(_writers(misses, scope)),
            event=lambda misses: _write_of(misses, scope),
        )


def _write_of(misses: Sequence[Mismatch], scope: Scope) -> int | None:
    """Return the last write of the first differing channel that was written."""
    channels = [_channel(str(miss.path[0]), scope) for miss in misses if miss.path]
    places = (write_of(scope, channel) for channel in channels)
    return next((place for place in places if place is not None), None)


def _writers(misses: Sequence[Mismatch], scope: Scope) -> Iterator[str]:
    """Yield the agents that wrote the differing channels."""
    keys = dict.fromkeys(str(miss.path[0]) for miss in misses if miss.path)
    channels = dict.fromkeys(_channel(key, scope) for key in keys)
    for channel in [name for name in channels if name][:LINES_MAX]:
        facts = scope.pipeline.channels.get(channel)
        if facts is not None and facts.scope == "agent_run":
            yield f"channel {channel} has scope agent_run: it is in no state, only in `runs`"
            continue
        writes = [
            scope_update
            for scope_update in scope.updates
            if channel in scope_update.update and not scope_update.state
        ]
        by = listed(list(dict.fromkeys(_writer(update) for update in writes)))
        yield (
            f"channel {channel} was written {scope.words} by {by}"
            if writes
            else f"channel {channel} was not written {scope.words}"
        )


def _channel(key: str, scope: Scope) -> str:
    """Return the channel that a claim's key leads into."""
    if key in scope.state or key in scope.pipeline.channels:
        return key
    return head_of(key)


def _writer(update: e.StateUpdated) -> str:
    if update.cause in ("given", "user"):
        return "what is given" if update.cause == "given" else "the user's message"
    if update.cause == "handoff":
        return f"the contract of {update.agent}'s handoff {update.handoff}"
    rule = f" (`{update.cause}` rule)" if update.cause in ("before", "after") else ""
    return f"{update.agent}{rule}"


def check_logs(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """Check the log records of the code's own loggers, in order."""
    records = [
        (place, event)
        for place, event in enumerate(scope.events, scope.span.start or 0)
        if isinstance(event, e.LogRecorded)
    ]
    logs = [log_fields(event) for _, event in records]

    def event(misses: Sequence[Mismatch]) -> int | None:
        place = element_of(scope.expect.logs, logs, misses)
        return None if place is None else records[place][0]

    title, otherwise = f"log records {scope.words}:", f"nothing was logged {scope.words}"
    yield from writer.compare(
        scope.expect.logs,
        logs,
        (*scope.path, "logs"),
        "logs",
        turn=scope.turn,
        context=listing(title, logs, _log_line, otherwise),
        event=event,
    )


def _log_line(record: Mapping[str, Any]) -> str:
    return f"{record['level']} {record['logger']}: {short(record['message'], 160)}"


def check_events(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """Check fields of the events."""
    events = [event_fields(scope.view.whole_event(event)) for event in scope.events]

    def event_place(misses: Sequence[Mismatch]) -> int | None:
        place = element_of(scope.expect.events, events, misses)
        return None if place is None else place + (scope.span.start or 0)

    yield from writer.compare(
        scope.expect.events,
        events,
        (*scope.path, "events"),
        "events",
        turn=scope.turn,
        context=_events_near(scope),
        event=event_place,
    )


def _events_near(scope: Scope) -> Iterator[str]:
    """Yield the events of the claimed kinds; if there are none, the existing kinds."""
    claimed = walk(scope.expect.events)
    kinds = {text for path, text in claimed if "kind" in path and isinstance(text, str)}
    near = [(place, event) for place, event in enumerate(scope.events) if e.kind_of(event) in kinds]
    if not near:
        known_kinds = dict.fromkeys(e.kind_of(event) for event in scope.events)
        yield f"kinds of events {scope.words}: {', '.join(known_kinds) or 'none'}"
        return
    yield f"events of these kinds {scope.words}:"
    for place, event in near[:LINES_MAX]:
        yield f"  [{place}] {_event_line(event)}"
    if len(near) > LINES_MAX:
        yield f"  … {len(near) - LINES_MAX} more"


def _event_line(event: e.AnyEvent) -> str:
    words = [e.kind_of(event)]
    if isinstance(event, (e.HandoffRequested, e.HandoffMade, e.HandoffRejected)):
        words.append(f"{event.from_agent} → {event.to_agent}")
    elif isinstance(event, e.RouteChosen):
        words.append(f"{event.agent} → {', '.join(event.targets)}")
    elif event.agent:
        words.append(event.agent)
    for name in ("tool", "limit", "status"):
        value = getattr(event, name, "")
        if value and isinstance(value, str):
            words.append(value)
    return " ".join(words)
