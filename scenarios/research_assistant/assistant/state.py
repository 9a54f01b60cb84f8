"""What the agents share."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages


def latest(before: Any, now: Any) -> Any:
    """Keeps the newer value; unlike a plain field, it has one from the start."""
    return now


class AgentState(TypedDict, total=False):
    """State object shared between all agents."""

    # Conversation
    messages: Annotated[list[AnyMessage], add_messages]
    session_id: str | None

    # Routing
    next_agent: str
    last_agent: str | None

    # Clarification
    clarification_needed: Annotated[bool, latest]
    clarification_count: Annotated[int, operator.add]
    missing_context: Annotated[list[str], latest]

    # What research found
    context: Annotated[dict[str, Any], operator.or_]

    # Workflow steps
    iteration: Annotated[int, operator.add]

    # The answer to this turn's question
    final_answer: str | None
    confidence_score: float | None
