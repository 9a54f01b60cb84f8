"""Reach: the modules that a pipeline's own code uses, read from its modules without running them.

simkit reads the modules of the pipeline's package, and user code that they import or hold objects
of, also imports inside functions. *Not seen*: names that are built at run time, and functions that
others put into a module at run time.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import resolve_name
from types import CodeType, ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary

from simkit.capture.http.places import is_library

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
    return _reach(home).modules


def imports_by_text(home: str) -> bool:
    """Return whether reached code may import modules with names built at run time."""
    return _reach(home).imports_by_text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reach:
    """The modules that a top-level package's code reaches, until another module is imported."""

    module: ModuleType | None
    count: int
    """The number of modules imported at that time."""
    modules: frozenset[str]
    imports_by_text: bool


_known: Final[dict[str, _Reach]] = {}
"""The last results by package; every turn uses them."""


def _reach(home: str) -> _Reach:
    module, count = sys.modules.get(home), len(sys.modules)
    reach_known = _known.get(home)
    if reach_known is None or reach_known.module is not module or reach_known.count != count:
        reached = [*_reached(home)]
        by_text = any(
            reach is not None and _is_of(home, name, reach) and _reading(reach).imports_by_text
            for name, reach in reached
        )
        reach_known = _known[home] = _Reach(
            module=module,
            count=count,
            modules=frozenset(name for name, _ in reached),
            imports_by_text=by_text,
        )
    return reach_known


def is_among(reached: Collection[str], package: str) -> bool:
    """Return whether reached modules belong to a package, or are the package."""
    inside = f"{package}."
    return any(name == package or name.startswith(inside) for name in reached)


def _reached(home: str) -> Iterator[tuple[str, ModuleType | None]]:
    """Yield the modules of a top-level package, and those that its user code uses.

    The module is None if it is not imported.
    """
    inside = f"{home}."
    waiting = [name for name in [*sys.modules] if name.startswith(inside)]
    waiting += [home] if home in sys.modules else []
    visited = set(waiting)
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        yield name, module
        for other in _named_by(home, name, module):
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
    for value in list(vars(module).values()):
        if isinstance(value, ModuleType):
            yield value.__name__
            continue
        for holder in (value, type(value)):
            home = getattr(holder, "__module__", None)
            if isinstance(home, str):
                yield home


def _is_users(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and not is_library(file)
