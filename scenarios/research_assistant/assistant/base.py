"""What all agents have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage

from .state import AgentState

MAX_HISTORY = 10


class BaseAgent(ABC):
    """Receives the state, works, and returns what is new."""

    name: str
    prompt: str

    def __init__(self, llm: BaseChatModel, max_history: int = MAX_HISTORY) -> None:
        self.llm, self.max_history = llm, max_history

    @abstractmethod
    def execute(self, state: AgentState) -> dict[str, Any]:
        """Executes the agent's logic; returns its update of the state."""

    def recent(self, state: AgentState) -> list[AnyMessage]:
        """Limits the history, so that no prompt overflows."""
        return state["messages"][-self.max_history :]

    def done(self, **update: Any) -> dict[str, Any]:
        """One step of the workflow, by this agent."""
        return {**update, "last_agent": self.name, "iteration": 1}


def as_text(messages: Sequence[AnyMessage]) -> str:
    """Formats a conversation for a prompt."""
    roles = {"human": "User", "ai": "AI"}
    return "\n".join(f"{roles[m.type]}: {m.text}" for m in messages if m.type in roles)
