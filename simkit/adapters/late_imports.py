"""Frameworks that a pipeline imports while it runs: their adapters are on before they are used.

A driver that imports the application inside its function is usual. An adapter that went on with the
next turn only would make the verdict depend on what ran before in the same process.

A framework's adapter is imported when Python looks for the framework's package for the first time,
so before any of the framework's own modules is half imported: adapters import many of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock, local
from types import ModuleType
from typing import Any, Final

from simkit.adapters.scoping import ContextListeners
from simkit.capture.http.places import is_library

Imported = Callable[[str], None]
"""Is called with the name of a package that is about to be imported."""

_ears: Final = ContextListeners[Imported]("simkit_late_imports")


@contextmanager
def watching_imports(packages: Collection[str], imported: Imported) -> Iterator[None]:
    """Call ``imported`` where code of this context begins to import one of some packages.

    By the time it returns, the package may be imported; the code that asked gets the same module.
    A package of the user's own that has a framework's name is left alone.
    """
    with _finder.watching(packages), _ears.activate(imported):
        yield


class _Finder:
    """Stands first on Python's list of finders while somebody watches."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._watched: list[str] = []
        self._inside = local()

    @contextmanager
    def watching(self, packages: Collection[str]) -> Iterator[None]:
        """Watch some packages more."""
        with self._lock:
            self._watched += packages
            if self not in sys.meta_path:
                sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            with self._lock:
                for package in packages:
                    self._watched.remove(package)
                if not self._watched and self in sys.meta_path:
                    sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how the package was imported meanwhile, or None, so that others look for it."""
        # What one framework imports of another is found once the first one is imported whole.
        if name not in self._watched or getattr(self._inside, "is_importing", False):
            return None
        imported = _ears.current()
        if imported is None or _is_users(name, path):
            return None
        self._inside.is_importing = True
        try:
            imported(name)
        finally:
            self._inside.is_importing = False
        module = sys.modules.get(name)
        return ModuleSpec(name, _Loaded(module)) if module is not None else None


_finder: Final = _Finder()


class _Loaded(Loader):
    """Loads a module that was imported while it was looked for."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module as it is."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is; Python has given it the spec that led here."""
        module.__spec__ = self._spec


def _is_users(name: str, path: Any) -> bool:
    spec = PathFinder.find_spec(name, path)
    return spec is not None and spec.origin is not None and not is_library(spec.origin)
