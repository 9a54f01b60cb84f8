"""RUN-03 over every kind of claim and every way to deny: a value that occurs somewhere else in the
run proves something, one that occurs nowhere proves nothing, and a claim that fails is no more.

A kind of claim without a row fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple

import pytest
from msgspec.structs import replace

from simkit.checks.findings import CLAIM
from simkit.checks.judge import judge
from simkit.runtime.functions import function_named
from simkit.session.simulate import run
from simkit.spec.scenario.claims import CONTEXT_CLAIMS, RUN_CLAIMS, TURN_CLAIMS, Expect
from simkit.trace import events as e
from simkit.trace.store import Trace
from tests.building import prepared
from tests.checks.recorded_claims import RECORDED, recorded, value_of

PIPELINE = """
channels:
  messages: {reducer: append, scope: session}
  topic: {scope: session}
  tips: {reducer: append, scope: session}
agents:
  desk:
    instructions: You are the desk.
    tools: [look_up]
    handoffs: [expert]
    context:
      - instructions
      - history: {from: log, filters: [tool_messages]}
      - recall: {from: tips, max: 1}
      - current_message
    writes: {topic: bikes}
  expert:
    instructions: You are the expert.
    tools: [count]
    context:
      - instructions
      - history: {from: log, window: {messages: 1}}
      - recall: {name: known, from: tips, tokens: 2}
      - handoff
      - current_message
    writes: {messages: ["${run.final_message}"], topic: trains}
tools: {look_up: {description: Looks up., args: {type: object}}, count: {args: {type: object}}}
contracts:
  - {from: desk, to: expert, type: hard, payload: {type: object}}
flow: {handoffs: {start: desk}}
"""
TURNS: list[dict[str, Any]] = [
    {
        "user": "How long?",
        "replies": {
            "desk": [
                {"calls": [{"look_up": {"way": "north"}}]},
                {"handoff": {"to": "expert", "payload": {"km": 8}}},
            ],
            "expert": [{"calls": [{"count": {"way": "south"}}]}, "One hour."],
        },
        "tool_results": {"look_up": {"km": 8}, "count": {"km": 9}},
    },
    {
        "user": "Thanks",
        "replies": {"desk": [{"calls": [{"look_up": {"way": "west"}}]}, "Bye."]},
        "tool_results": {"look_up": {"km": 7}},
    },
]
TIPS = [{"text": "Go early"}, {"text": "Take water"}]


class Row(NamedTuple):
    """Three values of one kind, and where a claim denies them of the second turn's desk."""

    path: str
    present: Any
    """A value that is there: denying it fails."""
    other: Any
    """A value that is in the run, but not there."""
    nowhere: Any
    is_list: bool = True


def _desk(name: str, present: Any, other: Any, nowhere: Any, *, is_list: bool = True) -> Row:
    return Row(f"context.desk.{name}", present, other, nowhere, is_list)


