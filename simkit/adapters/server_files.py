"""The ``langgraph.json`` of an application: its place, and the graphs that it names."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FILE: Final = "langgraph.json"


def server_file(folder: Path) -> Path | None:
    """Return the nearest ``langgraph.json`` in a folder or above it."""
    folder = folder.resolve()
    files = (above / FILE for above in (folder, *folder.parents))
    return next((file for file in files if file.is_file()), None)


def graphs_of(file: Path) -> Mapping[str, str]:
    """Return the graphs in a file, as ``path/of/module.py:name``; none for an invalid file."""
    try:
        graphs = json.loads(file.read_text("utf-8"))["graphs"]
        return {
            str(name): str(graph["path"] if isinstance(graph, dict) else graph)
            for name, graph in graphs.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def server_text(folder: Path, entry: str = "") -> str:
    """Return a text about the ``langgraph.json`` that applies to a folder.

    With ``entry``, an imported pipeline, it says whether the file names it.
    """
    file = server_file(folder)
    if file is None:
        return f"{FILE}: none in {_short_path(folder)} or above"
    graphs = graphs_of(file)
    named = ", ".join(f"{name} → {place}" for name, place in graphs.items())
    text = f"{FILE}: {_short_path(file)} names {named or 'no graph that simkit can read'}"
    if not entry:
        return text
    module, _, name = entry.partition(":")
    module_file = str(getattr(sys.modules.get(module), "__file__", None) or "")
    is_named = any(
        (file.parent / place.rpartition(":")[0]).resolve() == Path(module_file).resolve()
        and place.rpartition(":")[2] == name
        for place in graphs.values()
    )
    gets = "has the server's checkpointer and store" if is_named else "has only what it made itself"
    return f"{text}\n`{entry}` is {'' if is_named else 'not '}named there, so it {gets}"


def hint_from(folder: Path) -> str:
    """Return the pipelines that the nearest ``langgraph.json`` offers; empty if it names none."""
    file = server_file(folder)
    graphs = graphs_of(file) if file is not None else {}
    if file is None or not graphs:
        return ""
    offers = []
    for place in graphs.values():
        path, _, name = place.rpartition(":")
        module = (file.parent / path).resolve()
        path_there = Path(os.path.relpath(module.parent, folder)).as_posix()
        offers.append(f"`pipeline: {module.stem}:{name}` with `app: {{path: [{path_there}]}}`")
    short_path = Path(os.path.relpath(file, folder)).as_posix()
    return f"`{short_path}` names {', '.join(graphs)}: {' or '.join(offers)}."


def _short_path(path: Path) -> str:
    short_path = Path(os.path.relpath(path)).as_posix()
    return short_path if short_path != "." else "this folder"
