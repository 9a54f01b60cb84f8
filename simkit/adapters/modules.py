"""Modules of a pipeline: the one that a scenario names, or advice to find it, and those it uses.

simkit reads which modules the pipeline's own code uses, without running it: those of its package,
and user code that they import or hold objects of, also imports inside functions. *Not seen*: names
that are built at run time, and functions that others put into a module at run time.
"""

from __future__ import annotations

import dis
import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from importlib.machinery import SOURCE_SUFFIXES, ModuleSpec, PathFinder
from importlib.util import find_spec, resolve_name
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary

from simkit.adapters.entry import found_as, home_of
from simkit.capture.http.places import is_library
from simkit.core.compat import extra_for
from simkit.core.errors import FunctionMissing, ScriptBroken
from simkit.core.requirements import install_command
from simkit.core.text import guess
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.code_names import folder_with

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
        names = (app.entry, app.options.setup or app.entry)
        self._entries = frozenset(name.partition(":")[0] for name in names)
        self._others: dict[str, ModuleType] = {}
        """Modules that are none of them: frameworks have thousands, and a run asks twice."""

    def __call__(self, name: str, file: str) -> bool:
        """Return whether a module with a name and a file is one of them."""
        if name == self._home or name.startswith(f"{self._home}."):
            return True
        if name.partition(".")[0] in _NEVER:
            return False
        return self._is_below(file) and file.endswith(tuple(SOURCE_SUFFIXES))

    @cached_property
    def _folders(self) -> tuple[str, ...]:
        return tuple(self._own_folders())

    def names(self) -> list[str]:
        """Return the names of those that are imported."""
        return [name for name, module in sys.modules.copy().items() if self._is_own(name, module)]

    def used_names(self) -> list[str]:
        """Return the names of those that the entry and the setup use.

        A package of hundreds of modules may hold many pipelines. All are used if code that is
        reached imports modules with names built at run time.
        """
        reached, imports_others = _reach_of(self._home, self._entries)
        if imports_others:
            return self.names()
        modules = [(name, sys.modules.get(name)) for name in sorted(reached)]
        return [name for name, module in modules if module and self._is_own(name, module)]

    def forget(self) -> dict[str, ModuleType]:
        """Remove them from `sys.modules`; return the removed ones."""
        removed = {name: sys.modules.pop(name) for name in self.names()}
        self._others = sys.modules.copy()
        return removed

    def _is_own(self, name: str, module: Any) -> bool:
        if self._others.get(name) is module:
            return False
        file = getattr(module, "__file__", None)
        if file is not None or self(name, ""):
            return self(name, str(file))
        # A folder without `__init__.py` is a package whose modules are its attributes.
        folders = [str(folder) for folder in getattr(module, "__path__", None) or ()]
        return bool(folders) and all(map(self._is_below, folders))

    def _is_below(self, file: str) -> bool:
        return file.startswith(self._folders) and not is_library(file)

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
    above = Path(os.path.realpath(folder))
    files = (each / FILE for each in (above, *above.parents))
    return next((file for file in files if os.path.isfile(file)), None)


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


def hint_from(folder: Path) -> str:
    """Return the pipelines that the nearest ``langgraph.json`` offers; empty if it names none."""
    file = server_file(folder)
    graphs = graphs_of(file) if file is not None else {}
    if file is None or not graphs:
        return ""
    offers = []
    for graph in graphs.values():
        path, _, name = graph.rpartition(":")
        module = (file.parent / path).resolve()
        path_there = Path(os.path.relpath(module.parent, folder)).as_posix()
        offers.append(f"`pipeline: {module.stem}:{name}` with `app: {{path: [{path_there}]}}`")
    short_path = Path(os.path.relpath(file, folder)).as_posix()
    return f"`{short_path}` names {', '.join(graphs)}: {' or '.join(offers)}."


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
                f"inside it: `{install_command(extra, '--upgrade')}`.",
                entry,
            ) from cause
        if home in sys.modules or find_spec(home) is not None:
            raise
        raise FunctionMissing(f"{problem.what}\n{_advice(app, home)}", entry) from None


