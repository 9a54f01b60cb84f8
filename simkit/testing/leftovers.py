"""Leftovers of an adapter in a framework, or in an application's objects."""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

from simkit.adapters import observation

DEPTH_MAX: Final = 3
"""The depth to which an application's objects are searched."""
_WRAPPERS: Final = str(observation.__file__)
"""The file of `ContextListeners.wrap`, which makes functions for adapters."""


def left_behind(
    adapter: ModuleType, frameworks: Collection[str], application: ModuleType
) -> list[str]:
    """Return the places of an adapter's objects in its framework or in an application.

    ``frameworks`` are top-level packages. Modules, classes, and the objects in the application's
    module are searched.
    """
    search = _Search(adapter)
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] in frameworks and not search.is_own(name):
            search.look_at(vars(module), name, frameworks)
    search.look_into(vars(application), application.__name__, DEPTH_MAX)
    return search.leftovers


class _Search:
    def __init__(self, adapter: ModuleType) -> None:
        file = Path(adapter.__file__ or "")
        is_package = file.name == "__init__.py"
        self._home, self._name = str(file.parent if is_package else file), adapter.__name__
        self._visited: set[int] = set()
        self.leftovers: list[str] = []

    def is_own(self, name: str) -> bool:
        """Return whether a module is the adapter's."""
        return name == self._name or name.startswith(f"{self._name}.")

    def look_at(self, names: Mapping[str, Any], where: str, frameworks: Collection[str]) -> None:
        """Search the values of a module, and its classes."""
        for name, value in list(names.items()):
            self._check(value, f"{where}.{name}")
            if isinstance(value, type) and value.__module__.partition(".")[0] in frameworks:
                self.look_at_class(value)

    def look_at_class(self, kind: type) -> None:
        """Search the values of a class, once."""
        if id(kind) not in self._visited:
            self._visited.add(id(kind))
            for name, value in list(vars(kind).items()):
                self._check(value, f"{kind.__module__}.{kind.__qualname__}.{name}")

    def look_into(self, values: Mapping[Any, Any], where: str, depth: int) -> None:
        """Search objects, and their values."""
        for name, value in list(values.items()):
            place = f"{where}.{name}"
            if id(value) in self._visited or isinstance(value, (type, ModuleType)):
                continue
            self._visited.add(id(value))
            self._check(value, place)
            if depth:
                self.look_into(dict(_references(value)), place, depth - 1)

    def _check(self, value: Any, where: str) -> None:
        value = getattr(value, "__func__", value)
        while isinstance(value, (functools.partial, MethodType)):
            value = value.func if isinstance(value, functools.partial) else value.__func__
        home = type(value).__module__
        is_mine = isinstance(home, str) and self.is_own(home)
        if isinstance(value, FunctionType):
            is_mine = value.__code__.co_filename.startswith((self._home, _WRAPPERS))
        if is_mine:
            self.leftovers.append(where)


def _references(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, (list, tuple)):
        yield from enumerate(value)
    else:
        yield from getattr(value, "__dict__", {}).items()
