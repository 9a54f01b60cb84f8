"""A declared tool whose name begins as a transfer's does is an ordinary tool."""

from __future__ import annotations

from simkit.report.timeline import rows_of
from tests.building import run_yaml

BANK = """
version: 1
pipeline: p
agents:
  desk: {instructions: Help., tools: [transfer_to_savings], handoffs: [savings]}
  savings: {instructions: Save., handoffs: []}
tools: {transfer_to_savings: {}}
flow: {handoffs: {start: desk}}
"""
TURNS = """
turns:
  - user: Move 5
    replies: {desk: [{calls: [transfer_to_savings: {amount: 5}]}, Done.]}
    tool_results: {transfer_to_savings: moved}
"""


def test_a_tool_that_is_called_like_a_transfer_is_shown_as_a_tool() -> None:
    ran = run_yaml(BANK, TURNS)

    assert [message.calls[0].target for message in ran.view.messages.values() if message.calls] == [
        ""
    ]
    assert any("transfer_to_savings(amount: 5)" in row.answered for row in rows_of(ran.view))
