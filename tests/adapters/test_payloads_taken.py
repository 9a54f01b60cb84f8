"""HND-12 owes nothing to a context that a function of the application was given instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from simkit.core.messages import ToolCall
from simkit.trace.events import HandoffRequested
from tests.adapters.running import run_app
from tests.adapters.scribes import Desk, user
from tests.building import Ran
from tests.checks.traces import hits_of

AGENTS: Final = """
from agents import Agent, handoff
from agents.extensions.handoff_filters import remove_all_tools
from agents.handoffs import Handoff
from pydantic import BaseModel

TICKETS = []


class Ticket(BaseModel):
    order: str
    reason: str


async def opened(context, ticket: Ticket):
    TICKETS.append(ticket)


billing = Agent(name="billing", instructions="You are billing.")
boss = Agent(name="boss", instructions="You are the boss.")


async def by_hand(context, arguments):
    TICKETS.append(arguments)
    return boss


own = Handoff(
    tool_name="to_the_boss", tool_description="", input_json_schema=Ticket.model_json_schema(),
    on_invoke_handoff=by_hand, agent_name="boss", input_filter=remove_all_tools,
)
triage = Agent(
    name="triage", instructions="You route.",
    handoffs=[
        handoff(billing, on_handoff=opened, input_type=Ticket, input_filter=remove_all_tools), own,
    ],
)
"""
PAYLOAD: Final = {"order": "A-1042", "reason": "It came broken."}


def handed_over(folder: Path, to: str) -> Ran:
    (folder / "takers.py").write_text(AGENTS, encoding="utf-8")
    turn: dict[str, Any] = {
        "user": "My order came broken",
        "replies": {"triage": {"handoff": {"to": to, "payload": PAYLOAD}}, to: "Sorry."},
        "expect": {"agents": ["triage", to], "handoffs": [{"to": to, "payload": PAYLOAD}]},
    }
    return run_app("takers:triage", f"turns: {json.dumps([turn])}", folder)


@pytest.mark.parametrize("to", ["billing", "boss"])
def test_a_payload_that_a_callback_is_given_is_owed_to_no_context(tmp_path: Path, to: str) -> None:
    ran = handed_over(tmp_path, to)

    findings = (*ran.judgement.findings, *ran.judgement.warnings)
    assert [(finding.id, finding.what) for finding in findings] == []
    assert [
        event.is_taken for event in ran.trace.events if isinstance(event, HandoffRequested)
    ] == [True]


@pytest.mark.parametrize("is_taken", [False, True])
def test_any_adapter_may_say_so(is_taken: bool) -> None:
    desk = Desk()
    desk.turn("Hello")
    if is_taken:
        desk.recorder.handoff_tools.take(["transfer_to_b"])
    desk.recorder.handoff_tools.know(["b"])
    call = ToolCall("t1", "transfer_to_b", PAYLOAD)
    desk.answers(desk.asks([user("Hello")]), "", call)
    desk.answers(desk.asks([user("Hello")], "b"), "Hi.", agent="b")
    desk.ends()

    assert len(hits_of("HND-12", desk.trace)) == (not is_taken)
