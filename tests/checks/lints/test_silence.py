"""What is proven silent, thorough lints find nothing in: over plain traces and damaged copies.

`test_screening` asserts the same of traces of every kind, most of which are not plain.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Final

import pytest
from msgspec.structs import replace

from simkit.checks.findings import Hit
from simkit.checks.lints import Watch, all_lints
from simkit.checks.lints.ruled_out import RULED_OUT
from simkit.checks.lints.silence import Silence
from simkit.checks.lints.watching import readings_of, reads
from simkit.session.simulate import run
from simkit.trace import events as e
from simkit.trace.store import Trace
from simkit.trace.views import View
from tests.building import prepared
from tests.checks.lints.damages import changed
from tests.checks.lints.plain_conversations import Draw
from tests.checks.lints.proofs import check_proof, watched
from tests.checks.lints.test_screening import (
    hits_of,
    thorough_lints,
)
from tests.checks.lints.unlikely_traces import UNLIKELY
from tests.conversations import (
    DESK,
    HANDED_OVER,
    PASSED_ON,
    REGISTERED,
    ROUTED,
    ROUTER,
    conversation,
)

TURNS: Final = 3
COPIES: Final = 200
"""Damaged copies of each trace."""
DRAWN: Final = 60
"""Drawn conversations."""
COPIES_OF_DRAWN: Final = 20
"""Damaged copies of each of these."""
ALONE: Final = """
version: 1
pipeline: p
channels: {notes: {reducer: append}, last: {}}
agents: {desk: {instructions: Answer., context: [instructions, history, current_message]}}
defaults: {writes: {messages: ["${run.final_message}"], notes: ["${run.final_message}"]}}
flow: {handoffs: {start: desk}}
"""
ANSWERED: Final = """
  - user: Question {number}
    replies: {{desk: Answer {number}}}
