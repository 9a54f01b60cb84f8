"""What scenarios need to run the assistant: a database of their own, and a state to begin with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage


def database() -> Iterator[None]:
    """Names a new database for as long as a scenario runs."""
    before = os.environ.get("ASSISTANT_DB")
    with TemporaryDirectory() as folder:
        os.environ["ASSISTANT_DB"] = str(Path(folder) / "threads.sqlite")
        try:
            yield
        finally:
            if before is None:
                del os.environ["ASSISTANT_DB"]
            else:
                os.environ["ASSISTANT_DB"] = before


def given(graph: Any, state: dict[str, Any], config: Any) -> None:
    """Puts what a scenario gives into a thread that has not begun, as if a turn were over."""
    if "messages" in state:
        state["messages"] = [_message(one) for one in state["messages"]]
    graph.update_state(config, state, as_node="synthesis")


def _message(said: dict[str, Any]) -> AnyMessage:
    return HumanMessage(said["user"]) if "user" in said else AIMessage(said["assistant"])
