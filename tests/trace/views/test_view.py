"""Views: what a trace says of turns, runs, contexts and state; the same when it is read back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simkit.core.messages import Dropped, Message, message_field
from simkit.session.simulate import run
from simkit.spec.scenario.files import Library, items_in, scenario_files
from simkit.trace.events import (
    CallEdited,
    ContextBuilt,
    Event,
    InlinePart,
    LeftOut,
    Shortened,
    ToolCalled,
)
from simkit.trace.store import Trace, decoded
from simkit.trace.views import CallView, ContextView, RunView, TurnView, View, view_of
from simkit.trace.views.contexts import UnshownView
from tests.building import Ran, dropped, message_lines, run_yaml
from tests.conftest import sample_by_day

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"
# One scenario that uses whatever a trace can hold.
PIPELINE = """
version: 1
pipeline: p
channels:
  outputs: {reducer: merge, scope: turn}
  notes: {reducer: append, scope: project}
  longest: {reducer: "tests.functions:longest"}
  last: {reducer: {append: {last: 2}}}
defaults:
  writes:
    messages: ["${run.final_message}"]
    outputs: {"${agent}": "${run}"}
    longest: "${run.reply}"
    last: "${run.final_message}"
agents:
  router: {instructions: R., context: [instructions, history, current_message], writes: {}}
  a:
    instructions: A.
    tools: [look]
    handoffs: [c]
    context:
      - instructions
      - {previous_agents: {truncate: 10, from: outputs}}
      - history:
          from: log
          filters: [tool_calls, tool_messages, intermediate_ai]
          window: {rounds: 2}
      - current_message
  b:
    instructions: B.
    context:
      - [instructions, {history: {window: {messages: 2}}}]
      - history: {name: other, filters: ["tests.functions:in_capitals"]}
      - current_message
  c:
    instructions: C.
    context:
      - instructions
      - handoff
      - history: {window: {rounds: 1}, summary: scribe}
      - {history: {name: text, as: text, from: log}}
  scribe: {instructions: Sum up.}
tools: {look: {}}
contracts: [{from: a, to: c, mode: delegate, history: filters, payload: {type: object}}]
flow: {router: {decide: router, to: "${run.output.to}"}}
"""
SCENARIO = """
given: {state: {notes: [{text: n}], messages: [{user: Before}, {assistant: Yes, agent: a}]}}
turns:
  - user: One
    replies:
      router: {json: {to: [a, b]}}
      a:
        - {text: Looking., calls: [look: {n: 1}, look: {n: 2}]}
        - {handoff: {to: c, payload: {k: 1}}}
        - A1.
      b: {json: {b: [1]}}
      c: C1.
      scribe: Summed up.
    tool_results: {look: [{returns: {x: 1}, latency_ms: 5}, {error: Gone}]}
  - user: {json: {u: 2}}
    session: s2
    replies: {router: {json: {to: {parallel: [a, b]}}}, a: A2., b: B2.}
  - {user: Three, replies: {router: {json: {to: b}}, b: B3.}}
  - user: Four
    replies: {router: {json: {to: a}}, a: [{handoff: {to: c}}, A4.]}
  - user: Five
    replies:
      router: {json: {to: a}}
      a: [{handoff: {to: c, payload: {}}}, A5.]
      c: {error: refusal}
      scribe: Again.
    expect: {error: {type: refusal}}
  - user: Six
    replies:
      router: {json: {to: a}}
      a: [{handoff: {to: c, payload: {}}}, A6.]
      c: C6.
      scribe: Last.