"""
PLAIN: Final = {
    "a router": (ROUTER, ROUTED),
    "without a filter": (
        ROUTER.replace("[tool_messages, tool_calls, intermediate_ai]", "[]"),
        ROUTED,
    ),
    "one agent": (ALONE, ANSWERED),
    "a tool and a handoff": (REGISTERED, PASSED_ON),
}


def events_of(name: str) -> list[e.AnyEvent]:
    return run(conversation(*PLAIN[name], TURNS)).events


@pytest.mark.parametrize("name", PLAIN)
def test_no_lint_is_asked_about_a_plain_run(name: str) -> None:
    events = events_of(name)

    assert check_proof(events)
    assert hits_of(thorough_lints(), events) == []


@pytest.mark.parametrize("name", PLAIN)
def test_what_is_proven_silent_has_no_hits(name: str) -> None:
    events, rng = events_of(name), Random(name)
    proofs = sum(check_proof(changed(events, rng)) for _ in range(COPIES))

    assert proofs > COPIES / 20


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, DRAWN, 20))
def test_what_is_proven_silent_has_no_hits_in_drawn_conversations(first: int) -> None:
    proofs = whole = 0
    for seed in range(first, first + 20):
        events, rng = Draw(seed).events, Random(seed)
        whole += check_proof(events)
        proofs += sum(check_proof(changed(events, rng)) for _ in range(COPIES_OF_DRAWN))

    assert whole > 4
    assert proofs > COPIES_OF_DRAWN / 4


@pytest.mark.parametrize("name", UNLIKELY)
def test_lints_read_what_no_driver_writes(name: str) -> None:
    lint, make = UNLIKELY[name]
    events = make()

    assert not check_proof(events)
    assert lint in {hit.id for hit in hits_of(thorough_lints(), events) or ()}
    assert watched(events).hits == hits_of(thorough_lints(), events)


def test_instructions_that_claim_to_be_a_logged_message_are_not_proven() -> None:
    events = events_of("one agent")
    place, built = next((n, ev) for n, ev in enumerate(events) if isinstance(ev, e.ContextBuilt))
    first, *others = built.parts
    assert isinstance(first, e.Made)
    events[place] = replace(built, parts=(replace(first, of=1), *others))

    assert not check_proof(events)
    assert hits_of(thorough_lints(), events) != []


def test_a_text_that_repeats_a_given_message_is_reported() -> None:
    """Both belong to no turn, so that they are equal messages."""
    scenario = prepared(
        """
        version: 1
        pipeline: p
        agents: {desk: {instructions: Answer., context: [instructions, input, history]}}
        flow: {handoffs: {start: desk}}
        """,
        """
        given: {state: {messages: [{user: Hello}, {assistant: Welcome}]}}
        turns: [{user: Hello, replies: {desk: Yes}}]
        """,
    )

    hits = watched(run(scenario).events).hits

    assert [hit.id for hit in hits] == ["CTX-07"]


@pytest.mark.parametrize("dropped", ["history", "current_message", "both"])
def test_sections_that_a_later_context_leaves_out_are_no_crash(dropped: str) -> None:
    """The first context has them, and its parts are known from then on."""
    when = " {when: {state: {mode: full}}}"
    history = when if dropped != "current_message" else " {}"
    message = when if dropped != "history" else " {}"
    scenario = prepared(
        f"""
        version: 1
        pipeline: p
        channels: {{mode: {{scope: session, default: full}}}}
        agents:
          desk:
            instructions: Answer.
            context:
              - instructions
              - history:{history}
              - current_message:{message}
            writes: {{mode: "${{run.output}}", messages: ["${{run.final_message}}"]}}
        flow: {{handoffs: {{start: desk}}}}
        """,
        """
        turns:
          - {user: Hello, replies: {desk: full}}
          - {user: Hello again, replies: {desk: short}}
          - {user: Hello once more, replies: {desk: short}}
        """,
    )
    events = run(scenario).events

    assert len({len(ev.parts) for ev in events if isinstance(ev, e.ContextBuilt)}) == 2
    assert watched(events).hits == hits_of(thorough_lints(), events)


def test_a_wrong_proof_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Silence, "goes_on", lambda *_: True)

    with pytest.raises(AssertionError):
        test_what_is_proven_silent_has_no_hits("a tool and a handoff")


def test_lints_read_the_whole_trace_once_the_proof_ends() -> None:
    plain = events_of("one agent")[:-1]
    trace, watch = Trace(), Watch(all_lints())
    trace.events.extend(plain)
    watch.see(trace)
    assert watch._silence is not None

    agent_again = next(event for event in plain if isinstance(event, e.ModelCalled))
    trace.events.append(agent_again)  # after its turn
    watch.see(trace)

    assert watch._silence is None
    assert watch.hits == watched(trace.events).hits != []
    assert watch.view.events == trace.events


def test_a_lint_that_decides_by_an_event_alone_is_asked_while_the_proof_holds() -> None:
    """No contract knows the handoffs of this pipeline."""
    events = run(conversation(DESK, HANDED_OVER, TURNS)).events
    watch = watched(events)

    assert check_proof(events)
    assert [(hit.id, hit.turn) for hit in watch.hits] == [("HND-11", n + 1) for n in range(TURNS)]
    assert not watch.view.is_awake


def test_what_lints_found_alone_is_not_found_twice_once_the_proof_ends() -> None:
    events = run(conversation(DESK, HANDED_OVER, TURNS)).events
    trace, watch = Trace(), Watch(all_lints())
    for event in events:
        trace.events.append(event)
        watch.see(trace)
    hits_before = list(watch.hits)
    trace.events.append(next(event for event in events if isinstance(event, e.ModelCalled)))
    watch.see(trace)

    assert watch._silence is None
    assert hits_before == watch.hits[:TURNS]
    assert [hit.id for hit in watch.hits[TURNS:]] == ["FLW-05"]


def test_what_looks_at_a_view_between_two_turns_changes_no_hits() -> None:
    events = events_of("a router")
    trace, watch = Trace(), Watch(all_lints())
    for event in events:
        trace.events.append(event)
        if isinstance(event, e.TurnFinished):
            watch.see(trace)
            assert len(watch.view.turns) == event.turn
    watch.see(trace)

    assert watch.hits == []
    assert watch.view.events == events


def test_a_lint_that_nobody_has_thought_about_is_asked() -> None:
    kinds = list[type]()

    class New:
        """A lint that reads what every run has."""

        id = "TST-01"

        @reads(e.ModelReplied)
        def look(self, event: e.ModelReplied, view: View) -> Iterable[Hit]:
            """Note that it was asked."""
            kinds.append(type(event))
            return ()

    trace, watch = Trace(), Watch([*all_lints(), New()])
    trace.events.extend(events_of("one agent"))
    watch.see(trace)

    assert kinds == [e.ModelReplied] * TURNS


def test_each_method_that_is_ruled_out_exists() -> None:
    lints = [*all_lints()]
    readers = [lint.reader for lint in lints if hasattr(lint, "reader")]
    methods = {
        (kind, f"{type(lint).__name__}.{reading.name}")
        for lint in (*lints, *readers)
        for reading in readings_of(type(lint))
        for kind in reading.kinds
    }

    assert {(kind, name) for kind in RULED_OUT for name in RULED_OUT[kind]} <= methods
