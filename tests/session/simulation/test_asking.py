"""What a test may ask of a turn: whoever asks what can never be so is told, everywhere.

Each accessor of a turn and of a context has rows of three kinds: a misspelt name, a value of
another type, a matcher of another kind: comparing with it would say no whatever the run did.
"""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from simkit import Simulation
from simkit.matchers import (
    Expected,
    absent,
    anything,
    contains,
    gt,
    has,
    length,
    message,
    not_,
    partial,
    regex,
)
from simkit.session.simulation import SeenContext, TurnOutcome

PIPELINE = """\
version: 1
pipeline: support
channels:
  messages: {reducer: append, scope: session}
  notes: {reducer: append, scope: session}
agents:
  triage:
    instructions: You route.
    handoffs: [refunds]
    tools: [look_up]
    context:
      - instructions
      - notes: {max: 1}
      - history: {from: log, filters: [tool_messages], window: {messages: 3}}
      - current_message
  refunds: {instructions: You refund., tools: [pay]}
tools: {pay: {args: {type: object}}, look_up: {args: {type: object}}}
contracts:
  - {from: triage, to: refunds, type: refund, payload: {type: object, required: [order]}}
flow: {handoffs: {start: triage}}
"""
REFUND: dict[str, Any] = {
    "triage": [{"calls": {"look_up": {"order": 7}}},
               {"handoff": {"to": "refunds", "payload": {"order": 7}}}],
    "refunds": [{"calls": {"pay": {"amount": 40}}}, "You get 40 euros back."],
}  # fmt: skip
NOTES = [{"text": "Is a friend", "at": "2026-01-04T00:00:00Z"},
         {"text": "Is a foe", "at": "2026-01-03T00:00:00Z"}]  # fmt: skip


@pytest.fixture(scope="module")
def desk() -> Iterator[Simulation]:
    simulation = Simulation(PIPELINE, state={"notes": NOTES})
    simulation.say(
        "I want my money back", replies=REFUND, tool_results={"pay": "paid", "look_up": "late"}
    )
    simulation.say("Thanks", replies={"triage": [{"calls": {"look_up": {}}}, "Bye."]},
                   tool_results={"look_up": "none"})  # fmt: skip
    simulation.say("Well?", replies={"triage": {"error": "rate_limit"}})
    yield simulation
    simulation.close()


@pytest.fixture
def turns(desk: Simulation) -> list[TurnOutcome]:
    return [TurnOutcome(desk, number) for number in (1, 2, 3)]


