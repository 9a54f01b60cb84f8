"""Modules of a pipeline: the one that a scenario names, or advice to find it, and its others."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import SOURCE_SUFFIXES, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from simkit.adapters.entry import found_as, home_of
from simkit.adapters.libraries import extra_for, install
from simkit.core.determinism.imports import is_library
from simkit.core.errors import FunctionMissing, ScriptBroken
from simkit.language.yaml import near
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.modules import folder_with

_NEVER: Final = frozenset(("__main__", "conftest"))
"""Modules that were imported before any scenario."""


class OwnModules:
    """The modules that belong to a pipeline.

    These are the top-level package that it names, and modules below the folders of ``app.path`` or
    beside that package's module, except installed ones and those not written in Python.
    """

    def __init__(self, app: App) -> None:
        self._home = home_of(app.entry)
        self._paths = app.folders()
        self._folders: tuple[str, ...] | None = None

    def has(self, name: str, file: str) -> bool:
        """Return whether a module with a name and a file is one of them."""
        if name == self._home or name.startswith(f"{self._home}."):
            return True
        if name.partition(".")[0] in _NEVER:
            return False
        if self._folders is None:
            self._folders = tuple(self._own_folders())
        return self._is_below(file) and file.endswith(tuple(SOURCE_SUFFIXES))

    def forget(self) -> dict[str, ModuleType]:
        """Remove them from `sys.modules`; return the removed ones."""
        names = [name for name, module in [*sys.modules.items()] if self._is_own(name, module)]
        return {name: sys.modules.pop(name) for name in names}

    def _is_own(self, name: str, module: Any) -> bool:
        file = getattr(module, "__file__", None)
        if file is not None or self.has(name, ""):
            return self.has(name, str(file))
        # A folder without `__init__.py` is a package whose modules are its attributes.
        folders = [str(folder) for folder in getattr(module, "__path__", None) or ()]
        return bool(folders) and all(map(self._is_below, folders))

    def _is_below(self, file: str) -> bool:
        return file.startswith(self._folders or ()) and not is_library(file)

    def _own_folders(self) -> Iterator[str]:
        for folder in (*self._paths, *self._sibling_names()):
            for path in {folder, os.path.realpath(folder)}:
                yield os.path.join(path, "")

    def _sibling_names(self) -> Iterable[str]:
        """Return the folder of the pipeline's module, or those of its package."""
        module = sys.modules.get(self._home)
        spec = getattr(module, "__spec__", None) or PathFinder.find_spec(
            self._home, [*self._paths, *sys.path]
        )
        if spec is None:
            return ()
        if spec.submodule_search_locations is not None:
            return [os.path.abspath(folder) for folder in spec.submodule_search_locations]
        return [os.path.dirname(os.path.abspath(spec.origin))] if spec.origin else ()


# The ``langgraph.json`` of an application


FILE: Final = "langgraph.json"


def server_file(folder: Path) -> Path | None:
    """Return the nearest ``langgraph.json`` in a folder or above it."""
    above = os.path.realpath(folder)
    while True:
        file = os.path.join(above, FILE)
        if os.path.isfile(file):
            return Path(file)
        below, above = above, os.path.dirname(above)
        if above == below:
            return None


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
        return f"{FILE}: none in {_path_from_here(folder)} or above"
    graphs = graphs_of(file)
    named = ", ".join(f"{name} → {place}" for name, place in graphs.items())
    text = f"{FILE}: {_path_from_here(file)} names {named or 'no graph that simkit can read'}"
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


def _path_from_here(path: Path) -> str:
    short_path = Path(os.path.relpath(path)).as_posix()
    return short_path if short_path != "." else "this folder"


# The pipeline's module


def entry_of(app: App) -> Any:
    """Return the object that a scenario names as its pipeline.

    Raise FunctionMissing, with the correct name, or the place of a module with this name.
    """
    entry = app.entry
    try:
        return found_as(entry)
    except FunctionMissing as problem:
        module, _, name = entry.partition(":")
        if module.endswith(".py"):
            raise FunctionMissing(
                f"`{entry}` names a file. Name its module: `{module.removesuffix('.py')}:{name}`.",
                entry,
            ) from None
        home = home_of(entry)
        cause = problem.__cause__
        extra = extra_for(cause.name or "") if isinstance(cause, ModuleNotFoundError) else ""
        if extra:
            raise FunctionMissing(
                f"{problem.what}\nFor the framework of that name, with what simkit needs to see "
                f"inside it: `{install(extra)}`.",
                entry,
            ) from cause
        if home in sys.modules or find_spec(home) is not None:
            raise
        raise FunctionMissing(f"{problem.what}\n{_advice(app, home)}", entry) from None


