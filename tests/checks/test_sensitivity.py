"""Every kind of claim sees every place of a trace that it speaks of, and no other place.

A run is taken once. One place of its trace is changed at a time, and each claim is judged again:
red where it speaks of the place, as before everywhere else. A kind of claim without a row fails;
claims on runs whose value is a field of an event have one by that.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from simkit.checks.judge import judge
from simkit.runtime.functions import function_named
from simkit.session.simulate import run
from simkit.spec.scenario.claims import CONTEXT_CLAIMS, RUN_CLAIMS, TURN_CLAIMS
from simkit.spec.scenario.files import Prepared
from simkit.trace import events as e
from simkit.trace.store import Trace
from simkit.trace.views import View
from tests.building import prepared
from tests.checks.recorded_claims import RECORDED, recorded, value_of

PIPELINE = """
channels:
  messages: {reducer: append, scope: session}
  topic: {scope: session}
  memo: {scope: session}
agents:
  desk:
    instructions: You are the desk.
    tools: [look_up]
    handoffs: [expert]
    context:
      - instructions
      - shared: {from: topic, name: known}
      - history: {window: {messages: 1}}
      - current_message
    writes: {messages: ["${run.final_message}"], topic: bikes}
  expert:
    instructions: You are the expert.
    context: [instructions, handoff, current_message]
    writes: {messages: ["${run.final_message}"], topic: trains}
tools: {look_up: {description: Looks up., args: {type: object}}}
contracts:
  - {from: desk, to: expert, type: hard, payload: {type: object},
     writes: {memo: "${handoff.query}"}}