Asking = Callable[[Any], Any]
PAIRS_BY_NAME: dict[str, tuple[tuple[Asking, str], ...]] = {
    "findings": (
        (lambda r: "CTX-1" not in r.findings, "unknown lint `CTX-1`; did you mean `CTX-"),
        (lambda r: partial({"id": "CTX-1"}) not in r.findings, "unknown lint `CTX-1`"),
        (lambda r: r.findings != ["CTX-1"], "unknown lint"),
        (lambda r: not_(has(partial({"id": "CTX-1"}))) == r.findings, "unknown lint"),
        (lambda r: 1 not in r.findings, "1 is never equal to a finding: write a lint's id"),
        (lambda r: gt(3) not in r.findings, "`$gt` can never match a finding"),
        (lambda r: r.findings != "CTX-01", "'CTX-01' is never equal to a list"),
    ),
    "tool_calls": (
        (lambda r: partial({"tool": "pai"}) not in r.tool_calls, "did you mean `pay`?"),
        (lambda r: partial({"tol": "pay"}) not in r.tool_calls, "did you mean `tool`?"),
        (lambda r: [call for call in r.tool_calls if call["tool"] == "pai"] == [], "unknown tool"),
        (lambda r: "pai" not in [call["tool"] for call in r.tool_calls], "unknown tool `pai`"),
        (lambda r: not_(has(partial({"tool": "pai"}))) == r.tool_calls, "unknown tool `pai`"),
        (lambda r: r.tool_calls == not_(has(partial({"tool": "pai"}))), "unknown tool `pai`"),
        (lambda r: r.tool_calls[0] != partial({"tool": "pai"}), "unknown tool `pai`"),
        (lambda r: partial({"tool": "pai"}) != r.tool_calls[0], "unknown tool `pai`"),
        (lambda r: r.tool_calls[0].get("tol") is None, "unknown field of a tool call `tol`"),
        (lambda r: "tol" not in r.tool_calls[0], "unknown field of a tool call `tol`"),
        (lambda r: "pay" not in r.tool_calls, "write `partial({\"tool\": …})`"),
        (lambda r: {"tool": "pay"} not in r.tool_calls, "which has `agent` too: write `partial"),
        (lambda r: r.tool_calls != [{"tool": "pay"}], "which has `agent` too"),
        (lambda r: r.tool_calls[0] != "pay", "'pay' is never equal to a tool call"),
        (lambda r: r.tool_calls.count("pay") == 0, "never equal to a tool call"),
        (lambda r: contains("pay") not in r.tool_calls[:1] and 7 not in r.tool_calls[1:], "7 is"),
        (lambda r: gt(3) not in r.tool_calls, "`$gt` can never match a tool call"),
    ),
    "handoffs": (
        (lambda r: partial({"to": "refuns"}) not in r.handoffs, "did you mean `refunds`?"),
        (lambda r: partial({"mode": "transfr"}) not in r.handoffs, "did you mean `transfer`?"),
        (lambda r: all(each["from"] != "triag" for each in r.handoffs), "did you mean `triage`?"),
        (lambda r: "refunds" not in r.handoffs, "write `partial({\"to\": …})`"),
        (lambda r: {"to": "refunds"} not in r.handoffs, "which has `from` too"),
        (lambda r: regex("refunds") not in r.handoffs and 1 in r.handoffs, "1 is never equal"),
        (lambda r: gt(3) not in r.handoffs, "`$gt` can never match a handoff"),
    ),
    "agents": (
        (lambda r: "refuns" not in r.agents, "did you mean `refunds`?"),
        (lambda r: r.agents != ["triag"], "did you mean `triage`?"),
        (lambda r: r.agents[0] != "triag", "did you mean `triage`?"),
        (lambda r: r.agents.count("refuns") == 0, "did you mean `refunds`?"),
        (lambda r: r.agents != "triage", "'triage' is never equal to a list"),
        (lambda r: 7 not in r.agents, "7 can never match an agent's name"),
        (lambda r: partial({"to": "x"}) not in r.agents, "can never match an agent's name"),
    ),
    "model_calls": (
        (lambda r: "refuns" not in r.model_calls, "did you mean `refunds`?"),
        (lambda r: r.model_calls.get("refuns", 0) == 0, "did you mean `refunds`?"),
        (lambda r: r.model_calls["refuns"] == 0, "did you mean `refunds`?"),
        (lambda r: r.model_calls != {"triag": 1}, "did you mean `triage`?"),
        (lambda r: r.model_calls != partial({"triag": 1}), "did you mean `triage`?"),
        (lambda r: r.model_calls != 3, "3 is never equal to a mapping of each agent"),
    ),
    "state": (
        (lambda r: "mesages" not in r.state, "did you mean `messages`?"),
        (lambda r: r.state.get("mesages") is None, "did you mean `messages`?"),
        (lambda r: r.state["mesages"] is None, "did you mean `messages`?"),
        (lambda r: r.state != partial({"mesages": length(2)}), "did you mean `messages`?"),
        (lambda r: r.state == partial({"mesages": absent()}), "did you mean `messages`?"),
        (lambda r: "Hello" not in r.state["messages"], "'Hello' is never equal to a message"),
        (lambda r: r.state != "x", "'x' is never equal to a mapping of each channel"),
        (lambda r: r.state != gt(3), "`$gt` can never match the state"),
    ),
    "events": (
        (lambda r: partial({"kind": "ToolCaled"}) not in r.events, "did you mean `ToolCalled`?"),
        (lambda r: partial({"kin": "ToolCalled"}) not in r.events, "did you mean `kind`?"),
        (lambda r: partial({"agent": "refuns"}) not in r.events, "did you mean `refunds`?"),
        (lambda r: "ToolCalled" not in r.events, "write `partial({\"kind\": …})`"),
        (lambda r: gt(3) not in r.events, "`$gt` can never match an event"),
    ),
    "logs": (),
    "error": (
        (lambda r: r.error is None or r.error != "rate_limt", "did you mean `rate_limit`?"),
        (lambda r: r.error is None or r.error.type != "rate_limt", "did you mean `rate_limit`?"),
        (lambda r: r.error is None or r.error != {"type": "x"}, "write `partial({\"type\": …})`"),
        (lambda r: r.error is None or r.error != 429, "429 is never equal to an error"),
        (lambda r: r.error is None or r.error != gt(3), "`$gt` can never match an error"),
    ),
    "context": (
        (lambda r: message(agent="refuns") not in r.context("triage", 0), "`refunds`?"),
        (lambda r: message(section="histry") not in r.context("triage", 0), "`history`?"),
        (lambda r: [m for m in r.context("triage", 0) if m.agent == "refuns"] == [], "`refunds`?"),
        (lambda r: [m for m in r.context("triage", 0) if m.section == "nots"] == [], "`notes`?"),
        (lambda r: [m for m in r.context("triage", 0) if m.role == "human"] == [], "`user`?"),
        (lambda r: r.context("triage", 0) != [message(agent="refuns")], "`refunds`?"),
        (lambda r: r.context("triage", 0)[0] != message(agent="refuns"), "`refunds`?"),
        (lambda r: r.context("triage", 0)[0] != "x", "'x' is never equal to a message"),
        (lambda r: r.context("triage", -1)[-2].calls[0] != "x", "never equal to a tool call"),
        (lambda r: not_(has(message(agent="refuns"))) == r.context("triage", 0), "`refunds`?"),
        (lambda r: "x" not in r.context("triage", 0), "write `message(user=…)` or `contains(…)`"),
        (lambda r: "x" not in list(r.context("triage", 0)), "never equal to a message"),
        (lambda r: "x" not in r.context("triage", 0)[1:], "never equal to a message"),
        (lambda r: r.context("triage", 0).count("x") == 0, "never equal to a message"),
        (lambda r: r.context("triage", 0) != "x", "'x' is never equal to a list"),
        (lambda r: gt(3) not in r.context("triage", 0), "`$gt` can never match a message"),
        (lambda r: anything not in r.context("triage", 0), "write `anything()`"),
        (lambda r: "look_up" not in r.context("triage", -1)[-2].calls, "`partial({\"tool\": …"),
        (lambda r: r.error or [c for m in r.context("triage", -1) for c in m.calls
                               if c.name == "lok_up"] == [], "`look_up`?"),
    ),
    "contexts": (
        (lambda r: "x" not in r.contexts("triage"), "look into each, `for context in run.contexts"),
        (lambda r: message(user="x") not in r.contexts("triage"), "can never match a list of"),
        (lambda r: r.contexts("triage") != gt(3) and gt(3) not in r.contexts("triage"), "`$gt`"),
        (lambda r: all("x" not in x for x in r.contexts("triage")), "never equal to a message"),
    ),
    "context.section": (
        (lambda r: r.context("triage", 0).section("histry") == [], "did you mean `history`?"),
        (lambda r: r.context("triage", 0).section("handoff") == [], "has no section `handoff`"),
        (lambda r: "x" not in r.context("triage", 0).section("notes"), "never equal to a message"),
        (lambda r: gt(3) not in r.context("triage", 0).section("notes"), "`$gt` can never match"),
    ),
    "context.sections": (
        (lambda r: "histry" not in r.context("triage", 0).sections, "did you mean `history`?"),
        (lambda r: r.context("triage", 0).sections != ["histry"], "did you mean `history`?"),
        (lambda r: 7 not in r.context("triage", 0).sections, "7 can never match a text"),
        (lambda r: gt(3) not in r.context("triage", 0).sections, "`$gt` can never match a text"),
    ),
    "context.tools": (
        (lambda r: "lok_up" not in r.context("triage", 0).tools, "did you mean `look_up`?"),
        (lambda r: {"name": "pay"} not in r.context("triage", 0).tools, "write its name, or `part"),
        (lambda r: partial({"naem": "pay"}) not in r.context("triage", 0).tools, "`name`?"),
        (lambda r: gt(3) not in r.context("triage", 0).tools, "`$gt` can never match a tool"),
    ),
    "context.handoffs": (
        (lambda r: "refuns" not in r.context("triage", 0).handoffs, "did you mean `refunds`?"),
        (lambda r: 7 not in r.context("triage", 0).handoffs, "7 can never match a text"),
        (lambda r: gt(3) not in r.context("triage", 0).handoffs, "`$gt` can never match a text"),
    ),
    "context.dropped": (
        (lambda r: partial({"by": "tool_mesages"}) not in r.context("triage", 0).dropped,
         "did you mean `tool_messages`?"),
        (lambda r: all(d.by != "tool_mesages" for d in r.context("triage", 0).dropped)
         and r.number == 1, "did you mean `tool_messages`?"),
        (lambda r: "late" not in r.context("triage", 0).dropped, "never equal to what was dropped"),
        (lambda r: gt(3) not in r.context("triage", 0).dropped, "`$gt` can never match what was"),
    ),
    "context.left_out": (
        (lambda r: partial({"channel": "note"}) not in r.context("triage", 0).left_out, "`notes`?"),
        (lambda r: all(x["by"] != "maxx" for x in r.context("triage", 0).left_out), "`max`?"),
        (lambda r: {"text": "x"} not in r.context("triage", 0).left_out, "which has `by` too"),
        (lambda r: gt(3) not in r.context("triage", 0).left_out, "`$gt` can never match what was"),
    ),
}  # fmt: skip
PLAIN = {
    *("reply", "interrupt", "judge", "number"),
    *("context.tokens", "context.prefix", "context.settings"),
}
"""What a turn has of the user's own, or of a judge: any value may be equal to it, or in it."""


