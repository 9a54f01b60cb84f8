"""What surrounds somebody's pipeline while a scenario runs: environment, modules, setup."""

from __future__ import annotations

import inspect
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any, Final

from simkit.adapters.own_modules import OwnModules
from simkit.core.errors import DirectoryGone
from simkit.providers.protocols import PROTOCOLS
from simkit.spec.scenario.apps import App

DUMMY_KEY: Final = "simkit"
"""Long enough for clients that refuse to be built without a key, and nobody's."""
_OFFLINE: Final = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
"""What keeps libraries from the network while they are imported."""


@contextmanager
def surroundings(
    app: App, find: Callable[[str], Callable[..., Any]], keeps_keys: bool = False
) -> Iterator[None]:
    """Put the pipeline's surroundings in place, and take them away.

    ``find`` returns a function by its name. API keys that the environment holds are replaced by
    dummies, so that they are in no trace, unless real traffic is wanted (``keeps_keys``).
    Environment and modules are the whole process's: scenarios that run at once share them.
    """
    keys = {name: DUMMY_KEY for protocol in PROTOCOLS.values() for name in protocol.keys}
    if keeps_keys:
        keys = {name: value for name, value in keys.items() if name not in os.environ}
    offline = {name: value for name, value in _OFFLINE.items() if name not in os.environ}
    folders = app.folders()
    with (
        _directory(),
        _environment({**keys, **offline, **app.options.env}),
        _imported_from(folders),
        _modules(app, folders),
        _set_up(app, find),
    ):
        yield


@contextmanager
def _directory() -> Iterator[None]:
    """Come back to the working directory, which setups and pipelines may change."""
    try:
        before = os.getcwd()
    except OSError as problem:
        raise DirectoryGone(problem.strerror) from None
    try:
        yield
    finally:
        with suppress(OSError):
            os.chdir(before)


class _Variable:
    """One environment variable that scenarios set: what it was, and what each wants it to be."""

    __slots__ = ("before", "values")

    def __init__(self, name: str) -> None:
        self.before = os.environ.get(name)
        self.values: list[str] = []


_variables: Final[dict[str, _Variable]] = {}
_folders: Final[Counter[str]] = Counter()
"""How many scenarios import from a folder that was not on `sys.path`."""
_lock: Final = threading.Lock()


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    with _lock:
        for name, value in values.items():
            _variables.setdefault(name, _Variable(name)).values.append(value)
        os.environ.update(values)
    try:
        yield
    finally:
        with _lock:
            for name, value in values.items():
                _forget(name, value)


def _forget(name: str, value: str) -> None:
    """Give a variable the value that the other scenarios want, or that it had before them."""
    variable = _variables[name]
    variable.values.remove(value)
    if variable.values:
        os.environ[name] = variable.values[-1]
        return
    del _variables[name]
    if variable.before is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = variable.before


@contextmanager
def _imported_from(folders: list[str]) -> Iterator[None]:
    with _lock:
        added = [folder for folder in folders if folder not in sys.path or _folders[folder]]
        for folder in reversed(added):
            if not _folders[folder]:
                sys.path.insert(0, folder)
            _folders[folder] += 1
    try:
        yield
    finally:
        with _lock:
            for folder in added:
                _folders[folder] -= 1
                if not _folders[folder] and folder in sys.path:
                    sys.path.remove(folder)


@contextmanager
def _modules(app: App, folders: list[str]) -> Iterator[None]:
    """Forget modules of the pipeline's name that are another's; its own, if they are to be
    imported anew, only for as long as it runs."""
    home = app.entry.partition(":")[0].partition(".")[0]
    if _is_from_elsewhere(home, folders):
        forget_modules(home)
    if not (app.options.fresh or app.is_apart):
        yield
        return
    own = OwnModules(app)
    before = own.forget()
    try:
        yield
    finally:
        own.forget()
        sys.modules.update(before)


def _is_from_elsewhere(home: str, folders: list[str]) -> bool:
    """Return whether the module of a name that is imported is not the one in the scenario's
    folders."""
    loaded = sys.modules.get(home)
    if loaded is None or not folders:
        return False
    local_spec = PathFinder.find_spec(home, folders)
    return local_spec is not None and local_spec.origin != getattr(
        loaded.__spec__, "origin", local_spec.origin
    )


def forget_modules(home: str) -> dict[str, ModuleType]:
    """Let a package be imported anew; return its modules that were."""
    names = [name for name in sys.modules if name == home or name.startswith(f"{home}.")]
    return {name: sys.modules.pop(name) for name in names}


@contextmanager
def _set_up(app: App, find: Callable[[str], Callable[..., Any]]) -> Iterator[None]:
    if app.options.setup is None:
        yield
        return
    result = find(app.options.setup)()
    if not inspect.isgenerator(result):
        yield
        return
    next(result, None)
    try:
        yield
    finally:
        for _ in result:
            pass
