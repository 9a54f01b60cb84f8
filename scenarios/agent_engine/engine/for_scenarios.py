"""How a scenario begins with memory that is there already."""

from __future__ import annotations

from typing import Any

from engine.memory import GLOBAL, PROJECT, Memory


def begin(graph: Any, state: dict[str, Any], config: dict[str, Any], project: str) -> None:
    """Keeps what a scenario gives in the graph's store."""
    memory = Memory(graph.store, project)
    for tier in (PROJECT, GLOBAL):
        for item in state.get(tier, []):
            memory.keep(tier, item)