NO = "zzz"
OF_EXPERT = {"role": "tool", "tool": "count"}
ROWS: dict[str, Row] = {
    "context.messages: role": _desk(
        "messages", {"role": "tool"}, {"section": "handoff"}, {"role": "tool", "tool": NO}
    ),
    "context.messages: text": _desk("messages", "Thanks", "You are the expert.", "One hour"),
    "context.messages: call": _desk(
        "messages",
        {"calls": {"$has": [{"tool": "look_up"}]}},
        {"calls": {"$has": [{"tool": "count", "args": {"way": "south"}}]}, "section": "run"},
        {"calls": {"$has": [{"tool": NO}]}},
    ),
    "context.section": _desk("run", {"role": "tool"}, {"role": "user"}, {"id": NO}),
    "context.sections": _desk("sections", "run", "handoff", "known"),
    "context.dropped": _desk(
        "dropped", {"by": "tool_messages"}, {"by": "window"}, {"by": "intermediate_ai"}
    ),
    "context.dropped: what": _desk(
        "dropped", {"what": "message", "role": "tool"}, {"role": "user"}, {"what": "content"}
    ),
    "context.left_out": _desk("left_out", {"by": "max"}, {"by": "tokens"}, {"by": "preview"}),
    "context.left_out: section": _desk(
        "left_out", {"section": "recall"}, {"section": "known"}, {"section": "run"}
    ),
    "context.tools": _desk("tools", "look_up", "count", NO),
    "context.tools: definition": _desk(
        "tools", {"description": "Looks up."}, {"name": "count"}, {"description": NO}
    ),
    "context.handoffs": _desk("handoffs", "expert", "desk", NO),
    "context.tokens": _desk("tokens", 42, 16, 4711, is_list=False),
    "context.settings": _desk(
        "settings", {"heat": 0.25}, {"heat": 0.75}, {"heat": 0.5}, is_list=False
    ),
    "runs.messages": Row(
        "runs.desk.messages", {"role": "tool"}, OF_EXPERT, {"role": "tool", "tool": NO}
    ),
    **{
        f"runs.{name}": Row(
            f"runs.desk.{name}", value_of(name, 2), value_of(name, 1), value_of(name, 3),
            is_list=False,
        )
        for name in RECORDED
    },
    "runs.reply": Row("runs.desk.reply", "Bye.", "One hour.", NO, is_list=False),
    "runs.update": Row(
        "runs.desk.update", {"topic": "bikes"}, {"topic": "trains"}, {"topic": NO}, is_list=False
    ),
    "runs.received": Row(
        "runs.desk.received", {"topic": "trains"}, {"topic": None}, {"topic": NO}, is_list=False
    ),
    "agents": Row("agents", "desk", "expert", NO),
    "reply": Row("reply", "Bye.", "One hour.", NO, is_list=False),
    "state": Row("state", {"topic": "bikes"}, {"topic": "trains"}, {"topic": NO}, is_list=False),
    "handoffs": Row("handoffs", None, {"to": "expert", "outcome": "made"}, {"type": NO}),
    "tool_calls": Row(
        "tool_calls", {"tool": "look_up"}, {"tool": "count", "asked": True}, {"tool": NO}
    ),
    "logs": Row("logs", {"level": "WARNING"}, {"level": "INFO"}, {"level": "ERROR"}),
    "events": Row("events", {"kind": "TurnFinished"}, {"kind": "HandoffMade"}, {"limit": NO}),
}  # fmt: skip
EXEMPT: Final = {
    "context.includes": "it affirms",
    "context.excludes": "every row of messages is denied with it, too",
    "context.prefix": "a measure, which has every request but the first",
    "context.share": "a share is a measure: what has none has 0",
    "findings": "it affirms",
    "model_calls": "a number, which no matcher denies",
    "satisfies": "a function",
    "judge": "an answer that was given, which is never absent",
    "error": "the run that is judged has none",
    "interrupt": "the run that is judged has none",
    "context": "its claims have rows", "runs": "its claims have rows",
}  # fmt: skip

LISTS: Final[dict[str, Callable[[Any], Any]]] = {
    "$not $has": lambda item: {"$not": {"$has": [item]}},
    "$not $has one": lambda item: {"$not": {"$has": item}},
    "$each $not": lambda item: {"$each": {"$not": item}},
    "$not $in_order": lambda item: {"$not": {"$in_order": [item]}},
    "$not $either": lambda item: {"$not": {"$either": [{"$has": [item]}, {"$has": item}]}},
    "$all $not": lambda item: {"$all": [{"$not": {"$all": [{"$has": [item]}]}}]},
    "$has $either": lambda item: {"$not": {"$has": {"$either": [item]}}},
}
VALUES: Final[dict[str, Callable[[Any], Any]]] = {
    "$not": lambda item: {"$not": item},
    "$not $in": lambda item: {"$not": {"$in": [item]}},
    "$not $either": lambda item: {"$not": {"$either": [item, item]}},
    "$all $not": lambda item: {"$all": [{"$not": {"$all": [item]}}]},
}
AFFIRMING: Final[dict[str, Callable[[Any], Any]]] = {
    "$not $not": lambda item: {"$not": {"$not": item}},
    "$not $each $not": lambda item: {"$not": {"$each": {"$not": item}}},
}


