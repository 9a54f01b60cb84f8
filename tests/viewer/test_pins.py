"""Where findings are shown: pinned to the event that a claim is about, and at the claim's line."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import pytest

from simkit.report.results import result_of
from simkit.session.simulate import simulate
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from simkit.viewer import run_data
from simkit.viewer.document import ClaimLine, MarkData, RunData
from simkit.viewer.tables import claim_lines
from tests.viewer.scenes import SHOP

PIPELINE: Final = """\
pipeline: shop
channels:
  orders: {reducer: append, scope: session}
  status: {scope: session, default: new}
  note: {scope: session}
agents:
  triage:
    instructions: Send the user on.
    tools: [look, find]
    handoffs: [refunds, billing]
    writes: {status: seen}
  refunds: {instructions: Refund., writes: {orders: [A], status: refunded}}
  billing: {instructions: Bill., writes: {status: billed}}
tools: {look: {args: {type: object}}, find: {args: {type: object}}}
contracts:
  - {from: triage, to: refunds, type: refund, payload: {type: object}}
  - {from: triage, to: billing, type: bill, payload: {type: object}}
flow: {handoffs: {start: triage}}
---
scenario: test
pipeline: shop
turns:
  - user: One
    replies: {triage: Hello!}
  - user: Two
    replies:
      triage:
        - calls: [look: {of: a}, find: {of: b}]
        - calls: [look: {of: c}]
        - handoff: {to: refunds, type: refund, payload: {order: A}}
      refunds: Done.
    tool_results: {look: [1, 2], find: 3}
    expect: EXPECT
  - user: Three
    replies: {triage: Bye!}
RUN
"""


class Pinned(NamedTuple):
    """The event at which a finding is expected, without its agent's run."""

    kind: str
    turn: int = 2
    agent: str = ""
    nth: int = 0
    """The index among the marks of this kind, turn and agent."""


CASES: Final = {
    # One that differs, one that is missing, one that is too many, a denial.
    "agents: [triage, billing]": Pinned("call", agent="refunds"),
    "agents: [triage]": Pinned("call", agent="refunds"),
    "agents: [triage, refunds, billing]": Pinned("call", agent="refunds"),
    "agents: {$not: {$has: [triage]}}": Pinned("call", agent="triage"),
    "reply: Other": Pinned("call", agent="refunds"),
    "context: {triage: {tokens: {$lt: 1}}}": Pinned("call", agent="triage"),
    "context: {'triage[1]': {includes: [nothing]}}": Pinned("call", agent="triage", nth=1),
    "context: {billing: {includes: [nothing]}}": Pinned("call", agent="refunds"),
    "runs: {refunds: {update: {status: other}}}": Pinned("write", agent="refunds"),
    "runs: {refunds: {output: Other}}": Pinned("call", agent="refunds"),
    "runs: {triage: {input: Other}}": Pinned("call", agent="triage"),
    "runs: {'*': {reply: {$not: Done.}}}": Pinned("call", agent="refunds"),
    "runs: {billing: {output: Other}}": Pinned("call", agent="refunds"),
    "state: {status: other}": Pinned("write", agent="refunds"),
    "state: {'orders[0]': B}": Pinned("write", agent="refunds"),
    "state: {note: other}": Pinned("call", agent="refunds"),
    "handoffs: [{to: billing}]": Pinned("handoff", agent="triage"),
    "handoffs: []": Pinned("handoff", agent="triage"),
    "handoffs: {$has: [{to: billing}]}": Pinned("handoff", agent="triage"),
    "handoffs: {$not: {$has: [{to: refunds}]}}": Pinned("handoff", agent="triage"),
    "tool_calls: [{tool: look}, {tool: look}, {tool: look}]": Pinned("tool", agent="triage", nth=1),
    "tool_calls: [{tool: look}]": Pinned("tool", agent="triage", nth=1),
    "tool_calls: {$has: [{tool: find, args: {of: c}}]}": Pinned("tool", agent="triage", nth=1),
    "tool_calls: {$not: {$has: [{args: {of: c}}]}}": Pinned("tool", agent="triage", nth=2),
    "model_calls: {triage: 1}": Pinned("call", agent="triage", nth=1),
    "model_calls: {triage: 9}": Pinned("call", agent="triage", nth=2),
    "model_calls: {billing: 1}": Pinned("call", agent="refunds"),
    "logs: {$has: [{message: nothing}]}": Pinned("call", agent="refunds"),
    "events: {$not: {$has: [{kind: ToolReturned}]}}": Pinned("tool", agent="triage", nth=1),
    # No mark of its own: the first one of its run.
    "events: {$not: {$has: [{kind: AgentStarted, agent: refunds}]}}": Pinned(
        "call", agent="refunds"
    ),
    "events: {$has: [{kind: HandoffMade, to_agent: billing}]}": Pinned("handoff", agent="triage"),
    "findings: [{id: CTX-07}]": Pinned("call", agent="refunds"),
    "error: ReplyMissing": Pinned("call", agent="refunds"),
    "interrupt: What?": Pinned("call", agent="refunds"),
    "judge: {Is it done?: no}": Pinned("judge"),
    "satisfies: 'tests.viewer.predicates:never'": Pinned("call", agent="refunds"),
}
"""A claim of turn 2 to its place. What concerns no event is at the turn's last call."""

