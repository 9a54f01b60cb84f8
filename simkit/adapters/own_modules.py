"""Own modules of a pipeline: those below its folders, and those of its package."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import SOURCE_SUFFIXES, PathFinder
from types import ModuleType
from typing import Any, Final

from simkit.adapters.entry import home_of
from simkit.core.determinism.imports import is_library
from simkit.spec.scenario.apps import App

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