def _denials() -> Iterator[tuple[str, str]]:
    for name, row in ROWS.items():
        yield from ((name, way) for way in (LISTS if row.is_list else VALUES))
        if name.startswith("context.messages"):
            yield name, "excludes"


def _claim(row: Row, way: str, value: Any) -> dict[str, Any]:
    """The claim, as it stands under `expect`, that denies a value in some way."""
    if way == "excludes":
        return {"context": {"desk": {"excludes": [value]}}}
    ways = LISTS if row.is_list else VALUES
    claim = (ways.get(way) or AFFIRMING[way])(value)
    for step in reversed(row.path.split(".")):
        claim = {step: claim}
    return claim


@cache
def _ran() -> tuple[Any, Trace]:
    ready = prepared(
        PIPELINE, f"given: {json.dumps({'state': {'tips': TIPS}})}\nturns: {json.dumps(TURNS)}\n"
    )
    trace = Trace()
    for event in run(ready).events:
        for item in _as_of_code(event):
            trace.emit(item)
    return ready, trace


def _as_of_code(event: e.AnyEvent) -> Iterator[e.AnyEvent]:
    """What only other pipelines have: settings, goals and log records."""
    if isinstance(event, e.RunStarted):
        facts = replace(event.pipeline, observes=(*event.pipeline.observes, "logs"))
        event = replace(event, pipeline=facts)
    if isinstance(event, e.ContextBuilt):
        event = replace(event, settings={"heat": 0.25 if event.agent == "desk" else 0.75})
    yield recorded(event)
    if isinstance(event, e.TurnStarted):
        acting: dict[str, Any] = {"session": event.session, "turn": event.turn}
        level = "INFO" if event.turn == 1 else "WARNING"
        yield e.LogRecorded(event.at, **acting, level=level, logger="desk", message="Looking.")


def _judged(claim: dict[str, Any]) -> tuple[int, int]:
    """Returns how many claims fail, and how many prove nothing."""
    ready, trace = _ran()
    turns = ready.scenario.turns
    last = turns[-1].model_copy(update={"expect": Expect.model_validate(claim)})
    scenario = ready.scenario.model_copy(update={"turns": (*turns[:-1], last)})
    judgement = judge(scenario, ready.document, trace, function_named).judgement
    failing = [finding for finding in judgement.findings if finding.id == CLAIM]
    return len(failing), sum(warning.id == "RUN-03" for warning in judgement.warnings)


@pytest.mark.parametrize(("name", "way"), [*_denials()])
def test_a_denial_proves_something_where_its_value_is_somewhere(name: str, way: str) -> None:
    row = ROWS[name]

    assert _judged(_claim(row, way, row.other)) == (0, 0)
    assert _judged(_claim(row, way, row.nowhere)) == (0, 1)
    if row.present is not None:
        assert _judged(_claim(row, way, row.present)) == (1, 0)


@pytest.mark.parametrize("name", ROWS)
def test_who_denies_a_denial_affirms(name: str) -> None:
    row = ROWS[name]
    way = "$not $each $not" if row.is_list else "$not $not"

    for value in (row.other, row.nowhere, row.present or row.other):
        assert _judged(_claim(row, way, value))[1] == 0


def test_every_kind_of_claim_has_a_row() -> None:
    kinds = {
        *TURN_CLAIMS,
        *(f"context.{name}" for name in CONTEXT_CLAIMS),
        *(f"runs.{name}" for name in RUN_CLAIMS),
    }

    without = kinds - {name.split(":")[0] for name in ROWS} - {*EXEMPT}

    assert not without, (
        f"say in the rows of {without} where their value is `recorded_in`; or add them to ROWS: a "
        "value that is there, one that is elsewhere in the run, one that is nowhere"
    )