def _accessors() -> set[str]:
    own = {name for name in vars(TurnOutcome) if not name.startswith("_")}
    inside = {f"context.{name}" for name in vars(SeenContext) if not name.startswith("_")}
    return {"number", *own, *inside}


def test_every_accessor_has_its_rows() -> None:
    assert _accessors() == {*PAIRS_BY_NAME, *PLAIN}


@pytest.mark.parametrize(
    ("asking", "expected"),
    [
        pytest.param(*row, id=f"{name}-{place}")
        for name, rows in PAIRS_BY_NAME.items()
        for place, row in enumerate(rows)
    ],
)
def test_what_could_never_be_so_is_refused_with_what_to_write(
    asking: Asking, expected: str, turns: list[TurnOutcome]
) -> None:
    """In one of the turns at least: where a list is empty, nothing in it is compared."""
    refused = []
    for turn in turns:
        try:
            asking(turn)
        except IndexError:
            continue  # The turn has none.
        except ValueError as problem:
            refused.append(str(problem))

    assert [text for text in refused if expected not in text] == []
    assert refused


DENIED: dict[str, Asking] = {
    "a finding": lambda r: "CTX-01" not in r.findings and "RUN-01" not in r.findings,
    "a tool call": lambda r: partial({"tool": "pay"}) not in r.tool_calls,
    "a tool call by its name": lambda r: (
        "pay" not in [tool_call["tool"] for tool_call in r.tool_calls]
    ),
    "a result, by an expression": lambda r: partial({"args": regex("4[0-9]")}) not in r.tool_calls,
    "a handoff": lambda r: partial({"to": "refunds"}) not in r.handoffs,
    "an agent": lambda r: "refunds" not in r.agents,
    "an agent's calls": lambda r: "refunds" not in r.model_calls,
    "an event": lambda r: partial({"kind": "HandoffMade"}) not in r.events,
    "a message in the state": lambda r: message(agent="refunds") not in r.state["messages"],
    "the state": lambda r: r.state != partial({"messages": has(message(agent="refunds"))}),
    "what an agent asks for": lambda r: (
        partial({"tool": "look_up"}) not in r.context("triage", -1)[-2].calls
    ),
    "what was said": lambda r: contains("money") not in r.context("triage", 0),
    "a section": lambda r: r.context("triage", -1).section("run") == [],
    "its name": lambda r: "run" not in r.context("triage", -1).sections,
    "what was left out": lambda r: partial({"by": "max"}) not in r.context("triage", 0).left_out,
}


