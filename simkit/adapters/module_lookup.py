"""Module lookup: the pipeline's module that a scenario names, or advice to find it."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from simkit.adapters.entry import found_as, home_of
from simkit.adapters.libraries import extra_for, install
from simkit.adapters.server_files import hint_from
from simkit.core.errors import FunctionMissing, ScriptBroken
from simkit.language.yaml import near
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.modules import folder_with


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
        folder = (Path(app.folder) / path).resolve()
        if not folder.is_dir():
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
    folders = [(Path(app.folder) / path).resolve() for path in app.options.path]
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


def _is_below(module: Any, folders: list[Path]) -> bool:
    file = _file_of(module)
    return file is not None and any(folder in Path(file).parents for folder in folders)


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
