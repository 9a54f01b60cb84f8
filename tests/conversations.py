"""Conversations of equal turns, as long as a test wants them."""

from __future__ import annotations

from typing import Final

from simkit.spec.scenario.files import Prepared
from tests.building import prepared

ROUTER: Final = """
version: 1
pipeline: p
channels:
  decision: {scope: turn}
  outputs: {reducer: merge, scope: turn}
defaults:
  context: [instructions, history, current_message]
  writes: {messages: ["${run.final_message}"], outputs: {"${agent}": "${run.reply}"}}
agents:
  triage: {instructions: Choose., writes: {decision: "${run.output}"}}
  billing:
    instructions: Answer about bills.
    context:
      - instructions
      - history: {from: log, filters: [tool_messages, tool_calls, intermediate_ai]}
      - current_message
  writer: {instructions: Write it up.}
flow: {router: {decide: triage, to: "${run.output.to}"}}
limits: {turns: 1000}
"""
ROUTED: Final = """
  - user: Question {number}
    replies:
      triage: {{json: {{to: [billing, writer]}}}}
      billing: Bill {number}
      writer: Letter {number}
"""

DESK: Final = """
version: 1
pipeline: p
agents:
  desk: {instructions: Help., tools: [find_order], handoffs: [billing]}
  billing: {instructions: Answer about bills.}
tools: {find_order: {}}
flow: {handoffs: {start: desk}}
limits: {turns: 1000}
"""


def conversation(pipeline: str, turn: str, turns: int) -> Prepared:
    """Returns a scenario of equal turns, numbered from 0."""
    return prepared(
        pipeline, "turns:" + "".join(turn.format(number=number) for number in range(turns))
    )
