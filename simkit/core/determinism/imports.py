"""Imports: a module reads and draws the same values, whichever scenario imports it first."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import machinery
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from simkit.core.determinism import library_rng
from simkit.core.determinism.worlds import current_world, world_of_import

OURS: Final = str(Path(__file__).parent.parent.parent)
_STANDARD: Final = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
_COMMANDS: Final = frozenset(
    os.path.dirname(path) for path in (sys.executable, os.path.realpath(sys.executable))
).union([sysconfig.get_path("scripts")])
"""The folders of installed commands: `simkit`, `pytest`, which call what is installed."""


@lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """Return whether a file is the standard library's, an installed package's or simkit's own.

    The small scripts by which installed commands start are libraries, too.
    """
    if file.startswith("<frozen ") or os.path.dirname(file) in _COMMANDS:
        return True
    folders = Path(file).parts
    return (
        "site-packages" in folders
        or "dist-packages" in folders
        or any(Path(file).is_relative_to(folder) for folder in (OURS, *_STANDARD))
    )


_LOADERS: Final = (
    ("importlib.machinery", "SourceFileLoader"),
    ("_pytest.assertion.rewrite", "AssertionRewritingHook"),
)
"""The loaders that run a module's code: Python's own, and pytest's for test modules."""


def loaders() -> Iterator[type]:
    """Yield the classes whose ``exec_module`` runs modules."""
    for module, name in _LOADERS:
        loaded = machinery if module == "importlib.machinery" else sys.modules.get(module)
        kind = getattr(loaded, name, None)
        if kind is not None:
            yield next(base for base in kind.__mro__ if "exec_module" in vars(base))


def exec_module(
    before: Callable[..., Any], arrived: Callable[[str], None]
) -> Callable[[Any, ModuleType], None]:
    """Return an ``exec_module`` that runs a module in its own world, if a world is current.

    ``arrived`` is called with the name of every module that was imported.
    """

    def carry_out(self: Any, module: ModuleType) -> None:
        world = current_world()
        if world is None:
            before(self, module)
            return
        file = getattr(module, "__file__", None) or ""
        with world.importing(module.__name__, is_library(file)).at_work():
            before(self, module)
        arrived(module.__name__)
        library_rng.arrived(module.__name__)

    return carry_out


@contextmanager
def imported_here(module: str) -> Iterator[None]:
    """Import a user's module inside as every scenario would, when no scenario runs yet."""
    if module in sys.modules or current_world() is not None:
        yield
        return
    with world_of_import(module, is_library=False).at_work():
        yield
