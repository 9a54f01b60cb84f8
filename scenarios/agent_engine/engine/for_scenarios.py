"""How a scenario begins with memory that is there already."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engine.memory import Memory


def begin(graph: Any, state: dict[str, Any], config: dict[str, Any], project: str) -> None:
    """Keeps what a scenario gives in the graph's store."""
    memory = Memory(graph.store, project)
    for tier, items in state.items():
        for item in items:
            memory.keep(tier, item)


def database() -> Iterator[None]:
    """Names a new database for as long as a scenario runs."""
    before = os.environ.get("ENGINE_DB")
    with TemporaryDirectory() as folder:
        os.environ["ENGINE_DB"] = str(Path(folder) / "engine.sqlite")
        try:
            yield
        finally:
            if before is None:
                del os.environ["ENGINE_DB"]
            else:
                os.environ["ENGINE_DB"] = before
