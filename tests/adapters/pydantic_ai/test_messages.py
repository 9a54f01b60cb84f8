"""PydanticAI's messages as a wire shows them, and agents by their names."""

from __future__ import annotations

from typing import Any

import pytest

pydantic_ai = pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed")

from pydantic_ai import Agent, BinaryContent, ImageUrl, ModelRequest, ModelResponse  # noqa: E402
from pydantic_ai import messages as m  # noqa: E402
from pydantic_ai.models.test import TestModel  # noqa: E402

from simkit.adapters.pydantic_ai.agent_runs import Names  # noqa: E402
from simkit.adapters.pydantic_ai.messages import as_messages, reason_of  # noqa: E402
from simkit.core.messages import Message, ToolCall  # noqa: E402


def test_a_history_is_told_as_providers_are_sent_it() -> None:
    history: Any = [
        ModelRequest(
            [
                m.SystemPromptPart("Be brief."),
                m.UserPromptPart(["Look", ImageUrl("https://x.org/a.png"), m.CachePoint()]),
            ]
        ),
        ModelResponse(
            [
                m.ThinkingPart("Hm."),
                m.TextPart("One moment."),
                m.ToolCallPart("look", '{"at": "a"}', "c1"),
                m.ToolCallPart("look", None, "c2"),
            ]
        ),
        ModelRequest(
            [
                m.ToolReturnPart("look", {"is": ["a", "cat"]}, "c1"),
                m.ToolReturnPart("look", "nothing", "c2"),
                m.UserPromptPart("Thanks"),
            ]
        ),
        ModelResponse([]),
    ]

    assert as_messages(history) == [
        Message("system", "Be brief."),
        Message("user", "Look\n[image https://x.org/a.png]"),
        Message(
            "assistant",
            "One moment.",
            calls=(ToolCall("c1", "look", {"at": "a"}), ToolCall("c2", "look", {})),
        ),
        Message("tool", '{"is":["a","cat"]}', call_id="c1", tool="look"),
        Message("tool", "nothing", call_id="c2", tool="look"),
        Message("user", "Thanks"),
    ]


def test_what_a_user_attaches_is_known_by_its_digest() -> None:
    part = m.UserPromptPart([BinaryContent(b"x", media_type="image/png")])

    assert as_messages([ModelRequest([part])]) == [Message("user", "[image sha256:2d711642b726]")]


@pytest.mark.parametrize(
    ("feedback", "reason"),
    [
        ("Do not guess.", "Do not guess."),
        ([{"loc": ("a", 0), "msg": "Too big", "type": "x"}], "a.0: Too big"),
        ([{"loc": (), "msg": "No JSON"}, "what?"], "No JSON; what?"),
    ],
)
def test_why_output_is_refused_is_one_line(feedback: Any, reason: str) -> None:
    assert reason_of(feedback) == reason


def agent(name: str | None = None, text: str = "") -> Agent[Any, str]:
    return Agent(TestModel(), name=name, instructions=text)


def test_agents_of_one_name_are_told_apart_by_how_they_begin() -> None:
    names = Names()

    agents = [agent("a", "You cook. Well."), agent("a", "You cook. Badly."), agent("a", "You eat.")]
    assert [names.of(item) for item in agents] == ["a", "a", "a (2)"]


class Desk:
    """Holds an agent as code does."""

    def __init__(self) -> None:
        self.clerk = agent()

    def name(self) -> str:
        return Names().of(self.clerk)


def test_an_agent_without_a_name_has_that_under_which_it_is_held() -> None:
    first, data = agent(), {"by_key": agent()}

    assert [Names().of(first), Names().of(data["by_key"]), Desk().name(), Names().of(agent())] == [
        "first", "by_key", "clerk", "agent",
    ]  # fmt: skip
