"""How a test begins a conversation in the middle."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from coaching.stores import coach_notes, memories, moment


def message(stored: dict[str, Any]) -> AnyMessage:
    """Return a stored message as the graph holds it."""
    if stored["role"] == "user":
        return HumanMessage(stored["content"])
    if stored["role"] == "tool":
        return ToolMessage(stored["content"], tool_call_id=stored["call_id"], name=stored["tool"])
    calls = [
        {"id": call["id"], "name": call["tool"], "args": call["args"]}
        for call in stored.get("calls", ())
    ]
    return AIMessage(stored["content"], name=stored["agent"], tool_calls=calls)


def begin(graph: Any, state: dict[str, Any], config: dict[str, Any], start: str) -> None:
    """Lets a conversation begin with what is stored already, at a time."""
    coach_notes.now = lambda: moment(start)
    coach_notes.items = state.pop("notes", [])
    memories.items = state.pop("memories", [])
    if "messages" in state:
        state["messages"] = [message(one) for one in state["messages"]]
    if state:
        graph.update_state(config, state, as_node="__start__")