"""


def plain(value: Any) -> Any:
    """Everything that a judge can see of a view, as plain data."""
    if isinstance(value, ContextView):
        return {
            "messages": plain(list(value.messages)),
            "sections": value.sections,
            "by_section": {name: plain(list(value.section(name))) for name in value.sections},
            "dropped": plain(value.dropped()),
            "weights": [list(weight) for weight in value.weights()],
            "tokens": value.tokens,
            "tools": list(value.tools),
            "settings": plain(value.settings),
        }
    if isinstance(value, (View, TurnView, RunView, CallView)):
        keys = [key for key in _attributes(value) if not key.startswith("_") and key != "events"]
        links = {"received"} if isinstance(value, RunView) else set()
        return {key: plain(getattr(value, key)) for key in keys if key not in links} | {
            key: plain(dict(getattr(value, key))) for key in links
        }
    if isinstance(value, msgspec.Struct):
        return {field: plain(getattr(value, field)) for field in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "fields"):
        return plain(value.fields())
    if isinstance(value, (str, int, float, type(None))):
        return value
    if hasattr(value, "entries") and hasattr(value, "cuts"):  # a stream
        return {"entries": plain(value.entries), "tokens": value.tokens, "cuts": plain(value.cuts)}
    return [plain(item) for item in value]


def _attributes(value: Any) -> list[str]:
    if isinstance(value, View):
        return ["pipeline", "turns", "error", "states"]
    return sorted(vars(value))


@pytest.fixture(scope="module")
def ran() -> Ran:
    """What came of the large scenario, which takes most of a second."""
    return run_yaml(PIPELINE, SCENARIO)


@pytest.mark.slow
def test_everything_in_the_large_scenario_happens(ran: Ran) -> None:
    assert [turn.error.type if turn.error else None for turn in ran.view.turns] == [
        None, None, None, None, "refusal", None,
    ]  # fmt: skip
    assert {run.agent for turn in ran.view.turns for run in turn.runs} == {"router", *"abc"}
    assert [turn.handoffs[0].outcome for turn in ran.view.turns if turn.handoffs] == [
        "made", "rejected", "made", "made",
    ]  # fmt: skip
    assert [len(turn.calls_by_agent.get("scribe", [])) for turn in ran.view.turns] == [
        1, 0, 0, 0, 1, 1,
    ]  # fmt: skip


def test_trace_that_is_read_back_gives_the_same_events_and_views(ran: Ran) -> None:
    trace = ran.trace
    again = decoded(trace.stored())

    assert again.encoded() == trace.encoded()
    assert plain(view_of(again.events)) == plain(view_of(trace.events))


def test_an_edit_that_follows_its_call_is_the_calls(ran: Ran) -> None:
    call = ran.events(ToolCalled)[0]
    edit = CallEdited(call.at, call.session, call.turn, call_id=call.call_id, by="Ada")
    view = view_of([*ran.trace.events, edit])

    calls = [tool for turn in view.turns for tool in turn.tools]
    assert [tool.edited_by for tool in calls if tool.call_id == call.call_id] == ["Ada"]


EXAMPLES = ("supervisor_context", "fitness_coach", "agent_engine", "research_assistant")


@pytest.fixture(scope="module", params=["examples", pytest.param("all", marks=pytest.mark.slow)])
def traces(request: pytest.FixtureRequest, ran: Ran) -> dict[str, Trace]:
    """The traces of the project's scenarios, and of the large one above."""
    names = [f"{folder}/example.scenario.yaml" for folder in EXAMPLES]
    if request.param == "all":
        names = [str(file) for file in sample_by_day(scenario_files(SCENARIOS), 3)]
    library = Library()
    cases = [library.prepared(item) for name in names for item in items_in(str(SCENARIOS / name))]
    traces = {case.item.id: run(case) for case in cases if case.skip is None}
    assert len(traces) > (50 if request.param == "all" else 5)
    return {**traces, "large": ran.trace}


@pytest.mark.slow
def test_every_scenario_of_the_project_is_read_back_as_it_was(traces: dict[str, Trace]) -> None:
    for name, trace in traces.items():
        again = decoded(trace.stored())

        assert again.stored() == trace.stored(), name
        assert plain(view_of(again.events)) == plain(view_of(trace.events)), name


def _calls(view: View) -> Iterator[tuple[str, CallView]]:
    for turn in view.turns:
        for call in turn.calls:
            yield f"turn {turn.number}, {call.agent}, {call.id}", call


