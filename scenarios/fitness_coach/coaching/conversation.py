"""The messages that a coach's model is sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from coaching.state import GraphState
from coaching.stores import coach_notes, memories, moment

SUMMARY_CHARACTERS = 500


def compact(value: Any) -> str:
    """Returns a value as JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def filtered(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Leaves out tool traffic and what agents said on the way."""
    return [
        one
        for one in messages
        if not isinstance(one, ToolMessage) and not (isinstance(one, AIMessage) and one.tool_calls)
    ]


def current(state: GraphState) -> HumanMessage:
    """The message that this turn is about."""
    return next(one for one in reversed(state["messages"]) if isinstance(one, HumanMessage))


def history(state: GraphState) -> list[AnyMessage]:
    """All that was said but the current message."""
    now = current(state)
    return [one for one in filtered(state["messages"]) if one is not now]


def notes_text() -> str:
    """The recent notes of all coaches, a line each."""
    return "\n".join(
        f"[{moment(note['at']).date().isoformat()}] ({note['agent']}): {note['text']}"
        for note in coach_notes.recent()
    )


def memories_text(state: GraphState) -> str:
    """What is remembered of the time that the router's decision names."""
    ranges = (state.get("router_decision") or {}).get("time_ranges") or []
    found = [f"- {memory['text']}" for memory in memories.search(ranges)]
    return "\n".join(["# Relevant Long-Term Memories", *found]) if found else ""


def previous_agents_text(state: GraphState, agent: str) -> str:
    """What the other agents of this turn have found."""
    parts = []
    for name, output in state.get("agent_outputs", {}).items():
        if name == agent:
            continue
        parts.append(f"## {name}:\n{output['reply'][:SUMMARY_CHARACTERS]}")
        if output["tool_results"]:
            parts.append(f"**Structured Data:**\n```json\n{compact(output['tool_results'])}\n```")
    return "\n".join(["# Context from Previous Agents", *parts]) if parts else ""


def handoff_text(state: GraphState, agent: str) -> str:
    """What was handed over to this agent."""
    handed = state.get("handoff_context")
    return compact(handed["payload"]) if handed and handed["to"] == agent else ""


def conversation(state: GraphState, agent: str, prompt: str) -> list[AnyMessage]:
    """Returns the messages, in order."""
    told = [
        prompt,
        notes_text(),
        memories_text(state),
        previous_agents_text(state, agent),
        handoff_text(state, agent),
    ]
    return [*(SystemMessage(text) for text in told if text), *history(state), current(state)]
