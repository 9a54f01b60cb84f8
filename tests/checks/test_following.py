"""Claims on agents that did not run stand under the finding that says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.report.results import grouped
from simkit.report.text import findings_text, following_line
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from tests.building import Ran, run_yaml

PIPELINE = """
version: 1
pipeline: p
agents:
  router: {instructions: Route., output: {type: object}}
  cook: {instructions: Cook.}
  shopper: {instructions: Shop.}
limits: {agent_runs_per_turn: 2}
flow: {router: {decide: router, to: "${run.output.to}"}}
"""
CLAIMS = """
    expect:
      context: {shopper: {includes: [Shop.], history: []}, router: {excludes: [Nothing]}}
      runs: {shopper: {output: x}}
      %s
"""


def judged(replies: str, more: str = "") -> Ran:
    return run_yaml(
        PIPELINE, f"turns:\n  - user: Hi\n    replies: {{{replies}}}{CLAIMS % more}", fits=False
    )


@pytest.mark.parametrize(
    ("replies", "more", "cause"),
    [
        ("router: {error: rate_limit}", "", "turn 1 ended with error"),
        ("router: {json: {to: [cook, cook]}}, cook: [a, b]", "", "FLW-01"),
        ("router: {json: {to: cook}}, cook: a, shopper: b", "", "RUN-01"),
        ("router: {json: {to: cook}}, cook: a", "agents: [router, shopper]", "agents"),
    ],
)
def test_claims_that_were_not_reached_are_listed_under_their_cause(
    replies: str, more: str, cause: str
) -> None:
    findings = judged(replies, more).judgement.findings

    following = [finding for finding in findings if finding.follows]
    # Where the turn ends in an error, the lines of `cook` are left over, too.
    assert {item.agent for item in following} - {"cook"} == {"shopper"}
    (named,) = {item.follows for item in following}
    (first,) = [finding for finding in findings if finding.place_and_what == named]
    assert cause in f"{first.id}: {first.what}"
    text = findings_text(findings)
    assert text.count("from it, in line") == 1
    assert all(item.where.split(":")[1] in text for item in following)
    assert len(text.split("\n\n")) == len(findings) - len(following)


EVERY_CLAIM = """
    expect:
      agents: [router, shopper]
      handoffs: [{to: shopper}]
      reply: bought
      model_calls: {shopper: 1}
      tool_calls: [{tool: buy, agent: shopper}]
      context: {shopper: {history: []}}
      runs: {shopper: {output: x}}
      state: {basket: full}
"""
BUYING = PIPELINE.replace("limits:", "channels: {basket: {}}\ntools: {buy: {}}\nlimits:")
BUYING = BUYING.replace("{instructions: Shop.}", "{instructions: Shop., tools: [buy]}")


@pytest.mark.parametrize(
    ("replies", "cause"),
    [
        ("router: {json: {to: cook}}, cook: a", "agents does not match"),
        ("router: {json: {to: cook}}, cook: a, shopper: b", "agents does not match"),
        ("router: {error: rate_limit}", "turn 1 ended with error"),
    ],
)
def test_one_cause_is_one_finding_whatever_is_claimed(replies: str, cause: str) -> None:
    text = f"turns:\n  - user: Hi\n    replies: {{{replies}}}{EVERY_CLAIM}"

    findings = run_yaml(BUYING, text, fits=False).judgement.findings

    (group,) = grouped(findings)
    assert cause in group.cause.what
    claims = {item.path[3] for item in (group.cause, *group.following) if len(item.path) > 3}
    assert {"handoffs", "reply", "model_calls", "tool_calls", "context", "runs"} <= claims
    assert "state" in claims


def test_claims_on_the_whole_run_follow_from_what_a_turn_says() -> None:
    text = "turns:\n  - user: Hi\n    replies: {router: {json: {to: cook}}, cook: a}\n    expect: "
    text += "{agents: [router, shopper]}\nexpect: {context: {'shopper[0]': {history: []}}}"

    (group,) = grouped(run_yaml(PIPELINE, text, fits=False).judgement.findings)

    assert following_line(group) == "1 more finding follows from it, in line 17; the page shows all"


@pytest.mark.parametrize(
    ("claims", "count"),
    [
        # The agent named did run: what it said is a fact of its own.
        ("{agents: [router, shopper, cook], reply: b}", 2),
        ("{agents: [router, shopper], context: {cook: {includes: [Nothing]}}}", 2),
        # More handoffs than wanted are no lack.
        ("{agents: [router, shopper], handoffs: [{to: shopper}], reply: {$not: a}}", 1),
        ("{model_calls: {cook: 2}, reply: b}", 2),
    ],
)
def test_what_has_another_reason_stands_for_itself(claims: str, count: int) -> None:
    text = "turns:\n  - user: Hi\n    replies: {router: {json: {to: cook}}, cook: a}\n"

    findings = run_yaml(PIPELINE, f"{text}    expect: {claims}", fits=False).judgement.findings

    assert len(grouped(findings)) == count


def test_a_claim_that_nothing_explains_stands_for_itself() -> None:
    findings = judged("router: {json: {to: cook}}, cook: a").judgement.findings

    assert findings
    assert [finding.follows for finding in findings] == [""] * len(findings)
    assert "follow" not in findings_text(findings)


REFUSED_HANDOFF = """\
version: 1
pipeline: p
agents: {desk: {handoffs: [clerk]}, clerk: {}}
contracts:
  - {from: desk, to: clerk, payload: {type: object, properties: {order: {}}, required: [order]}}
flow: {handoffs: {start: desk}}
---
version: 1
scenario: s
pipeline: p
turns:
  - user: Hi
    replies: {desk: {handoff: {to: clerk, payload: {ordr: A-1}}}, clerk: ok}
    expect: {agents: [desk, clerk], reply: ok, handoffs: [{to: clerk}]}
"""


def test_all_that_follows_from_a_refused_handoff_names_it(tmp_path: Path) -> None:
    file = tmp_path / "t.scenario.yaml"
    file.write_text(REFUSED_HANDOFF, encoding="utf-8")
    (item,) = items_in(str(file))

    findings = simulate(Library().prepared(item)).judgement.findings

    (cause,) = [finding for finding in findings if not finding.follows]
    assert cause.what == (
        "the handoff from 'desk' to 'clerk' was refused in turn 1: payload: 'order' is a required "
        "property; it has `ordr`: did you mean `order`?\n"
        "agent 'desk' made model call #2 in turn 1, but the scenario has 1 reply for it.\n"
        "Add one under turns[0].replies.desk, or expect the turn to stop earlier."
    )
    assert len(findings) == 5


def test_two_lines_of_one_claim_are_no_reason_for_each_other() -> None:
    text = "turns:\n  - user: Hi\n    replies: {router: {json: {to: cook}}, cook: a}\n"
    text += "    expect: {handoffs: [{to: shopper},\n      {to: cook, payload: {a: 1}}]}"

    findings = run_yaml(PIPELINE, text, fits=False).judgement.findings

    assert [(finding.path[-1], finding.follows) for finding in findings] == [(0, ""), (1, "")]


def test_the_same_loss_later_follows_and_another_one_stands_for_itself() -> None:
    turn = "  - user: Hi\n    replies: {router: {json: {to: cook}}, cook: a}\n    expect: "
    text = f"turns:\n{turn}{{reply: Salt}}\n{turn}{{reply: Salt, runs: {{cook: {{output: Oil}}}}}}"

    groups = grouped(run_yaml(PIPELINE, text, fits=False).judgement.findings)

    assert [len(group.following) for group in groups] == [1, 0]
