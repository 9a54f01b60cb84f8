"""What lints on relations between calls find in conversations of code, and what they let pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simkit.core.messages import Message, ToolCall
from simkit.language.yaml import load_text
from tests.adapters.scribes import Desk
from tests.checks.traces import hits_of

FILE = Path(__file__).with_name("relations.yaml")
CASES: Any = load_text(FILE.read_text("utf-8"), str(FILE))[0].data


def message_of(given: dict[str, Any]) -> Message:
    role, text = next(iter(given.items()))
    calls = tuple(ToolCall(call, name, {}) for call, name in given.get("calls", {}).items())
    return Message(role, text, calls=calls, call_id=given.get("of", ""))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_lint_finds_what_the_conversation_says(case: dict[str, Any]) -> None:
    desk = Desk()
    for turn in case["turns"]:
        desk.turn(turn["user"])
        for call in turn["calls"]:
            agent, request = (
                call["agent"],
                desk.asks([*map(message_of, call["sent"])], call["agent"]),
            )
            calls = [ToolCall("c1", "work", call["args"])] if "args" in call else []
            desk.answers(request, call.get("says", "Well."), *calls, agent=agent)
            if not calls:
                desk.recorder.end_run(desk.run(agent))
        desk.ends(turn.get("ends", "Done."))

    assert [hit.what for hit in hits_of(case["lint"], desk.trace)] == case.get("finds", [])