@pytest.mark.slow
def test_tokens_of_every_context_are_those_of_its_weights(traces: dict[str, Trace]) -> None:
    for name, trace in traces.items():
        for where, call in _calls(view_of(trace.events)):
            weighed = sum(tokens for _, _, tokens in call.context.weights())
            # A message that sections share is counted once as a whole and once by its pieces.
            shares = any(isinstance(part, object) and getattr(part, "pieces", ())
                         for part in call.context.parts)  # fmt: skip
            if not shares:
                assert call.context.tokens == weighed, (name, where)


def test_every_run_that_starts_ends(traces: dict[str, Trace]) -> None:
    for name, trace in traces.items():
        for turn in view_of(trace.events).turns:
            assert turn.finished, name
            assert [r.id for r in turn.runs if not r.finished] == [], name


def test_context_is_its_sections_in_order(traces: dict[str, Trace]) -> None:
    for name, trace in traces.items():
        for where, call in _calls(view_of(trace.events)):
            context = call.context
            if any(getattr(part, "pieces", ()) for part in context.parts):
                continue
            if context.named is not None:
                continue  # Of code: a file says which message is of which section.
            parts = [m for section in context.sections for m in context.section(section)]
            assert parts == list(context.messages), (name, where)


@pytest.mark.slow
def test_run_receives_the_state_as_it_was_when_it_started(ran: Ran) -> None:
    a, c, b = (run for run in ran.turn(1).runs if run.agent != "router")

    assert (a.agent, c.agent, b.agent) == ("a", "c", "b")
    assert list(a.received["outputs"]) == list(c.received["outputs"]) == []
    assert list(b.received["outputs"]) == ["c", "a"]
    assert message_lines(a.received["messages"]) == [
        "user: Before",
        "assistant/a: Yes",
        "user: One",
    ]
    assert ran.turn(1).state["longest"] == '{"b":[1]}'
    assert message_lines(ran.turn(1).state["last"]) == [
        "assistant/a: A1.",
        'assistant/b: {"b":[1]}',
    ]


@pytest.mark.slow
def test_state_after_a_turn_stays_as_it_was_when_later_turns_write(ran: Ran) -> None:
    assert [len(ran.turn(number).state["messages"]) for number in (1, 3, 4)] == [6, 8, 10]
    assert [len(turn.state["notes"]) for turn in ran.view.turns] == [1] * 6


@pytest.mark.slow
def test_calls_are_numbered_by_agent_and_turn(ran: Ran) -> None:
    assert [(call.agent, call.index) for call in ran.turn(1).calls] == [
        ("router", 0), ("a", 0), ("a", 1), ("scribe", 0), ("c", 0), ("a", 2), ("b", 0),
    ]  # fmt: skip
    assert [call.agent for call in ran.runs("c", 1)[0].calls] == ["c"]
    assert ran.calls("a", 1)[0].reply == ran.runs("a", 1)[0].messages[0]
    assert ran.runs("a", 1)[0].message == ran.runs("a", 1)[0].messages[-1]


@pytest.mark.slow
def test_later_call_of_a_run_shows_its_first_context_and_what_was_said_since(ran: Ran) -> None:
    built = [event for event in ran.events(ContextBuilt) if event.agent == "a"][:3]
    first, second, third = (call.context for call in ran.calls("a", 1))

    assert [(event.base, event.said) for event in built] == [
        ("", ()), ("c2", (5, 6, 7)), ("c2", (5, 6, 7, 8, 11)),
    ]  # fmt: skip
    assert list(second.messages)[: len(first.messages)] == list(first.messages)
    assert list(third.messages)[: len(second.messages)] == list(second.messages)
    assert first.sections == ["instructions", "history", "current_message"]


