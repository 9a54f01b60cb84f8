"""pydantic-ai#2050: a history processor also cuts the calls of the current run."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent
from pydantic_ai.capabilities import ProcessHistory


def looking(process: Any) -> Any:
    agent = Agent("openai:gpt-5-mini", name="desk", capabilities=[ProcessHistory(process)])

    @agent.tool_plain
    def look(place: str) -> str:
        """Look."""
        return "seen " + place

    return agent


app = looking(lambda messages: messages[-1:])
mended = looking(lambda messages: messages[-9:])
