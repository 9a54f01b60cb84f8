"""Traces that no driver writes, in which lints find what a proof of their silence may miss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from simkit.session.simulate import run
from simkit.trace import events as e
from tests.building import prepared
from tests.conversations import PASSED_ON, REGISTERED, conversation

Events: TypeAlias = list[e.AnyEvent]

ASKING: Final = """
version: 1
pipeline: p
agents: {desk: {instructions: Help., tools: [find], context: [instructions, history: {from: log}]}}
tools: {find: {}}
flow: {handoffs: {start: desk}}
"""
EQUAL_CALLS: Final = """
  - user: Question {number}
    replies:
      desk: [{{calls: {{find: {{of: it}}}}}}, {{calls: {{find: {{of: it}}}}}}, Answer {number}]
    tool_results: {{find: [7, 7]}}
"""


def handed_over() -> Events:
    """Returns a conversation with calls and handoffs in which lints find nothing."""
    return run(conversation(REGISTERED, PASSED_ON, 2)).events


def equal_calls() -> Events:
    """Returns a conversation in which each turn makes the same call twice."""
    turns = "".join(EQUAL_CALLS.format(number=number) for number in range(3))
    return run(prepared(ASKING, f"turns:\n{turns}")).events


def _place(events: Sequence[e.AnyEvent], kind: type, number: int = 0) -> int:
    return [place for place, event in enumerate(events) if type(event) is kind][number]


def _with(events: Events, change: Callable[[Any], e.AnyEvent]) -> Events:
    return [change(event) for event in events]


def started_before_the_handoff() -> Events:
    """Returns a trace in which somebody starts between the request of a handoff and the handoff."""
    events = handed_over()
    place = _place(events, e.HandoffRequested) + 1
    first = events[_place(events, e.AgentStarted, 1)]
    assert isinstance(first, e.AgentStarted)
    other = replace(first, handoff="", handoff_from="", run="r99", input="Else")
    return [*events[:place], other, *events[place:]]


def without_a_name() -> Events:
    """Returns a trace with a handoff without an id, so that nothing says what starts its target."""
    return _with(
        handed_over(),
        lambda event: (
            replace(event, handoff="") if getattr(event, "handoff", "") == "h1" else event
        ),
    )


def two_pipelines() -> Events:
    """Returns a trace that begins again, with a pipeline that demands more."""
    events = handed_over()
    first = events[0]
    assert isinstance(first, e.RunStarted)
    agents = {
        name: replace(facts, requires=("Never said",))
        for name, facts in first.pipeline.agents.items()
    }
    other = replace(first, pipeline=replace(first.pipeline, agents=agents))
    return [first, other, *events[1:]]


def _of_another_run(number: int) -> Events:
    """Returns a trace in which a message is another run's, so that its own does not say it."""

    def other_event(event: Any) -> e.AnyEvent:
        if isinstance(event, e.MessageAdded) and event.message.number == number:
            return replace(event, run="r99")
        if isinstance(event, e.ContextBuilt) and number in event.said:
            return replace(event, said=tuple(each for each in event.said if each != number))
        assert isinstance(event, e.AnyEvent)
        return event

    return _with(handed_over(), other_event)


def asked_by_another_run() -> Events:
    """Returns a trace in which a run says the result of a call that it does not say."""
    return _of_another_run(5)


def answered_by_another_run() -> Events:
    """Returns a trace in which a run goes on without the result of its call."""
    return _of_another_run(4)


def returned_late() -> Events:
    """Returns a trace in which all tools return in the last turn."""
    events = equal_calls()
    late = [event for event in events if isinstance(event, e.ToolReturned)]
    others = [event for event in events if not isinstance(event, e.ToolReturned)]
    place = _place(others, e.TurnFinished, -1)
    return [*others[:place], *late, *others[place:]]


def called_between_turns() -> Events:
    """Returns a trace in which calls are made after a turn, and return in the next one."""
    events = equal_calls()
    end = _place(events, e.TurnFinished) + 1
    asking = events[_place(events, e.MessageAdded, 1)]
    execution = events[_place(events, e.ToolCalled)]
    outcome = events[_place(events, e.ToolReturned)]
    assert isinstance(asking, e.MessageAdded)
    assert isinstance(execution, e.ToolCalled)
    assert isinstance(outcome, e.ToolReturned)
    (call,) = asking.message.calls
    names, args = ("early1", "early2"), {"of": "Else"}
    execution = replace(execution, args=args)
    calls = tuple(replace(call, id=name, args=args) for name in names)
    before: Events = [
        replace(asking, turn=0, message=replace(asking.message, id="m900", turn=0, calls=calls)),
        *(replace(execution, call_id=name) for name in names),
    ]
    answer = replace(asking.message, role="tool", content="7", data=7, calls=(), turn=2)
    beginning = events[_place(events, e.TurnStarted, 1)]
    assert isinstance(beginning, e.TurnStarted)
    again: Events = [
        replace(execution, turn=2, call_id="early1"),
        *(replace(outcome, turn=2, call_id=name) for name in names),
        replace(execution, turn=2, call_id="early1"),
        replace(outcome, turn=2, call_id="early1"),
        replace(asking, turn=2, message=replace(answer, call_id="early1", id="m902")),
        replace(asking, turn=2, message=replace(answer, call_id="early2", id="m903")),
    ]
    ending = events[_place(events, e.TurnFinished, 1)]
    return [*events[:end], *before, replace(beginning, message=901), *again, ending]


def shown_under_two_numbers() -> Events:
    """Returns a trace in which a part shows the user's message under two numbers."""
    events = handed_over()
    place = next(
        place
        for place, event in enumerate(events)
        if isinstance(event, e.ContextBuilt) and event.agent == "billing"
    )
    context = events[place]
    assert isinstance(context, e.ContextBuilt)
    last = context.parts[-1]
    assert isinstance(last, e.Made)
    other = replace(last, of=99, message=replace(last.message, id="m1", content="Other words"))
    events[place] = replace(context, parts=(*context.parts[:-1], other))
    return events


UNLIKELY: Final[Mapping[str, tuple[str, Callable[[], Events]]]] = {
    "a start before the handoff": ("FLW-02", started_before_the_handoff),
    "a handoff without an id": ("FLW-02", without_a_name),
    "two pipelines": ("CTX-05", two_pipelines),
    "a call of another run": ("CTX-01", asked_by_another_run),
    "a result of another run": ("CTX-02", answered_by_another_run),
    "results in a later turn": ("FLW-03", returned_late),
    "calls between turns": ("FLW-03", called_between_turns),
    "a part with two numbers": ("CTX-16", shown_under_two_numbers),
}
"""What is unlikely about a trace, to the lint that finds it, and the trace."""
