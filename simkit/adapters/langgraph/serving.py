"""What LangGraph's server gives a graph that a `langgraph.json` names: a memory, and a context.

Applications that are written for the server compile their graphs without a checkpointer and a
store, and rely on it to put them there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel import Pregel
from langgraph.store.memory import InMemoryStore

from simkit.adapters.entry import found_as
from simkit.adapters.server_files import graphs_of, server_file


class Server:
    """Stands beside one application's graph for as long as a run lasts, restarts too."""

    def __init__(self) -> None:
        self._defaults: Mapping[str, Any] = {
            "checkpointer": InMemorySaver(),
            "store": InMemoryStore(),
        }

    def serving(self, graph: Pregel) -> Pregel:
        """Return the graph with what it has not of its own."""
        lacks = {n: default for n, default in self._defaults.items() if getattr(graph, n) is None}
        return graph.copy(lacks)


def context_of(graph: Pregel) -> Mapping[str, Any] | None:
    """Return the empty context that a graph can be called with; None where it needs more."""
    schema = graph.context_schema
    if schema is None:
        return None
    try:
        schema()
    except (TypeError, ValueError):
        return None
    return {}


def server_for(subject: Any, entry: str) -> Server | None:
    """Return the server of an application, if a `langgraph.json` above its module names it."""
    module = sys.modules.get(entry.partition(":")[0])
    file = getattr(module, "__file__", None)
    if file is None:
        return None
    named = server_file(Path(file).parent)
    if named is None:
        return None
    known = (subject, found_as(entry))
    return Server() if any(name in known for name in _served_by(named)) else None


def _served_by(file: Path) -> Iterator[Any]:
    """Yield what a `langgraph.json` names, as far as it is imported."""
    for graph in graphs_of(file).values():
        place, _, name = graph.rpartition(":")
        where = (file.parent / place).resolve()
        for module in list(sys.modules.values()):
            if getattr(module, "__file__", None) and Path(str(module.__file__)).resolve() == where:
                yield vars(module).get(name)
