"""An agent that says `handoffs: []` passes control to nobody, whatever contracts there are."""

from __future__ import annotations

import pytest

from tests.building import run_yaml

PIPELINE = """
version: 1
pipeline: p
agents:
  a: {{instructions: A.{handoffs}}}
  b: {{instructions: B.}}{defaults}
contracts: [{{from: "{source}", to: b}}]
flow: {{handoffs: {{start: a}}}}
"""
TURNS = """
turns:
  - user: Hello
    replies: {a: [{handoff: {to: b}}, Done.]}
    expect:
      handoffs: [{from: a, to: b, outcome: rejected, reason: {$contains: "handoffs: []"}}]
      context: {"a[0]": {handoffs: []}}
      reply: Done.
"""
TEXT = """
turns:
  - user: Hello
    replies: {a: {handoff: {to: b}}, b: Done.}
    expect:
      handoffs: [{from: a, to: b, outcome: made}]
      context: {a: {handoffs: [b]}}
"""


@pytest.mark.parametrize("source", ["a", "*"])
@pytest.mark.parametrize(
    ("handoffs", "defaults"), [(", handoffs: []", ""), ("", "\ndefaults: {handoffs: []}")]
)
def test_contracts_give_it_none(source: str, handoffs: str, defaults: str) -> None:
    pipeline = PIPELINE.format(handoffs=handoffs, defaults=defaults, source=source)

    findings = run_yaml(pipeline, TURNS).judgement.findings

    assert [finding.id for finding in findings if finding.severity == "E"] == []


def test_one_that_says_nothing_of_handoffs_has_those_of_contracts() -> None:
    pipeline = PIPELINE.format(handoffs="", defaults="", source="a")

    assert run_yaml(pipeline, TEXT).judgement.findings == ()
