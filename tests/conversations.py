"""Conversations of which tests count the function calls of a turn."""

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
HANDED_OVER: Final = """
  - user: Question {number}
    replies:
      desk: [{{calls: {{find_order: {{id: {number}}}}}}}, {{handoff: {{to: billing, query: Bill}}}}]
      billing: Bill {number}
    tool_results: {{find_order: {{total: {number}}}}}
"""

CONTRACT: Final = """
version: 1
pipeline: p
agents:
  desk: {instructions: Help., tools: [find_order], handoffs: [billing]}
  billing: {instructions: Answer about bills.}
contracts:
  - from: desk
    to: billing
    type: bill
    history: filters
    payload:
      type: object
      properties:
        order: {type: integer}
        reason: {type: string}
        source_agent: {type: string}
      required: [order]
tools:
  find_order:
    args: {type: object, properties: {id: {type: integer}}, required: [id]}
    returns: {type: object}
flow: {handoffs: {start: desk}}
limits: {turns: 1000}
"""
PAID: Final = """
  - user: Question {number}
    replies:
      desk:
        - calls: {{find_order: {{id: {number}}}}}
        - handoff: {{to: billing, query: Bill, payload: {{order: {number}, reason: none}}}}
      billing: Bill {number}
    tool_results: {{find_order: {{total: {number}}}}}
"""

DELEGATE: Final = """
version: 1
pipeline: p
agents:
  desk: {instructions: Help., handoffs: [billing]}
  billing: {instructions: Answer about bills.}
contracts: [{from: desk, to: billing, type: bill, mode: delegate}]
flow: {handoffs: {start: desk}}
limits: {turns: 1000}
"""
DELEGATED: Final = """
  - user: Question {number}
    replies:
      desk: [{{handoff: {{to: billing, query: Bill}}}}, Done {number}]
      billing: Bill {number}
"""
REGISTERED: Final = """
version: 1
pipeline: p
channels: {case: {scope: session}}
agents:
  desk:
    instructions: Help.
    tools: [find, count]
    context: [instructions, history: {from: log}, current_message]
    writes: {messages: "${run.messages}"}
  billing:
    instructions: Answer about bills.
    context: [instructions, history: {from: log}, handoff, current_message]
tools: {find: {}, count: {}}
contracts:
  - from: desk
    to: billing
    type: refund
    payload: {type: object, required: [order], properties: {order: {type: integer}}}
    writes: {case: "${handoff.payload}"}
flow: {handoffs: {start: desk}}
limits: {turns: 1000}
"""
PASSED_ON: Final = """
  - user: Question {number}
    replies:
      desk:
        - {{text: Wait., calls: [{{find: {{id: {number}}}}}, {{count: {{id: {number}}}}}]}}
        - {{calls: {{find: {{id: {number}, again: true}}}}}}
        - {{handoff: {{to: billing, query: "Bill {number}?", payload: {{order: 100{number}}}}}}}
      billing: Bill {number}
    tool_results:
      find: [{{total: {number}}}, {{error: Too busy {number}}}]
      count: Result {number}
"""


def conversation(pipeline: str, turn: str, turns: int) -> Prepared:
    """Returns a scenario of equal turns, numbered from 0."""
    return prepared(
        pipeline, "turns:" + "".join(turn.format(number=number) for number in range(turns))
    )
