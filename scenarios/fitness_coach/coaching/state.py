"""What the nodes share, and how updates join it."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AnyMessage, HumanMessage

DECISIONS_KEPT = 10


def merged(outputs: dict[str, Any], update: dict[str, Any] | None) -> dict[str, Any]:
    """Adds the outputs of agents; None begins anew."""
    return {} if update is None else {**outputs, **update}


def collected(items: list[Any], update: list[Any] | None) -> list[Any]:
    """Adds items; None begins anew."""
    return [] if update is None else [*items, *update]


def latest(decisions: list[Any], update: list[Any]) -> list[Any]:
    """Keeps the last decisions."""
    return [*decisions, *update][-DECISIONS_KEPT:]


class GraphState(TypedDict, total=False):
    """The state of one conversation."""

    messages: Annotated[list[AnyMessage], operator.add]
    history_items: list[dict[str, Any]]
    conversation_id: str | None
    session_id: str | None
    auth_ctx: dict[str, Any] | None
    timezone: str
    user_timezone: str
    router_decision: dict[str, Any] | None
    routing_history: Annotated[list[dict[str, Any]], latest]
    queue: list[str]
    """The agents that are still to work in this turn."""
    agent_outputs: Annotated[dict[str, Any], merged]
    handoff_context: dict[str, Any] | None
    errors: Annotated[list[str], collected]
    usage_tracker: Annotated[list[dict[str, Any]], operator.add]


def new_turn(text: str) -> dict[str, Any]:
    """What a message of the user begins: nothing of the last turn's work is left."""
    return {
        "messages": [HumanMessage(text)],
        "router_decision": None,
        "agent_outputs": None,
        "handoff_context": None,
        "errors": None,
        "queue": [],
    }