def module_missing(app: App) -> str:
    """Describe where a module that a scenario names as its pipeline is looked for, and lies."""
    home = home_of(app.entry)
    return (
        f"program `{app.entry}`: there is no module {app.entry!r} that runs. "
        f"It is looked for in the working directory and on sys.path.\n{_advice(app, home)}"
    )


def check_folders(app: App) -> None:
    """Raise ScriptBroken for a missing folder under ``app.path``."""
    for place, path in enumerate(app.options.path):
        # Resolved, since the file's own folder may not exist yet.
        resolved = os.path.realpath(os.path.join(app.folder, path))
        if not os.path.isdir(resolved):
            folder = Path(resolved)
            problem = f"`{path}` is a file" if folder.is_file() else f"there is no folder `{path}`"
            siblings = [folder_.name for folder_ in folder.parent.glob("*") if folder_.is_dir()]
            nearest = near(folder.name, siblings)
            hint = f" Did you mean `{(Path(path).parent / nearest).as_posix()}`?" if nearest else ""
            raise ScriptBroken(
                f"{problem}, seen from the folder of this file.{hint}\n"
                f"{_advice(app, home_of(app.entry))}",
                ("app", "path", place),
            )


def check_imported(app: App) -> None:
    """Raise ScriptBroken if no module was imported from the folders of ``app.path``."""
    folders = [
        os.path.join(os.path.realpath(os.path.join(app.folder, path)), "")
        for path in app.options.path
    ]
    home = sys.modules.get(home_of(app.entry))
    if not folders or home is None or _is_below(home, folders):
        return
    if any(_is_below(module, folders) for module in list(sys.modules.values())):
        return
    file_there = _file_of(home)
    raise ScriptBroken(
        f"nothing was imported from {', '.join(f'`{path}`' for path in app.options.path)}: module "
        f"{home_of(app.entry)!r} is "
        f"{_short_path(file_there, app) if file_there else 'part of Python'}.\n"
        "Name the folder of the module that is meant, or leave `path` out.",
        ("app", "path"),
    )


def _is_below(module: Any, folders: list[str]) -> bool:
    """Return whether a module's file is below one of the folders, which end with a separator."""
    file = _file_of(module)
    return file is not None and file.startswith(tuple(folders))


def _file_of(module: Any) -> str | None:
    """Return the real path of a module's file, or of a file in its folder."""
    names = getattr(module, "__dict__", {})  # Not by attribute: some modules are lazy.
    file = names.get("__file__")
    if file is None:
        file = next((os.path.join(place, "*") for place in names.get("__path__") or ()), None)
    return os.path.realpath(file) if isinstance(file, str) else None


def _short_path(path: str | Path, app: App) -> str:
    return Path(os.path.relpath(path, app.folder)).as_posix()


def _advice(app: App, home: str) -> str:
    folder = folder_with(app.entry.partition(":")[0], Path(app.folder))
    if folder is None:
        offer = hint_from(Path(app.folder))
        if offer:
            return offer
        nearest = near(home, _others_beside(app, home))
        if nearest:
            return f"Did you mean {nearest!r}?"
        return f"Name the folder that {home!r} is in, from this file's: `app: {{path: [..]}}`."
    path_text = _short_path(folder, app)
    where = "beside this file" if path_text == "." else "in another folder than this file"
    return f"Module {home!r} is {where}: `app: {{path: [{path_text}]}}`."


def _others_beside(app: App, home: str) -> list[str]:
    """Return the other modules and packages beside a file, and in its folders."""
    folders = [Path(app.folder, path) for path in (".", *app.options.path)]
    modules = [file.stem for folder in folders for file in folder.glob("*.py")]
    packages = [file.parent.name for folder in folders for file in folder.glob("*/*.py")]
    return sorted({*modules, *packages} - {home})
