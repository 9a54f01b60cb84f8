"""Claims on agents that did not run stand under the finding that says why."""

from __future__ import annotations

import pytest

from simkit.report.text import findings_text
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

    following = [one for one in findings if one.follows]
    assert {one.agent for one in following} == {"shopper"}
    (named,) = {one.follows for one in following}
    (first,) = [one for one in findings if one.place_and_what == named]
    assert cause in f"{first.id}: {first.what}"
    text = findings_text(findings)
    assert text.count("not reached:") == 1
    assert all(one.where in text for one in following)
    assert len(text.split("\n\n")) == len(findings) - len(following)


def test_a_claim_that_nothing_explains_stands_for_itself() -> None:
    findings = judged("router: {json: {to: cook}}, cook: a").judgement.findings

    assert findings
    assert [one.follows for one in findings] == [""] * len(findings)
    assert "not reached" not in findings_text(findings)