def module_missing(app: App) -> str:
    """Describe where a module that a scenario names as its pipeline is looked for, and lies."""
    module, _, name = app.entry.rpartition(".")
    colon = f"A function or an object in a module has a colon: `{module}:{name}`.\n"
    return (
        f"program `{app.entry}`: there is no module {app.entry!r} that runs. "
        "It is looked for in the working directory and on sys.path.\n"
        f"{colon if module else ''}{_advice(app, home_of(app.entry))}"
    )


def check_folders(app: App) -> None:
    """Raise ScriptBroken for a missing folder under ``app.path``."""
    for index, path in enumerate(app.options.path):
        # Resolved, since the file's own folder may not exist yet.
        resolved = os.path.realpath(os.path.join(app.folder, path))
        if not os.path.isdir(resolved):
            folder = Path(resolved)
            problem = f"`{path}` is a file" if folder.is_file() else f"there is no folder `{path}`"
            siblings = [folder_.name for folder_ in folder.parent.glob("*") if folder_.is_dir()]
            hint = guess(
                folder.name, siblings, f" Did you mean `{(Path(path).parent / '{}').as_posix()}`?"
            )
            raise ScriptBroken(
                f"{problem}, seen from the folder of this file.{hint}\n"
                f"{_advice(app, home_of(app.entry))}",
                ("app", "path", index),
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
    if any(_is_below(module, folders) for module in sys.modules.copy().values()):
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
        file = next((os.path.join(folder, "*") for folder in names.get("__path__") or ()), None)
    return os.path.realpath(file) if isinstance(file, str) else None


def _short_path(path: str | Path, app: App) -> str:
    return Path(os.path.relpath(path, app.folder)).as_posix()


def _advice(app: App, home: str) -> str:
    folder = folder_with(app.entry.partition(":")[0], Path(app.folder))
    if folder is None:
        offer = hint_from(Path(app.folder))
        if offer:
            return offer
        if hint := guess(home, _others_beside(app, home), "Did you mean `{}`?"):
            return hint
        return f"Name the folder that {home!r} is in, from this file's: `app: {{path: [..]}}`."
    path_text = _short_path(folder, app)
    where = "beside this file" if path_text == "." else "in another folder than this file"
    return f"Module {home!r} is {where}: `app: {{path: [{path_text}]}}`."


def _others_beside(app: App, home: str) -> list[str]:
    """Return the other modules and packages beside a file, and in its folders."""
    folders = [Path(), *(Path(app.folder, path) for path in (".", *app.options.path))]
    modules = [file.stem for folder in folders for file in folder.glob("*.py")]
    packages = [file.parent.name for folder in folders for file in folder.glob("*/*.py")]
    return sorted({*modules, *packages} - {home})


_IMPORTS: Final = frozenset(("__import__", "import_module", "exec", "eval"))
"""Code with one of these names may import modules that no code names."""


class _Read:
    """The imports in one module's code."""

    __slots__ = ("imports", "imports_by_text")

    def __init__(self, code: CodeType | None) -> None:
        self.imports: tuple[str, ...] = ()
        self.imports_by_text = code is None
        if code is not None:
            names, imports = set[str](), dict[str, None]()
            _gather(code, names, imports)
            self.imports_by_text = bool(names & _IMPORTS)
            self.imports = tuple(imports)


_read: Final[WeakKeyDictionary[ModuleType, _Read]] = WeakKeyDictionary()


def reached_by(home: str) -> frozenset[str]:
    """Return the modules that a top-level package's code, or user code it uses, uses."""
    return _reach_of(home)[0]


def imports_by_text(home: str) -> bool:
    """Return whether reached code may import modules with names built at run time."""
    return _reach_of(home)[1]


def is_among(reached: Collection[str], package: str) -> bool:
    """Return whether reached modules belong to a package, or are the package."""
    inside = f"{package}."
    return any(name == package or name.startswith(inside) for name in reached)


def _reach_of(home: str, entries: frozenset[str] = frozenset()) -> tuple[frozenset[str], bool]:
    return _reach(home, entries, sys.modules.get(home), len(sys.modules))


@lru_cache(maxsize=8)  # Every turn asks.
def _reach(
    home: str, entries: frozenset[str], module: ModuleType | None, count: int
) -> tuple[frozenset[str], bool]:
    """Return the modules that code reaches, and whether it imports others by text.

    The code is that of some modules; without ``entries``, that of all in a top-level package. This
    stays the same until another module is imported: ``count`` is their number.
    """
    reached = [*_reached(home, entries or _modules_in(home))]
    by_text = any(
        reach is not None and _is_of(home, name, reach) and _reading(reach).imports_by_text
        for name, reach in reached
    )
    return frozenset(name for name, _ in reached), by_text


def _modules_in(home: str) -> list[str]:
    """Return the imported modules of a top-level package."""
    inside = f"{home}."
    return [name for name in sys.modules.copy() if name == home or name.startswith(inside)]


def _reached(home: str, entries: Iterable[str]) -> Iterator[tuple[str, ModuleType | None]]:
    """Yield modules, their packages, and those that user code among them uses.

    The module is None if it is not imported.
    """
    waiting = [*entries]
    visited = set(waiting)
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        yield name, module
        package = name.rpartition(".")[0]
        for other in (*([package] if package else ()), *_named_by(home, name, module)):
            if other not in visited:
                visited.add(other)
                waiting.append(other)


def _named_by(home: str, name: str, module: ModuleType | None) -> Iterator[str]:
    """Yield the modules that one module of user code uses; import nothing."""
    if module is not None:
        if _is_of(home, name, module):
            yield from _used_by(module, _reading(module))
        return
    spec = _spec_of(name)
    if spec is None or spec.origin is None or is_library(spec.origin):
        return
    package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
    read = _Read(_code(spec))
    yield from (_absolute(name_, package) for name_ in read.imports)


def _spec_of(name: str) -> ModuleSpec | None:
    """Return the spec of a module, without importing its parents."""
    spec, path, full = None, None, ""
    for part in name.split("."):
        if spec is not None and path is None:
            return None  # A module has no modules; Python would search for this name everywhere.
        full = f"{full}.{part}" if full else part
        try:
            spec = PathFinder.find_spec(full, path)
        except (ImportError, KeyError, ValueError):
            # A folder without `__init__.py` is found through its parent, which is not imported yet.
            return None
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return spec


def _absolute(name: str, package: str) -> str:
    """Return the absolute name of an imported module, which may be relative: ``..part``."""
    try:
        return resolve_name(name, package)
    except ImportError:  # Beyond the top-level package, which Python would reject as well.
        return name


def _is_of(home: str, name: str, module: ModuleType) -> bool:
    return name.partition(".")[0] == home or _is_users(module)


def _reading(module: ModuleType) -> _Read:
    reading_known = _read.get(module)
    if reading_known is None:
        reading_known = _read[module] = _Read(_code(module.__spec__))
    return reading_known


def _code(spec: ModuleSpec | None) -> CodeType | None:
    """Return the code that makes a module, classes included; None if it is not known."""
    get_code: Any = getattr(getattr(spec, "loader", None), "get_code", None)
    try:
        code = get_code(spec.name) if spec is not None and get_code is not None else None
    except Exception:  # The loader may be anybody's.
        return None
    return code if isinstance(code, CodeType) else None


def _gather(code: CodeType, names: set[str], imports: dict[str, None]) -> None:
    names.update(code.co_names)
    level: Any = 0
    parts: Any = None
    for step in dis.get_instructions(code):
        if step.opname.startswith("LOAD_"):
            # The arguments of an import are loaded right before it: the number of dots, and the
            # names.
            level, parts = parts, step.argval
        elif step.opname == "IMPORT_NAME":
            dots = "." * level if isinstance(level, int) else ""
            module = f"{dots}{step.argval}"
            within = parts if isinstance(parts, tuple) else ()
            for part_name in (module, *(f"{module.rstrip('.') or dots}.{part}" for part in within)):
                if part_name.strip("."):
                    imports[part_name] = None
            names.add(step.argval.partition(".")[0])
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _gather(constant, names, imports)


def _used_by(module: ModuleType, read: _Read) -> Iterator[str]:
    """Yield the modules that a module imports, or holds objects of."""
    package = module.__package__ or module.__name__.rpartition(".")[0]
    yield from (_absolute(name, package) for name in read.imports)
    for attribute, value in list(vars(module).items()):
        if isinstance(value, ModuleType):
            # An import makes a module an attribute of its package.
            if value.__name__ != f"{module.__name__}.{attribute}":
                yield value.__name__
            continue
        for holder in (value, type(value)):
            home = getattr(holder, "__module__", None)
            if isinstance(home, str):
                yield home


def _is_users(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and not is_library(file)
