"""Streams that are left before their end: who is at work then is cancelled, in every framework."""

from __future__ import annotations

import pytest

from simkit.trace import events as e
from tests.adapters.running import run_app

FRAMEWORKS = {
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "langgraph": "langchain",
    "google_adk": "google.adk",
}


def ends(framework: str, way: str, replies: str) -> list[tuple[str, str]]:
    """Returns how each agent's work ended, turn by turn."""
    pytest.importorskip(FRAMEWORKS[framework], reason=f"{framework} is not installed")
    turn = f"  - {{user: Hello, replies: {{clerk: {replies}}}, expect: {{reply: Left.}}}}\n"
    ran = run_app(f"left_{framework}:{way}", f"app: {{path: [.]}}\nturns:\n{turn}{turn}")
    return [
        (event.agent, event.status)
        for event in ran.trace.events
        if isinstance(event, e.AgentFinished)
    ]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_who_is_at_work_when_a_stream_is_left_is_cancelled(framework: str) -> None:
    pairs = ends(framework, "left_at_work", "[{calls: [look_up: {word: a}]}]")

    assert pairs == [("clerk", "cancelled")] * 2


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_who_has_answered_when_a_stream_is_left_is_done(framework: str) -> None:
    pairs = ends(framework, "left_behind_the_answer", "[It is known.]")

    assert pairs == [("clerk", "done")] * 2


def test_who_says_a_text_of_which_nobody_reads_the_end_is_cancelled() -> None:
    pairs = ends("pydantic_ai", "left_in_its_words", "[It is known to all of us.]")

    assert pairs == [("clerk", "cancelled")] * 2
