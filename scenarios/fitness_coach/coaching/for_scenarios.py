"""How a test begins a conversation in the middle."""

from __future__ import annotations

from typing import Any

from coaching.stores import coach_notes, memories, moment


def begin(graph: Any, state: dict[str, Any], config: dict[str, Any], start: str) -> None:
    """Lets a conversation begin with what is stored already, at a time."""
    coach_notes.now = lambda: moment(start)
    coach_notes.items = state.pop("notes", [])
    memories.items = state.pop("memories", [])
    if state:
        graph.update_state(config, state, as_node="__start__")
