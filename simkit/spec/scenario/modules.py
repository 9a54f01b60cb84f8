"""Modules by their files: their place and their definitions. Nothing is imported."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

from simkit.language.yaml import near

NAMES_MAX: Final = 8
_USUAL: Final = ("graph", "agent", "root_agent", "app", "run", "ask", "chat", "main")
"""Usual names of pipelines; these come first."""


def meant_by(name: str, folders: Sequence[str]) -> str:
    """Describe the correct name for code that was named by its module, or with a dot for the colon.

    Empty if there is no module of that name. A single word is searched in the folders only, since
    Python has modules of many names.
    """
    file = file_of(name, [*folders, *sys.path] if "." in name else folders)
    names = names_in(file) if file is not None else []
    if names:
        return f"`{name}` is a module. Name what it holds: `{name}:{names[0]}`.{it_has(names)}"
    module, _, word = name.rpartition(".")
    file = file_of(module, [*folders, *sys.path]) if module else None
    names = names_in(file) if file is not None else []
    if not names or word in names:
        return ""
    nearest = near(word, names)
    hint = f" Did you mean `{module}:{nearest}`?" if nearest else ""
    return f"Module `{module}` defines no `{word}`.{hint}{it_has(names)}"


def it_has(names: Sequence[str]) -> str:
    """Return a sentence that lists the names in a module; the first ones of many."""
    more = ", …" if len(names) > NAMES_MAX else ""
    return f" It has: {', '.join(names[:NAMES_MAX])}{more}."


def file_of(module: str, folders: Iterable[str]) -> Path | None:
    """Return the file of a dotted module in these folders; None if there is none."""
    where = [*folders]
    path: Path | None = None
    for part in module.split("."):
        spec = PathFinder.find_spec(part, where)
        if spec is None:
            return None
        path = Path(spec.origin) if spec.has_location and spec.origin else None
        where = list(spec.submodule_search_locations or ())
    return path


_ROOT_FILES: Final = ("pyproject.toml", "setup.py", "setup.cfg", "langgraph.json", ".git")
"""Files that only the top folder of a project has."""
_BELOW: Final = ("", "src", "lib", "app")
"""Folders in which projects keep their packages."""
_UP_MAX: Final = 4
_UP_WITHOUT_ROOT: Final = 2
"""How many folders upwards are searched, if nothing marks the project's top folder."""


def project_folders(start: Path) -> Iterator[Path]:
    """Yield a folder and those above it in the same project, the nearest first."""
    folders = [start, *start.parents[:_UP_MAX]]
    tops = (place for place, folder in enumerate(folders) if holds_root_file(folder))
    yield from folders[: next(tops, _UP_WITHOUT_ROOT) + 1]


def holds_root_file(folder: Path) -> bool:
    """Return whether a folder is the top of a project."""
    return any((folder / name).exists() for name in _ROOT_FILES)


def folder_with(module: str, start: Path) -> Path | None:
    """Return the folder of a project from which a module is imported; None if there is none.

    The search starts at ``start`` and goes upwards to the project's top folder. In each folder it
    tries the usual places for packages.
    """
    for above in project_folders(start.resolve()):
        for below in _BELOW:
            folder = above / below
            if file_of(module, [str(folder)]) is not None:
                return folder
    return None


def names_in(file: Path) -> list[str]:
    """Return the names in a module's text that may be a pipeline, likely ones first."""
    try:
        body = ast.parse(file.read_text(encoding="utf-8")).body
    except (OSError, SyntaxError, ValueError):
        return []
    names_ = [*_called(body), *_assigned_names(body)]
    names = dict.fromkeys(name for name in names_ if not name.startswith("_"))
    return sorted(names, key=lambda name: _USUAL.index(name) if name in _USUAL else len(_USUAL))


def _called(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the functions and classes."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name


def _assigned_names(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the objects made by calls: a graph, an agent; a client too, so they come last."""
    for node in body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Call):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))