OF_THE_RUN: Final = {
    "agents: [triage]": Pinned("call", agent="triage"),
    "state: {status: refunded}": Pinned("write", 3, "triage"),
    "state: {orders: [B]}": Pinned("write", 2, "refunds"),
    "reply: Other": Pinned("call", 3, "triage"),
    "model_calls: {triage: 9}": Pinned("call", 3, "triage"),
    "handoffs: []": Pinned("handoff", 2, "triage"),
    "tool_calls: []": Pinned("tool", 2, "triage"),
    "error: ReplyMissing": Pinned("call", 3, "triage"),
}


def pinned(folder: Path, text: str) -> tuple[RunData, list[MarkData]]:
    """The run of a scenario, and the marks of what fails it."""
    file = folder / "shop.scenario.yaml"
    file.write_text(text, encoding="utf-8")
    library = Library()
    (item,) = items_in(str(file), library.cache)
    prepared = library.prepared(item)
    outcome = simulate(prepared)
    data = run_data(outcome.view, result_of(prepared, outcome, None))
    marks = [data.marks[finding.mark] for finding in data.findings if finding.level == "failing"]
    return data, marks


def mark(data: RunData, at: Pinned) -> MarkData:
    """The mark that is meant."""
    key = (at.kind, at.turn, at.agent)
    return [mark_ for mark_ in data.marks if (mark_.kind, mark_.turn, mark_.agent) == key][at.nth]


@pytest.mark.parametrize("claim", CASES)
def test_a_claim_is_pinned_at_the_event_that_it_is_about(claim: str, tmp_path: Path) -> None:
    text = PIPELINE.replace("EXPECT", f"{{{claim}}}").replace("RUN", "")
    if claim.startswith("judge"):
        text = text.replace(
            "    tool_results", "    judge_replies: {Is it done?: yes}\n    tool_results"
        )

    data, marks = pinned(tmp_path, text)

    assert marks[:1] == [mark(data, CASES[claim])]


@pytest.mark.parametrize("claim", OF_THE_RUN)
def test_a_claim_on_the_run_is_pinned_there_too(claim: str, tmp_path: Path) -> None:
    text = PIPELINE.replace("EXPECT", "{}").replace("RUN", f"expect: {{{claim}}}")

    data, marks = pinned(tmp_path, text)

    assert marks[:1] == [mark(data, OF_THE_RUN[claim])]


def test_every_kind_of_claim_has_a_case() -> None:
    kinds = {claim.partition(":")[0] for claim in CASES}

    assert kinds == {*Expect.model_fields}


def test_an_error_that_nobody_claims_is_pinned_where_it_ended_the_turn(tmp_path: Path) -> None:
    text = PIPELINE.replace("EXPECT", "{}").replace("RUN", "limits: {model_calls_per_run: 1}")

    data, marks = pinned(tmp_path, text)

    assert ("error", 2) in {(mark_.kind, mark_.turn) for mark_ in marks}
    assert next((f.id, data.marks[f.mark].kind) for f in data.findings) == ("FLW-01", "limit")


FORK: Final = """\
pipeline: fork
channels: {verdict: {scope: turn}}
agents:
  desk: {instructions: Choose., output: {type: object}}
  left: {instructions: Left., writes: {verdict: "${run.reply}"}}
  right: {instructions: Right., writes: {verdict: "${run.reply}"}}
flow: {router: {decide: desk, to: "${run.output.to}"}}
---
scenario: two at once
pipeline: fork
turns:
  - user: Hello
    replies: {desk: {json: {to: {parallel: [left, right]}}}, left: L, right: R}
"""


def test_a_lint_is_pinned_at_the_event_at_which_it_was_found(tmp_path: Path) -> None:
    data, _ = pinned(tmp_path, FORK)

    places = [(f.id, data.marks[f.mark].kind, f.agent) for f in data.findings]
    assert ("STA-01", "write", "right") in places


def claims_in(folder: Path, text: str) -> list[ClaimLine]:
    """The claims of the first scenario, as the page has them."""
    file = folder / "shop.scenario.yaml"
    file.write_text(text, encoding="utf-8")
    library = Library()
    prepared = library.prepared(items_in(str(file), library.cache)[0])
    outcome = simulate(prepared)
    return claim_lines(prepared.document, result_of(prepared, outcome, None))


def states_of(folder: Path, text: str) -> dict[str, str]:
    """Each claim of the first scenario, as ``turn claim``, to its state."""
    lines = claims_in(folder, text)
    return {line.path.replace("turns.", "").replace(".expect", ""): line.state for line in lines}


@pytest.mark.slow
def test_a_claim_that_fails_leaves_those_beside_it(tmp_path: Path) -> None:
    assert states_of(tmp_path, SHOP) == {
        "0.reply": "held",
        "1.agents": "held",
        "1.context.refunds.includes": "failing",
        "1.state.status": "held",
    }


def test_a_claim_shows_the_differences_of_all_its_lines(tmp_path: Path) -> None:
    (line,) = claims_in(tmp_path, FORK + "    expect: {reply: {$all: [{$len: 7},\n      U]}}\n")

    assert [difference[1] for difference in line.differences] == ["$len: 7", '"U"']


@pytest.mark.slow
def test_a_lint_at_the_turn_fails_none_of_its_claims(tmp_path: Path) -> None:
    text = SHOP.replace("[tool_messages, tool_calls, intermediate_ai]", "[tool_calls]")

    states = states_of(tmp_path, text)

    assert set(states.values()) == {"held"}


def test_claims_of_turns_that_did_not_run_are_not_looked_at(tmp_path: Path) -> None:
    text = SHOP.replace("    replies: {triage: How can I help?}\n", "")
    text = text.replace("expect: {reply: How can I help?}", "expect: {agents: [triage]}")

    states = states_of(tmp_path, text)

    assert states["1.agents"] == states["1.state.status"] == "skipped"
