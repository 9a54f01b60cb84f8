"""How a test begins a conversation in the middle, and over which protocol."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from agents import set_default_openai_api

from research_desk.desk import Desk


def api() -> Iterator[None]:
    """Lets the agents speak what `RESEARCH_DESK_API` names, for as long as a scenario runs."""
    chat = os.environ["RESEARCH_DESK_API"] == "openai_chat"
    set_default_openai_api("chat_completions" if chat else "responses")
    yield
    set_default_openai_api("responses")


def begin(desk: Desk, state: dict[str, Any]) -> None:
    """Lets a conversation begin with what is known already."""
    for name, value in state.items():
        setattr(desk.conversation, name, value)
