"""What is unknown equals nothing: where less is known of a run, no lint finds an error more."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from simkit.checks.findings import Hit
from simkit.checks.unclaimed import severity_of
from simkit.core.messages import ToolCall
from simkit.trace import events as e
from simkit.trace.events import AnyEvent
from simkit.trace.store import Trace
from tests.adapters.running import APPS, run_app
from tests.adapters.test_healthy import SCENARIOS
from tests.checks.traces import Story, context_message, run_lints

CODE = ("state", "filters", "runs", "handoffs")


def _of(kind: type, **fields: Any) -> Callable[[AnyEvent], AnyEvent]:
    return lambda event: replace(event, **fields) if isinstance(event, kind) else event


def _without(subject: str) -> Callable[[AnyEvent], AnyEvent]:
    """A driver that does not see something."""

    def less(event: AnyEvent) -> AnyEvent:
        if not isinstance(event, e.RunStarted):
            return event
        observes = tuple(ability for ability in event.pipeline.observes if ability != subject)
        return replace(event, pipeline=replace(event.pipeline, observes=observes))

    return less


def _nobodys(event: AnyEvent) -> AnyEvent:
    if not isinstance(event, e.MessageAdded):
        return event
    return replace(event, message=replace(event.message, agent=None))


UNKNOWN: dict[str, Callable[[AnyEvent], AnyEvent]] = {
    "inputs": _of(e.AgentStarted, input=None),
    "who called": _of(e.AgentStarted, parent="", call_id=""),
    "arguments": _of(e.ToolCalled, args=None),
    "settings": _of(e.ContextBuilt, settings=None),
    "outputs": _of(e.AgentFinished, output=None),
    "authors": _nobodys,
    "state": _without("state"),
    "filters": _without("filters"),
}


def circles(*inputs: Any, reply: Iterable[str] = ("again", "again")) -> Story:
    """An agent of code runs once for each input."""
    story = Story(["a"], observes=CODE)
    story.turn()
    for given, text in zip(inputs, reply, strict=False):
        story.start("a", given=given)
        story.call(context_message("", text, role="user"))
        story.says("Hi.")
        story.finish()
    story.end("Hi.")
    return story


def calling(*args: Any) -> Story:
    """An agent of code calls a tool once for each argument, and hears the same each time."""
    story = Story(["a"], observes=CODE)
    story.turn(agent="a")
    for number, item in enumerate(args):
        call = ToolCall(f"call{number}", "look", item)
        story.says("", call)
        story.emit(e.ToolCalled(*story.where(), call_id=call.id, tool="look", args=item))
        story.emit(e.ToolReturned(*story.where(), call_id=call.id, tool="look", result="nothing"))
        story.hears(call.id, "nothing")
    story.finish()
    story.end("Hi.")
    return story


STORIES = {
    "the same again": circles("x", "x"),
    "two inputs": circles("x", "y"),
    "two contexts": circles("x", "x", reply=("one", "two")),
    "calls that differ": calling({"n": 1}, {"n": 2}, {"n": 3}),
    "calls that do not": calling({"n": 1}, {"n": 1}, {"n": 1}),
}


def errors(events: Iterable[AnyEvent]) -> set[tuple[str, int, str]]:
    """The errors that lints find: which, in which turn, of whom."""
    trace = Trace()
    trace.events.extend(events)
    _, hits = run_lints(trace)
    return {_key(hit) for hit in hits if severity_of(hit) == "E"}


def _key(hit: Hit) -> tuple[str, int, str]:
    return hit.id, hit.turn, hit.agent


@pytest.mark.parametrize("unknown", UNKNOWN)
@pytest.mark.parametrize("name", STORIES)
def test_knowing_less_of_a_told_run_finds_no_error_more(name: str, unknown: str) -> None:
    events = STORIES[name].trace.events

    assert errors(map(UNKNOWN[unknown], events)) <= errors(events)


@pytest.mark.parametrize("name", SCENARIOS)
def test_knowing_less_of_code_that_is_in_order_finds_no_error(name: str) -> None:
    events = run_app(f"healthy:{name}", SCENARIOS[name], APPS).trace.events

    by_name = {subject: errors(map(less, events)) for subject, less in UNKNOWN.items()}

    assert by_name == {subject: set() for subject in UNKNOWN}
