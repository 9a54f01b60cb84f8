"""LangGraph's server: the memory and the context that it gives a graph in `langgraph.json`.

Applications written for the server compile their graphs without a checkpointer and a store, and
rely on the server to add them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel import Pregel
from langgraph.store.memory import InMemoryStore

from simkit.adapters.api import found_as
from simkit.adapters.modules import graphs_of, server_file


class Server:
    """The server's services for one application's graph during a run, restarts included."""

    def __init__(self) -> None:
        self._defaults: Mapping[str, Any] = {
            "checkpointer": InMemorySaver(),
            "store": InMemoryStore(),
        }

    def serving(self, graph: Pregel) -> Pregel:
        """Return the graph with the services that it lacks."""
        lacks = {n: default for n, default in self._defaults.items() if getattr(graph, n) is None}
        return graph.copy(lacks)


def context_of(graph: Pregel) -> Mapping[str, Any] | None:
    """Return the empty context that a graph accepts; None if it needs more."""
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
    """Yield the imported objects that a `langgraph.json` names."""
    names: dict[Path, list[str]] = {}
    endings: set[str] = set()
    for graph in graphs_of(file).values():
        place, _, name = graph.rpartition(":")
        where = (file.parent / place).resolve()
        names.setdefault(where, []).append(name)
        endings |= {where.name, os.path.basename(place)}
    # It looks before each conversation, and thousands of modules are loaded: it resolves the path
    # of a module only if its file may be one of these.
    for module in list(sys.modules.values()):
        own = getattr(module, "__dict__", {})
        source = own.get("__file__")
        if isinstance(source, str) and os.path.basename(source) in endings:
            for name in names.get(Path(source).resolve(), ()):
                yield own.get(name)
