"""Where a pipeline's module is: what a scenario names, or what it would have to say to find it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from simkit.adapters.entry import found_as, home_of
from simkit.adapters.libraries import extra_for, install
from simkit.errors import FunctionMissing
from simkit.scenario.apps import App

_BELOW: Final = ("", "src", "lib", "app")
"""Where projects keep their packages."""
_UP_MAX: Final = 4


def entry_of(app: App) -> Any:
    """Returns what a scenario names as its pipeline.

    Raises FunctionMissing, which says how the module is named, or where one of its name lies.
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


def _advice(app: App, home: str) -> str:
    folder = next(_folders(Path(app.folder), home), None)
    if folder is None:
        return "Name the folder that it is in, from this file's: `app: {path: [..]}`."
    shown = Path(os.path.relpath(folder, app.folder)).as_posix()
    return (
        f"It is beside this file: `app: {{path: [{shown}]}}`."
        if shown == "."
        else (f"It is in another folder than this file: `app: {{path: [{shown}]}}`.")
    )


def _folders(start: Path, home: str) -> Iterator[Path]:
    """Yields the folders around a file's that hold a module of a name, the nearest first."""
    start = start.resolve()
    for above in (start, *start.parents[:_UP_MAX]):
        for below in _BELOW:
            folder = above / below
            if (folder / f"{home}.py").is_file() or any((folder / home).glob("*.py")):
                yield folder
