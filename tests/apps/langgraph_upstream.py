"""Plays the quick starts that LangGraph's packages carry in their descriptions, as they stand.

A block of Python is run as a script in one turn, its own calls of the graph too; what the script
asks stands in it. So what is tested is what the installed version tells people to write.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import metadata
from typing import Any

from langgraph.graph import StateGraph as StateGraph

Script = Callable[[str], Any]


def blocks_of(package: str) -> list[str]:
    """Returns the blocks of Python in a package's description."""
    value: Any = metadata(package)
    text = str(value.get_payload() or value["Description"])
    return re.findall(r"```python[^\n]*\n(.*?)```", text, flags=re.DOTALL)


def _played(package: str, *places: int) -> Script:
    """Returns a function that runs blocks as one script; its result is the last state's."""

    def play(text: str) -> Any:
        blocks = blocks_of(package)
        names: dict[str, Any] = {"__name__": "quick_start"}
        for place in places:
            exec(compile(blocks[place], f"{package}_{place}.py", "exec"), names)
        values = (names.get(name) for name in ("turn_2", "result", "response"))
        return next((value for value in values if value is not None), None)

    return play


supervisor = _played("langgraph-supervisor", 0)
functional_supervisor = _played("langgraph-supervisor", 10)
swarm = _played("langgraph-swarm", 0)
react = _played("langgraph-prebuilt", 0)
memories = _played("langmem", 0, 1)
deep = _played("deepagents", 0)
