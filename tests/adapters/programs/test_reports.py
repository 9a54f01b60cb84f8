"""Reports of a program: each mistake is answered with its place, and ends the run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simkit.adapters.programs.reports import ROOT
from simkit.providers.http import HttpRequest, HttpResponse
from tests.adapters.programs.test_served import URL, Program, judged

HEAD = """\
version: 1
pipeline: desk
program: desk
channels: {orders: {reducer: append, scope: turn}, count: {reducer: add}}
---
version: 1
scenario: s
pipeline: desk
"""
FIND = [{"type": "function", "function": {"name": "find"}}]
CLERK = ("started", {"agent": "clerk"})
END = ("finished", {"agent": "clerk"})
Report = tuple[str, Any]
MISTAKES: dict[str, tuple[list[Report], str]] = {
    "no JSON": (
        [("state", b"{oops")],
        "state: the body is no JSON: JSON is malformed: object keys must be strings "
        "(byte 1). Its keys: update, agent.",
    ),
    "deep JSON": ([("state", b"[" * 100_000)], "state: the body is no JSON: "),
    "no object": (
        [("state", ["orders"])],
        'state: the body is ["orders"], and must be an object. Its keys: update, agent.',
    ),
    "a key that is missing": (
        [("handoff", {"to": "boss"})],
        "handoff: Object missing required field `from`. "
        "Its keys: from, to, payload, type, query, refused.",
    ),
    "a key that is unknown": (
        [("started", {"agent": "clerk", "gaol": "sell"})],
        "started: unknown key `gaol`. Did you mean `goal`? Its keys: agent, input, goal, received.",
    ),
    "a value of another type": (
        [("started", {"agent": "clerk", "goal": 7})],
        "started: `goal` is 7. Expected `str`, got `int`. Its keys: agent, input, goal, received.",
    ),
    "an empty name": (
        [("tool", {"tool": ""})],
        'tool: `tool` is "". Expected `str` of length >= 1. Its keys: tool, args, call_id.',
    ),
    "a value that a channel cannot take": (
        [("state", {"update": {"count": "one"}})],
        "state: `update.count`: reducer `add` takes a number, not 'one'",
    ),
    "the state of an agent that did not work": (
        [CLERK, ("state", {"agent": "clark", "update": {"count": 1}})],
        "state: `agent`: 'clark' was not at work in this turn. "
        "Did you mean `clerk`? Those that were: clerk.",
    ),
    "the end of an agent that has not begun": (
        [END],
        "finished: `agent`: 'clerk' is not at work in this turn. At work: none.",
    ),
    "a second end": (
        [CLERK, END, END],
        "finished: `agent`: 'clerk' is not at work in this turn. At work: none.",
    ),
    "the end of another agent": (
        [CLERK, ("finished", {"agent": "clark"})],
        "finished: `agent`: 'clark' is not at work in this turn. "
        "Did you mean `clerk`? At work: clerk.",
    ),
    "a channel that nobody declares": (
        [("started", {"agent": "clerk", "received": {"ordres": []}})],
        "started: `received`: the pipeline's file declares no channel 'ordres'. "
        "Did you mean `orders`? Channels: orders, count.",
    ),
    "a handoff from nobody": (
        [CLERK, ("handoff", {"from": "clark", "to": "boss"})],
        "handoff: `from`: 'clark' was not at work in this turn. "
        "Did you mean `clerk`? Those that were: clerk.",
    ),
    "a call that no model made": (
        [("tool", {"tool": "find", "call_id": "call_9"})],
        "tool: `call_id`: no model has asked for a tool under 'call_9'. "
        "Leave it out where the program calls the tool by itself.",
    ),
    "another tool than was asked for": (
        [("tool_result", {"tool": "fnd", "call_id": "call_000000000000000000000001"})],
        "tool_result: `tool`: under 'call_000000000000000000000001' a model "
        "asked for 'find', not for 'fnd'",
    ),
    "a result and an error": (
        [("tool_result", {"tool": "find", "result": 1, "error": "gone"})],
        "tool_result: a tool has either a `result` or an `error`, and this one has both",
    ),
    "a report of no kind": (
        [("stated", {"update": {}})],
        "stated: unknown report. "
        "Did you mean POST /simkit/started? Known: POST /simkit/started, POST",
    ),
}
"""What a program reports, the mistake last, and what is answered."""


def report(program: Program, kind: str, body: Any) -> HttpResponse:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = program.run.take(HttpRequest("POST", f"{URL}{ROOT}{kind}", (), data))
    assert isinstance(response, HttpResponse)
    return response


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_report_is_answered_and_ends_the_run(name: str) -> None:
    reports, says = MISTAKES[name]
    program = Program("turns: [{user: hi, replies: {clerk: {calls: [{find: {}}]}}}]", HEAD)
    program.begins()
    if "asked for" in name:
        program.asks("hi", prefix="/agents/clerk", tools=FIND)

    answers = [report(program, *each) for each in reports]

    assert [answer.status for answer in answers] == [200] * (len(reports) - 1) + [400]
    message = json.loads(answers[-1].body)["error"]["message"]
    assert message.startswith(f"POST /simkit/{says}")
    assert program.run.problem == message


RECEIVED = "{count: 1, orders: {$absent: true}}"


def claimed_of(claim: str, started: Report) -> list[str]:
    """What is wrong with a claim on what the clerk received, where the state has a count of 1."""
    scenario = f"turns: [{{user: hi, expect: {{runs: {{clerk: {{received: {claim}}}}}}}}}]"
    program = Program(scenario, HEAD)
    program.begins()
    for kind, body in [("state", {"update": {"count": 1}}), started, END, ("reply", {"reply": ""})]:
        assert report(program, kind, body).status == 200
    return judged(program)


def test_a_program_received_what_it_reports() -> None:
    reported = ("started", {"agent": "clerk", "received": {"count": 1}})

    assert claimed_of(RECEIVED, reported) == []
    assert claimed_of("{count: 2}", reported) == ["claim: runs.clerk.received does not match"]


@pytest.mark.parametrize("claim", ["{count: 1}", "{count: {$absent: true}}", "{$not: {count: 2}}"])
def test_what_a_program_received_and_does_not_report_is_not_observable(claim: str) -> None:
    (sentence,) = claimed_of(claim, CLERK)

    assert sentence.startswith("claim: runs.clerk.received is not observable by driver 'served'")
    assert "the state that the code gave this run" in sentence