flow: {handoffs: {start: desk}}
"""
NEW = "4711"
"""What every changed place says."""
TURNS: list[dict[str, Any]] = [
    {"user": "Hello", "replies": {"desk": "Hi."}},
    {
        "user": "How long?",
        "replies": {
            "desk": [
                {"calls": [{"look_up": {"way": "north"}}]},
                {"handoff": {"to": "expert", "query": "How far?", "payload": {"km": 8}}},
            ],
            "expert": "One hour.",
        },
        "tool_results": {"look_up": {"km": 8}},
    },
    {"user": "Thanks", "replies": {"desk": "Bye."}},
]


def is_an_hour(view: View) -> bool:
    """A predicate."""
    return bool(view.turns[1].reply == "One hour.")


class Place(NamedTuple):
    """One place of the trace, and how it is changed."""

    kind: type[e.AnyEvent]
    number: int
    """Which of the events of its kind, from 0."""
    change: Callable[[Any], Any]


def _says(event: Any) -> Any:
    return replace(event, message=replace(event.message, content=NEW, data=None))


def _asks(event: Any) -> Any:
    (call,) = event.message.calls
    return replace(event, message=replace(event.message, calls=(replace(call, args={"way": NEW}),)))


def _section_change(section: str) -> Callable[[Any], Any]:
    def change(event: Any) -> Any:
        parts = [
            replace(part, message=replace(part.message, content=NEW))
            if part.section == section
            else part
            for part in event.parts
        ]
        return replace(event, parts=tuple(parts))

    return change


def _named(event: Any) -> Any:
    parts = [
        replace(part, section=NEW, message=replace(part.message, section=NEW))
        if part.section == "known"
        else part
        for part in event.parts
    ]
    return replace(event, parts=tuple(parts))


def _weighs(event: Any) -> Any:
    parts = [
        replace(part, tokens=4711) if part.section == "known" else part for part in event.parts
    ]
    return replace(event, parts=tuple(parts))


def _says_that(**changes: Any) -> Callable[[Any], Any]:
    return lambda event: replace(event, **changes)


def _writes(event: Any) -> Any:
    return replace(event, update={**event.update, "topic": NEW})


def _notes(event: Any) -> Any:
    return replace(event, update={**event.update, "memo": NEW})


ANSWER: dict[str, Any] = {
    "question": "Is it long?", "form": "choice", "choices": ("yes", "no"), "answer": "no",
}  # fmt: skip
LEFT = e.Shortened("known", "max", "topic", "", 0, 4)
PLACES = {
    "judge": Place(e.JudgeAnswered, 0, _says_that(answer="yes")),
    "turn 1: user": Place(e.MessageAdded, 0, _says),
    "turn 1: reply": Place(e.TurnFinished, 0, _says_that(reply=NEW)),
    "turn 1: said": Place(e.MessageAdded, 1, _says),
    "turn 1: input": Place(e.AgentStarted, 0, _says_that(input=NEW)),
    "turn 1: output": Place(e.AgentFinished, 0, _says_that(output=NEW)),
    "turn 1: instructions": Place(e.ContextBuilt, 0, _section_change("instructions")),
    "turn 1: tokens": Place(e.ContextBuilt, 0, _says_that(tokens=4711)),
    "turn 1: topic": Place(e.StateUpdated, 1, _writes),
    "user": Place(e.MessageAdded, 2, _says),
    "desk: agent": Place(e.AgentStarted, 1, _says_that(agent="expert")),
    "desk: instructions": Place(e.ContextBuilt, 1, _section_change("instructions")),
    "desk: known": Place(e.ContextBuilt, 1, _section_change("known")),
    "desk: current message": Place(e.ContextBuilt, 1, _section_change("current_message")),
    "desk: section": Place(e.ContextBuilt, 1, _named),
    "desk: size of a part": Place(e.ContextBuilt, 1, _weighs),
    "expert: call": Place(e.ContextBuilt, 3, _says_that(agent="desk")),
    "desk: tools": Place(e.ContextBuilt, 1, _says_that(tools=(NEW,), definitions=())),
    "desk: tools, call 2": Place(e.ContextBuilt, 2, _says_that(tools=(NEW,), definitions=())),
    "look_up: description": Place(e.ToolDefined, 0, _says_that(description=NEW)),
    "look_up: schema": Place(e.ToolDefined, 0, _says_that(parameters={"type": NEW})),
    "look_up: strict": Place(e.ToolDefined, 0, _says_that(strict=True)),
    "desk: handoffs": Place(e.ContextBuilt, 1, _says_that(handoffs=(NEW,))),
    "desk: handoffs, call 2": Place(e.ContextBuilt, 2, _says_that(handoffs=(NEW,))),
    "desk: tokens": Place(e.ContextBuilt, 1, _says_that(tokens=4711)),
    "desk: tokens, call 2": Place(e.ContextBuilt, 2, _says_that(tokens=4711)),
    "desk: settings": Place(e.ContextBuilt, 1, _says_that(settings={"temperature": NEW})),
    "desk: left out": Place(e.ContextBuilt, 1, _says_that(left_out=(LEFT,))),
    "desk: asks": Place(e.MessageAdded, 3, _asks),
    "tool: args": Place(e.ToolCalled, 0, _says_that(args={"way": NEW})),
    "tool: result": Place(e.ToolReturned, 0, _says_that(result=NEW)),
    "tool: message": Place(e.MessageAdded, 4, _says),
    "handoff: type": Place(e.HandoffRequested, 0, _says_that(type=NEW)),
    "handoff: payload": Place(e.HandoffRequested, 0, _says_that(payload={"km": NEW})),
    "handoff: query": Place(e.HandoffRequested, 0, _says_that(query=NEW)),
    "handoff: mode": Place(e.HandoffMade, 0, _says_that(mode="delegate")),
    "handoff: time": Place(e.HandoffMade, 0, _says_that(at=4711)),
    "handoff: memo": Place(e.StateUpdated, 3, _notes),
    "expert: instructions": Place(e.ContextBuilt, 3, _section_change("instructions")),
    "expert: handoff": Place(e.ContextBuilt, 3, _section_change("handoff")),
    "expert: said": Place(e.MessageAdded, 7, _says),
    "expert: topic": Place(e.StateUpdated, 4, _writes),
    "reply": Place(e.TurnFinished, 1, _says_that(reply=NEW)),
    "error": Place(e.TurnFinished, 1, _says_that(error=e.ErrorFacts(NEW, NEW))),
    "log": Place(e.LogRecorded, 0, _says_that(message=NEW)),
    "log: level": Place(e.LogRecorded, 0, _says_that(level="ERROR")),
    "effect": Place(e.UncontrolledEffect, 0, _says_that(turn=1)),
    "asked": Place(e.TurnFinished, 1, _says_that(waits_for="r2")),
    "turn 3: user": Place(e.MessageAdded, 8, _says),
    "turn 3: said": Place(e.MessageAdded, 9, _says),
    "turn 3: topic": Place(e.StateUpdated, 6, _writes),
    "turn 3: tools": Place(e.ContextBuilt, 4, _says_that(tools=(NEW,), definitions=())),
    "turn 3: output": Place(e.AgentFinished, 3, _says_that(output=NEW)),
    **{
        f"desk: {name}": Place(kind, 1, _says_that(**{field: value_of(name, 4711)}))
        for name, (kind, field) in RECORDED.items()
    },
}


class Row(NamedTuple):
    """A claim on the second turn, which holds, and the places that it speaks of."""

    claim: dict[str, Any]
    places: str
    """Separated by `; `."""


def _context(name: str, matcher: Any, places: str) -> Row:
    return Row({"context": {"desk": {name: matcher}}}, places)


def _run(agent: str, name: str, matcher: Any, places: str) -> Row:
    return Row({"runs": {agent: {name: matcher}}}, places)


def whole(value: Any) -> Any:
    """A matcher of a value; names in plain texts would be checked."""
    return {"$regex": f"^{value}$"} if isinstance(value, str) else value


TEXTS = ["You are the desk.", "bikes", "Hi.", "How long?"]
LOG = [{"content": text} for text in ("Hello", "Hi.", "How long?", "One hour.")]
FIRST = "turn 1: said; desk: current message; desk: instructions; desk: known"
CLAIMS = {
    "agents": Row({"agents": ["desk", "expert"]}, "desk: agent"),
    "reply": Row({"reply": "One hour."}, "reply"),
    "state": Row(
        {"state": {"topic": "trains", "messages": LOG}},
        "turn 1: user; turn 1: said; user; expert: said; expert: topic",
    ),
    "handoffs": Row(
        {"handoffs": [{"from": "desk", "to": "expert", "type": "hard", "payload": {"km": 8}}]},
        "handoff: type; handoff: payload",
    ),
    "handoffs: the words and who goes on": Row(
        {"handoffs": [{"query": "How far?", "mode": "transfer"}]}, "handoff: query; handoff: mode"
    ),
    "tool_calls": Row(
        {"tool_calls": [{"tool": "look_up", "args": {"way": "north"}, "result": {"km": 8}}]},
        "tool: args; tool: result",
    ),
    "model_calls": Row({"model_calls": {"desk": 2, "expert": 1}}, "expert: call"),
    "logs": Row({"logs": [{"message": "Looking."}]}, "log"),
    "logs: how grave": Row({"logs": [{"level": "INFO"}]}, "log: level"),
    "events: when": Row(
        {"events": {"$has": {"kind": "HandoffMade", "at": {"$lt": 1000}}}}, "handoff: time"
    ),
    "events": Row(
        {"events": {"$has": {"kind": "ToolReturned", "result": {"km": 8}}}}, "tool: result"
    ),
    "findings": Row({"findings": ["RUN-02"]}, "effect"),
    "error": Row({"error": None}, "error"),
    "interrupt": Row({"interrupt": None}, "asked"),
    "judge": Row({"judge": {"Is it long?": "no"}}, "judge"),
    "satisfies": Row({"satisfies": "tests.checks.test_sensitivity:is_an_hour"}, "reply"),
    "context.sections": _context(
        "sections", ["instructions", "known", "history", "current_message"], "desk: section"
    ),
    "context.messages": _context("messages", TEXTS, FIRST),
    "context.includes": _context("includes", TEXTS, FIRST),
    "context.excludes": _context(
        "excludes", [{"$contains": NEW}],
        f"{FIRST}; desk: asks; tool: message",
    ),
    "context.dropped": _context("dropped", [{"user": "Hello"}], "turn 1: user"),
    "context.left_out": _context("left_out", [], "desk: left out"),
    "context.tools": _context(
        "tools", ["look_up"], "desk: tools; desk: tools, call 2; expert: call"
    ),
    "context.tools: definitions": _context(
        "tools", [{"description": "Looks up.", "parameters": {"type": "object"}, "strict": False}],
        "desk: tools; desk: tools, call 2; expert: call; look_up: description; look_up: schema; "
        "look_up: strict",
    ),
    "context.handoffs": _context(
        "handoffs", ["expert"], "desk: handoffs; desk: handoffs, call 2; expert: call"
    ),
    "context.tokens": _context("tokens", {"$lt": 1000}, "desk: tokens; desk: tokens, call 2"),
    # A section that is not there has none of the tokens, and keeps a bound.
    "context.share": _context("share", {"known": {"$lt": 0.5}}, "desk: size of a part"),
    "context.prefix": _context(
        "prefix", {"tokens": {"$gte": 14}},
        "turn 1: instructions; desk: instructions; desk: tools; desk: tools, call 2; "
        "look_up: description; expert: call",
    ),
    "context.settings": _context("settings", {"temperature": 0}, "desk: settings"),
    "context.<section>": _context("known", ["bikes"], "desk: known; desk: section"),
    "runs.received": _run("desk", "received", {"topic": "bikes"}, "turn 1: topic; desk: agent"),
    "runs.received: of a handoff": _run(
        "expert", "received", {"memo": "How far?"}, "handoff: memo; desk: agent"
    ),
    "runs.update: of a handoff": _run(
        "desk", "update", {"memo": "How far?"}, "handoff: memo; desk: agent"
    ),
    "runs.update": _run("expert", "update", {"topic": "trains"}, "expert: topic; desk: agent"),
    "runs.reply": _run("expert", "reply", "One hour.", "expert: said; desk: agent"),
    "runs.messages": _run(
        "desk", "messages", [{"calls": [{"args": {"way": "north"}}]}, {"content": {"km": 8}},
                             {"calls": {"$len": 1}}, "Transferred to expert."],
        "desk: asks; tool: message; desk: agent",
    ),
}  # fmt: skip
CLAIMS |= {
    f"runs.{name}": _run("desk", name, whole(value_of(name, 2)), f"desk: {name}; desk: agent")
    for name in RECORDED
}


_SAYS_NEW = {"$regex": f"^.*{NEW}"}
DENIALS = {
    "no result by an expression": Row(
        {"tool_calls": {"$not": {"$has": {"result": _SAYS_NEW}}}}, "tool: result"
    ),
    "no arguments by an expression": Row(
        {"tool_calls": {"$not": {"$has": {"args": _SAYS_NEW}}}}, "tool: args"
    ),
    "no call by an expression": Row(
        {"tool_calls": {"$not": {"$has": _SAYS_NEW}}}, "desk: asks; tool: args; tool: result"
    ),
    "no payload by an expression": Row(
        {"handoffs": {"$not": {"$has": {"payload": _SAYS_NEW}}}}, "handoff: payload"
    ),
    "no state by an expression": Row(
        {"state": {"$not": _SAYS_NEW}},
        "turn 1: user; turn 1: said; user; expert: said; expert: topic; handoff: memo",
    ),
    "no message asks by an expression": Row(
        {"context": {"desk": {"excludes": [_SAYS_NEW]}}}, f"{FIRST}; desk: asks; tool: message"
    ),
}  # fmt: skip
"""Claims that deny something that a text, a list or a mapping says."""


@pytest.fixture(scope="module")
def events() -> list[e.AnyEvent]:
    """The events of a run, with what only others have: settings, goals, a log record, an effect."""
    ready = prepared(PIPELINE, f"turns: {json.dumps(TURNS)}")
    result: list[e.AnyEvent] = []
    for event in run(ready).events:
        if isinstance(event, e.RunStarted):
            facts = replace(event.pipeline, observes=(*event.pipeline.observes, "logs"))
            result.append(replace(event, pipeline=facts))
        elif isinstance(event, e.ContextBuilt):
            result.append(replace(event, settings={"temperature": 0}))
        else:
            result.append(recorded(event))
        if isinstance(event, e.AgentStarted) and event.run == "r2":
            acting: dict[str, Any] = {"turn": 2, "agent": "desk", "run": "r2", "session": "s1"}
            result += [
                e.TurnInterrupted(event.at, **acting, question="Sure?"),
                e.LogRecorded(event.at, **acting, level="INFO", logger="desk", message="Looking."),
                e.UncontrolledEffect(event.at, **acting, effect="a thread", where="desk.py:1"),
                e.JudgeAnswered(event.at, turn=2, session="s1", **ANSWER),
            ]
    return result


def _changed(events: list[e.AnyEvent], place: Place) -> list[e.AnyEvent]:
    at = [index for index, event in enumerate(events) if type(event) is place.kind][place.number]
    return [*events[:at], place.change(events[at]), *events[at + 1 :]]


def _claiming(claim: dict[str, Any]) -> Prepared:
    turns = [dict(turn) for turn in TURNS]
    turns[1]["expect"] = claim
    return prepared(PIPELINE, f"judge: openai/gpt-5-mini\nturns: {json.dumps(turns)}")


def _is_red(ready: Prepared, events: list[e.AnyEvent]) -> bool:
    trace = Trace()
    for event in events:
        trace.emit(event)
    findings = judge(ready.scenario, ready.document, trace, function_named).judgement.findings
    return any(finding.path[:3] == ("turns", 1, "expect") for finding in findings)


def test_every_kind_of_claim_has_a_row() -> None:
    kinds = {name for name in TURN_CLAIMS if name not in ("context", "runs")}
    kinds |= {f"context.{name}" for name in (*CONTEXT_CLAIMS, "<section>")}
    kinds |= {f"runs.{name}" for name in RUN_CLAIMS}

    without = kinds - {kind.split(":")[0] for kind in CLAIMS}

    assert not without, (
        f"say in the rows of {without} where their value is `recorded_in`; or add them to CLAIMS, "
        "with the PLACES that break them when they change"
    )


@pytest.mark.parametrize("kind", [*CLAIMS, *DENIALS])
def test_a_claim_is_red_where_a_place_it_speaks_of_changes_and_nowhere_else(
    kind: str, events: list[e.AnyEvent]
) -> None:
    claim, places = {**CLAIMS, **DENIALS}[kind]
    ready = _claiming(claim)

    assert not _is_red(ready, events)
    red = {name for name, place in PLACES.items() if _is_red(ready, _changed(events, place))}

    assert red, "a claim that no change breaks proves nothing: add to PLACES what would break it"
    assert red == set(places.split("; "))


def test_every_place_changes_the_trace(events: list[e.AnyEvent]) -> None:
    assert [name for name, place in PLACES.items() if _changed(events, place) == events] == []