def test_context_keeps_what_it_showed_when_later_turns_settle_more() -> None:
    turns = "turns:" + "".join(f"\n  - {{user: Q{n}, replies: {{a: A{n}}}}}" for n in range(1, 6))
    pipeline = "agents: {a: {context: [{history: {window: {rounds: 1}}}, current_message]}}\n"
    ran = run_yaml(f"{pipeline}flow: {{handoffs: {{start: a}}}}", turns)

    assert [ran.history("a", n) for n in (1, 2, 3)] == [
        [], ["user: Q1", "assistant/a: A1"], ["user: Q2", "assistant/a: A2"],
    ]  # fmt: skip
    assert dropped(ran.context("a", 3)) == [
        ("user: Q1", "message", "window"), ("assistant/a: A1", "message", "window"),
    ]  # fmt: skip


@pytest.mark.slow
def test_messages_of_a_context_are_a_sequence(ran: Ran) -> None:
    messages = ran.context("a", 4).messages
    everything = list(messages)

    assert len(messages) == len(everything) > 4
    assert messages[-1] == everything[-1]
    assert messages[1:3] == everything[1:3]
    assert messages == everything
    with pytest.raises(IndexError):
        messages[len(everything)]


@pytest.mark.slow
def test_view_follows_references_to_messages(ran: Ran) -> None:
    view = ran.view

    assert view.resolved({"x": [{"$message": 3}]}) == {"x": [view.messages[3]]}
    assert view.resolved({"$unlogged": {"role": "user", "content": "Hi"}}) == Message("user", "Hi")
    assert view.resolved({"$message": 3, "more": 1}) == {"$message": 3, "more": 1}


def test_view_of_half_a_trace_shows_what_happened_so_far(ran: Ran) -> None:
    events = ran.trace.events
    for size in range(0, len(events), 7):
        view = view_of(events[:size])

        assert len(view.events) == size
        assert sum(turn.finished for turn in view.turns) in (len(view.turns), len(view.turns) - 1)


def test_event_fields_are_written_only_where_they_say_something() -> None:
    assert msgspec.json.encode(
        ContextBuilt(3, call="c1", parts=(InlinePart("s", Message("user")),))
    ) == (
        b'{"kind":"ContextBuilt","at":3,"call":"c1",'
        b'"parts":[{"type":"made","section":"s","message":{"role":"user"}}]}'
    )
    assert issubclass(ContextBuilt, Event)


@pytest.mark.parametrize(
    ("key", "expected"),
    [("what", "message"), ("by", "window"), ("content", "Hi"), ("agent", "a"), ("turn", 2)],
)
def test_dropped_message_is_read_as_the_message_with_what_and_by(key: str, expected: Any) -> None:
    message = Message("assistant", "Hi", "m1", "a", 2)

    assert message_field(Dropped(message, "message", "window"), key) == expected


def test_what_a_section_left_out_is_in_the_order_of_its_channel_then_what_was_cut() -> None:
    reply = Message("assistant", "hi", agent="a")
    state = {"notes": [{"text": "old", "by": "me"}, reply, "plain"], "fact": "a long text"}
    cut = Shortened("recall", "tokens", channel="notes", path="text", characters=3)
    facts = (
        cut,
        LeftOut("recall", "notes", "tags", ((2, 3),)),
        LeftOut("recall", "notes", "max", ((0, 2),)),
        LeftOut("recall", "fact", "max", ((0, 1),)),
    )
    unshown = UnshownView(facts, state)
    notes = {"section": "recall", "channel": "notes"}

    assert list(unshown) == [
        {**notes, "text": "old", "by": "max"},
        {**notes, "text": "hi", "agent": "a", "by": "max"},
        {**notes, "text": "plain", "by": "tags"},
        {**notes, "path": "text", "by": "tokens", "characters": 3},
        {"section": "recall", "channel": "fact", "text": "a long text", "by": "max"},
    ]
    assert len(unshown) == 5
    assert unshown.by("recall") == {
        ("tokens", "notes"): 1, ("tags", "notes"): 1, ("max", "notes"): 2, ("max", "fact"): 1,
    }  # fmt: skip
    assert unshown.by("history") == {}
