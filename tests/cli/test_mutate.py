# ruff: noqa: E501 -- whole texts are as wide as they are printed
"""`simkit mutate`, called from outside: which changes of what happened nothing notices."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.cli.projects import Call, Done, with_desk, write

DESK = """\
pipeline: desk
channels:
  messages: {reducer: append, scope: session}
  order: {reducer: merge, scope: session}
defaults:
  context: [instructions, handoff, {history: {from: log}}, current_message]
  writes: {messages: ["${run.final_message}"]}
agents:
  triage: {instructions: You triage., tools: [find_order], handoffs: [billing]}
  billing:
    instructions: You refund.
    handoffs: []
    writes: {messages: ["${run.final_message}"], order: {id: "${handoff.payload.order}"}}
tools:
  find_order: {args: {type: object}}
contracts:
  - {from: triage, to: billing, payload: {type: object, required: [order]}}
flow: {handoffs: {start: triage}}
"""
REFUND = """\
scenario: a refund
pipeline: desk.pipeline.yaml
turns:
  - user: Hello ${env.NOBODY}
    replies: {triage: Good day.}
    expect: {reply: Good day.}
  - user: I want my money back
    replies:
      triage:
        - calls: [find_order: {customer: Ada}]
        - handoff: {to: billing, payload: {order: A-1042}}
      billing: It is on its way.
    tool_results: {find_order: {order: A-1042}}
    expect:
      agents: [triage, billing]
"""
REFUND = REFUND.replace("${env.NOBODY}", "$${you}")


@pytest.fixture
def desk(simkit: Call) -> Call:
    """The command line, in a project with a desk and one scenario."""
    return with_desk(simkit, DESK, REFUND)


def report_of(done: Done) -> dict[str, Any]:
    """The report as JSON."""
    assert done.err == ""
    report: dict[str, Any] = json.loads(done.out)
    return report


def survivors(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The mutants that nothing noticed, by their text."""
    return {mutant["text"]: mutant for mutant in report["mutants"] if mutant["killed_by"] is None}


def joined(claims: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Two sets of claims as one."""
    both = dict(claims)
    for key, value in more.items():
        old = both.get(key)
        if key in ("handoffs", "tool_calls") and old not in (None, value):
            both[key] = {"$all": [old, value]}
        elif isinstance(old, dict) and isinstance(value, dict):
            both[key] = joined(old, value)
        elif isinstance(old, list) and key == "includes":
            both[key] = [*old, *(claim for claim in value if claim not in old)]
        else:
            both[key] = value
    return both


@pytest.mark.parametrize("options", [("--traces",), ()], ids=["traces", "pipelines, too"])
def test_every_claim_that_is_proposed_notices_its_mutant(
    desk: Call, options: tuple[str, ...]
) -> None:
    report = report_of(desk("mutate", *options, "--format", "json"))
    scenario = yaml.safe_load(REFUND)
    for mutant in survivors(report).values():
        turn = scenario["turns"][mutant["turn"] - 1]
        turn["expect"] = joined(turn["expect"], mutant["expect"])
    write("scenarios/refund.scenario.yaml", json.dumps(scenario))
    assert desk("replay", "-q").code == 0

    after = report_of(desk("mutate", *options, "--format", "json"))

    assert survivors(report)
    assert survivors(after) == {}
    assert (after["percent"], after["total"]) == (100, report["total"])


@pytest.mark.slow
def test_a_fault_of_the_pipeline_is_planted_and_its_scenarios_run_again(desk: Call) -> None:
    done = desk("mutate")

    assert (
        """
scenarios/desk.pipeline.yaml:6
  SURVIVED  every context has no section `handoff`
  SURVIVED  sections `instructions` and `handoff` of every context are swapped
    scenarios/refund.scenario.yaml:7  expect: {context: {billing: {sections: [instructions, handoff, history, current_message]}}}
"""
        in done.out
    )
    killed = {
        mutant["text"]: mutant["killed_by"]
        for mutant in report_of(desk("mutate", "--format", "json"))["mutants"]
        if mutant["where"].startswith("scenarios/desk.pipeline.yaml") and mutant["killed_by"]
    }
    assert killed == {
        "every context has no section `instructions`": "lint",
        "triage is not offered tool `find_order`": "claim",
        "turns start with billing": "claim",
    }


def test_a_mutant_that_no_scenario_shows_is_only_counted(desk: Call) -> None:
    whole = report_of(desk("mutate", "--format", "json"))
    texts = [mutant["text"] for mutant in whole["mutants"]]

    # Whatever it requires: the payloads of this scenario have the key.
    assert "the contract triage → billing does not require `order`" not in texts
    assert whole["equivalent"] + whole["total"] == whole["chosen_from"]
    assert whole["equivalent"] > 0


def test_a_claim_that_would_hold_all_the_same_is_not_proposed(desk: Call) -> None:
    # The context has this message twice: `includes` would hold without one of them.
    write("scenarios/refund.scenario.yaml", REFUND + TWICE)

    report = report_of(desk("mutate", "--traces", "--format", "json", "-k", "twice"))

    mutant = survivors(report)["triage is not sent a message of role user in section `history`"]
    assert mutant["expect"] == {"context": {"triage": {"history": {"$len": 2}}}}


TWICE = """\
---
scenario: twice
pipeline: desk.pipeline.yaml
turns:
  - {user: Hi, replies: {triage: Yes?}}
  - {user: Hi, replies: {triage: Yes?}}
  - {user: Hi, replies: {triage: Yes?}}
"""


def test_a_seed_chooses_and_the_last_line_says_of_how_many(desk: Call) -> None:
    whole = report_of(desk("mutate", "--traces", "--format", "json"))
    some = [
        report_of(desk("mutate", "--traces", "--format", "json", "--max", "5", "--seed", seed))
        for seed in ("1", "1", "2")
    ]

    def texts(report: dict[str, Any]) -> list[str]:
        return [mutant["text"] for mutant in report["mutants"]]

    assert some[0] == some[1]
    assert texts(some[0]) != texts(some[2])
    assert [text for text in texts(whole) if text in texts(some[0])] == texts(some[0])
    number = whole["chosen_from"]
    assert (
        f"chosen from {number} by seed 1"
        in desk("mutate", "--traces", "--max", "5", "--seed", "1").out
    )
    assert "chosen" not in desk("mutate", "--traces").out
