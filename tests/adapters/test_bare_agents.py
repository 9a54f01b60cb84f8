"""An agent of the OpenAI Agents SDK that a scenario names itself: simkit carries its history."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

import simkit

APP = '''
from agents import Agent, function_tool, handoff
from agents.extensions import handoff_filters


@function_tool
def stock(item: str) -> str:
    """Return what is left of an item."""
    return "3 left"


refunds = Agent(name="refunds", instructions="You take goods back.")
desk = Agent(
    name="desk", instructions="You greet.", tools=[stock],
    handoffs=[handoff(refunds, input_filter=handoff_filters.remove_all_tools)],
)
'''
SCENARIO = """\
version: 1
scenario: what a handoff filtered stays out
pipeline: filtered_desk:desk
app: {path: [.]}
turns:
  - user: Take back my shoes
    replies:
      desk: [{calls: [stock: {item: shoes}]}, {handoff: {to: refunds}}]
      refunds: Done.
  - user: Thanks
    replies: {refunds: Bye.}
    expect:
      context: {refunds: {excludes: [{role: tool}]}}
"""


@pytest.mark.slow
def test_a_filtered_history_stays_filtered_in_the_next_turn(tmp_path: Path) -> None:
    (tmp_path / "filtered_desk.py").write_text(APP, encoding="utf-8")
    file = tmp_path / "desk.scenario.yaml"
    file.write_text(SCENARIO, encoding="utf-8")
    (prepared,) = simkit.load(file)

    outcome = simkit.simulate(prepared)

    assert [finding.id for finding in outcome.judgement.findings] == []