@pytest.mark.parametrize("problem", [name for name in DENIED if name != "a finding"])
def test_a_denial_is_false_where_what_it_denies_is_there_and_true_where_it_is_not(
    problem: str, turns: list[TurnOutcome]
) -> None:
    quiet = Simulation(PIPELINE)
    turn = quiet.say("Hello", replies={"triage": "Hi."})

    assert not DENIED[problem](turns[0])
    assert DENIED[problem](turn) if problem != "what an agent asks for" else turn.tool_calls == []


def test_a_lint_is_denied_by_its_id() -> None:
    desk = Simulation(PIPELINE)
    run = desk.say("Hello", replies={"triage": ["Hi.", "Unused."]})

    assert "RUN-01" in run.findings
    assert "CTX-01" not in run.findings
    assert run.findings == ["RUN-01"] == [finding.id for finding in desk.findings]
    assert partial({"id": "RUN-01", "turn": 1}) in run.findings
    assert run.findings == has(partial({"id": "RUN-01"}))
    assert "RUN-01" in desk.judgement().findings
    with pytest.raises(ValueError, match=r"^unknown lint `RUN-1`; did you mean `RUN-01`\?$"):
        assert "RUN-1" not in desk.judgement().warnings


def test_what_is_looked_at_is_what_it_was(turns: list[TurnOutcome]) -> None:
    first = turns[0]
    context = first.context("refunds", -1)

    assert context[0] in context
    assert context[0] == context[:1][0] != context[1]
    assert [*context, *context[:1]] == context + context[:1]
    assert repr(context[0]).startswith("Message(role='system', content='You refund.'")
    assert json.loads(json.dumps(first.tool_calls)) == [
        dict(tool_call) for tool_call in first.tool_calls
    ]
    assert pickle.loads(pickle.dumps(first.agents[0])) == "triage"
    assert copy.deepcopy(first.tool_calls[0]["tool"]) == "look_up"
    assert {"triage", "refunds"} == set(first.agents)
    assert first.agents.index("refunds") == 1
    assert first.model_calls == partial({"refunds": 2})
    assert first.contexts("refunds")[0] == first.context("refunds", 0)
    assert "handoff" not in first.context("triage", 0).sections
    assert turns[2].error == "rate_limit" == getattr(turns[2].error, "type", None)
    assert turns[2].error == partial({"type": "rate_limit"})


@pytest.mark.parametrize("matcher", [anything, contains, gt, message, partial])
def test_a_matcher_that_nobody_called_says_how_it_is_called(matcher: Any) -> None:
    call = rf"`{matcher.__name__}` is a function: write `{matcher.__name__}\((…)?\)`"

    for asking in (
        lambda: partial({"a": matcher}),
        lambda: has(matcher),
        lambda: matcher != "text",
        lambda: [matcher] != [{"a": 1}],
    ):
        with pytest.raises(ValueError, match=f"^{call}$"):
            asking()


@pytest.mark.parametrize("value", ["text", None, 7, ["text"]])
def test_what_is_no_message_is_never_equal_to_one(value: Any) -> None:
    expected: Expected = message(user="Hi")

    with pytest.raises(ValueError, match=r"^message\(user='Hi'\) is never equal to .*no message$"):
        assert value != expected
