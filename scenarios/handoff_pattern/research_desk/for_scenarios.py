"""How a test begins a conversation in the middle."""

from __future__ import annotations

from typing import Any

from research_desk.desk import Desk


def begin(desk: Desk, state: dict[str, Any]) -> None:
    """Lets a conversation begin with what is known already."""
    for name, value in state.items():
        setattr(desk.conversation, name, value)
