"""Late imports: adapters of frameworks that a pipeline imports while it runs.

Drivers that import the application inside their function are usual. If an adapter were switched on
only in the next turn, the result would depend on earlier runs in the same process.

A framework's adapter is imported when Python first looks for the framework's package, so before any
of the framework's modules is half imported: adapters import many of them.
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
"""Called with the name of a package that is about to be imported."""

_ears: Final = ContextListeners[Imported]("simkit_late_imports")


@contextmanager
def watching_imports(packages: Collection[str], imported: Imported) -> Iterator[None]:
    """Call ``imported`` when code of this context begins to import one of the packages.

    When it returns, the package may be imported; the importing code gets the same module. A user's
    own package with a framework's name is ignored.
    """
    with _finder.watching(packages), _ears.activate(imported):
        yield


class _Finder:
    """The first of Python's finders while anybody watches."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._watched: list[str] = []
        self._inside = local()

    @contextmanager
    def watching(self, packages: Collection[str]) -> Iterator[None]:
        """Watch further packages."""
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
        """Return the spec of a package that was imported meanwhile, or None for other finders."""
        # Imports between frameworks are found once the first one is imported completely.
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
    """A loader of a module that was imported during the search."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module as it is."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is; Python has given it this spec."""
        module.__spec__ = self._spec


def _is_users(name: str, path: Any) -> bool:
    spec = PathFinder.find_spec(name, path)
    return spec is not None and spec.origin is not None and not is_library(spec.origin)
