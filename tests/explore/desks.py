"""The desk that tests explore: sound, and with what can be found of it."""

from __future__ import annotations

from typing import Final

PIPELINE: Final = """
version: 1
pipeline: desk
channels:
  messages: {reducer: append, scope: session}
  refunds: {reducer: append, scope: project}
agents:
  desk:
    instructions: You are the desk.
    tools: [look]
    handoffs: [billing]
    context: [instructions, history, current_message]
    writes: {messages: ["${run.final_message}"]}
  billing:
    instructions: You refund.
    handoffs: []
    context: [instructions, handoff, current_message]
    writes: {messages: ["${run.final_message}"], refunds: ["${run.reply}"]}
tools:
  look: {args: {type: object, properties: {order: {type: string}}, required: [order]}}
contracts:
  - from: desk
    to: billing
    payload: {type: object, properties: {order: {type: string}}, required: [order]}
flow: {handoffs: {start: desk}}
"""
HEAD: Final = "---\nversion: 1\nsimulation: the desk\npipeline: desk\n"
DESK: Final = PIPELINE + HEAD
SOUND: Final = PIPELINE.replace(
    "context: [instructions, handoff, current_message]",
    "context: [instructions, history, handoff, current_message]",
)
BROKEN: Final = PIPELINE.replace(
    "context: [instructions, handoff, current_message]", "context: [instructions]"
)
TWICE_BROKEN: Final = BROKEN.replace("    handoffs: []\n", "    handoffs: [desk]\n")
