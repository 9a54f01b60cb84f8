"""Facts mark the contexts in which order and repetitions are looked for: marks hide nothing.

The traces are those of drawn pipelines, of shipped scenarios, and of both with small damages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import Facts
from simkit.core.errors import TraceError
from simkit.session.simulate import run
from simkit.spec.scenario.files import Library, items_in, scenario_files
from simkit.trace import events as e
from simkit.trace.store import Trace
from simkit.trace.views import view_of
from tests.checks.traces import run_lints
from tests.conftest import IS_NIGHTLY, sample_by_day
from tests.oracle.comparing import played
from tests.oracle.generator import FLOWS, Draw

SHIPPED: Final = sample_by_day(scenario_files(Path(__file__).resolve().parents[3] / "scenarios"), 3)
UNREADABLE: Final = (
    LookupError, TypeError, ValueError, AttributeError, AssertionError, TraceError,
)  # fmt: skip
"""What reading a trace raises that is too damaged to be one."""
DAMAGES: Final = 12 if IS_NIGHTLY else 4
"""Damaged copies of each trace."""


@contextmanager
def marked(mark: bool) -> Iterator[None]:
    """Marks every context as one that order and repetitions must be looked for in, or as none."""
    with (
        patch.object(Facts, "_is_odd", lambda *_: mark),
        patch.object(Facts, "_may_repeat", lambda *_: mark),
    ):
        yield


def found_in(events: Iterable[e.AnyEvent]) -> list[Hit] | None:
    """Returns what lints find in a trace of these events; None if it is too damaged to be one."""
    trace = Trace()
    trace.events.extend(events)
    try:
        view_of(trace.events)
        return run_lints(trace)[1]
    except UNREADABLE:
        return None


def check_marks(name: str, events: list[e.AnyEvent]) -> int:
    """Asserts that marks hide nothing; returns how many copies of the trace could be read."""
    rng, number = Random(name), 0
    for damage in range(-1, DAMAGES):
        changed = events if damage < 0 else damaged(events, rng)
        with marked(True):
            expected = found_in(changed)
        if expected is not None:
            assert found_in(changed) == expected, (name, damage)
            number += 1
    return number


def damaged(events: list[e.AnyEvent], rng: Random) -> list[e.AnyEvent]:
    """Returns a copy of a trace with an event lost, repeated, moved or changed."""
    copy = list(events)
    place, other = rng.randrange(1, len(copy)), rng.randrange(1, len(copy))
    how = rng.randrange(8)
    if how == 0:
        del copy[place]
    elif how == 1:
        copy.insert(other, copy[place])
    elif how == 2:
        copy[place], copy[other] = copy[other], copy[place]
    else:
        places = [at for at, event in enumerate(copy) if type(event) in _CHANGES]
        if places:
            at = rng.choice(places)
            copy[at] = _CHANGES[type(copy[at])](copy[at], copy, rng)
    return copy


def _one_of(kind: type, events: Iterable[e.AnyEvent], rng: Random) -> Any:
    return rng.choice([event for event in events if type(event) is kind])


def _message_changed(event: e.MessageAdded, events: list[e.AnyEvent], rng: Random) -> e.AnyEvent:
    message, other = event.message, _one_of(e.MessageAdded, events, rng).message
    changes: tuple[dict[str, Any], ...] = (
        {"content": other.content},
        {"content": other.content, "role": other.role, "agent": other.agent, "turn": other.turn},
        {"content": ""},
        {"role": "system"},
        {"calls": other.calls, "call_id": other.call_id},
    )
    return replace(event, message=replace(message, **rng.choice(changes)))


def _context_changed(event: e.ContextBuilt, events: list[e.AnyEvent], rng: Random) -> e.AnyEvent:
    parts = list(event.parts)
    if not parts:
        return replace(event, said=event.said + event.said[-1:])
    place, how = rng.randrange(len(parts)), rng.randrange(6)
    part = parts[place]
    message = _one_of(e.MessageAdded, events, rng).message
    if how == 0:
        parts.append(part)
    elif how == 1:
        rng.shuffle(parts)
    elif isinstance(part, e.Made):
        parts[place] = (
            replace(part, message=replace(part.message, role=rng.choice(("user", "system")))),
            replace(part, of=message.number),
            replace(part, message=message),
            replace(part, message=replace(message, id="", turn=event.turn)),
        )[how - 2]
    else:
        parts[place] = (
            replace(part, tail=(*part.tail, message.number)),
            replace(part, kept=(*part.kept, message.number)),
            replace(part, lo=rng.randrange(4)),
            replace(part, restarts=True),
        )[how - 2]
    return replace(event, parts=tuple(parts))


def _update_changed(event: e.StateUpdated, events: list[e.AnyEvent], rng: Random) -> e.AnyEvent:
    added = [
        {"$message": before.message.number}
        for before in events[: events.index(event)]
        if isinstance(before, e.MessageAdded)
    ]
    whole = {**event.update, "messages": added}
    other = _one_of(e.StateUpdated, events, rng)
    changes = ({"update": whole}, {"update": other.update}, {"group": "g1", "branch": "r1"})
    return replace(event, **rng.choice(changes))


def _start_changed(event: e.AgentStarted, events: list[e.AnyEvent], rng: Random) -> e.AnyEvent:
    other = _one_of(e.AgentStarted, events, rng)
    changes = ({"agent": other.agent}, {"handoff": other.handoff}, {"group": "g9"})
    return replace(event, **rng.choice(changes))


_CHANGES: Final[dict[type, Callable[[Any, list[e.AnyEvent], Random], e.AnyEvent]]] = {
    e.MessageAdded: _message_changed,
    e.ContextBuilt: _context_changed,
    e.StateUpdated: _update_changed,
    e.AgentStarted: _start_changed,
}


def without_sections(events: list[e.AnyEvent]) -> list[e.AnyEvent]:
    """Returns a trace as a driver of code would report it: it does not know the sections."""
    (started,) = [event for event in events if isinstance(event, e.RunStarted)]
    observes = tuple(name for name in started.pipeline.observes if name != "sections")
    return [replace(started, pipeline=replace(started.pipeline, observes=observes)), *events[1:]]


@pytest.mark.parametrize("flow", FLOWS)
def test_marks_hide_nothing_in_drawn_pipelines(flow: str) -> None:
    number = 0
    for seed in range(2_000, 2_006):
        draw = Draw(seed, flow=flow)
        events = played(draw.pipeline, draw.scenario).events
        number += check_marks(f"{flow} {seed}", events)
        number += check_marks(f"{flow} {seed}, as code", without_sections(events))

    assert number > 8 * DAMAGES


@pytest.mark.slow
@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: Path(file).stem)
def test_marks_hide_nothing_in_shipped_scenarios(file: str) -> None:
    library = Library()
    for item in items_in(file):
        prepared = library.prepared(item)
        if prepared.skip is None:
            assert check_marks(item.name, run(prepared).events)


def test_a_mark_that_hides_something_is_seen() -> None:
    draw = Draw(2_000, flow=FLOWS[0])
    events = played(draw.pipeline, draw.scenario).events
    rng = Random(1)
    copies = [damaged(events, rng) for _ in range(60)]

    with marked(False):
        hidden = [found_in(copy) for copy in copies]

    assert hidden != [found_in(copy) for copy in copies]
