"""Whether a pipeline's own code could reach a clock or chance at all, read from its modules.

A profile function sees every call of every library, and more than doubles what a provider's client
costs. Most pipelines never look at a clock: their code names none, and need not be watched.

Read are the modules of the pipeline's package, and user code that these import or hold something
of, also where they would import it only later. *Not seen*: names that are put together at run time,
and functions that others put into a module while it runs.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from importlib.machinery import PathFinder
from types import BuiltinFunctionType, CodeType, ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary

from simkit.transports.effects import BUILTINS, FUNCTIONS
from simkit.transports.places import is_library

_ANY: Final[frozenset[str]] = frozenset()
_NAMES: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("_random", "random", "secrets", "uuid", "time", "_thread"), _ANY),
    **dict.fromkeys(("subprocess", "_posixsubprocess", "posix", "eval", "exec"), _ANY),
    "os": frozenset(("urandom", "system", "fork", "forkpty", "posix_spawn", "posix_spawnp")),
    "datetime": frozenset(("now", "utcnow", "today")),
}
"""Who names one of these might cause an effect; of some, only who names something else too."""
_BY_TEXT: Final = frozenset(("__import__", "getattr", "import_module"))
"""Who names one of these may name others by a text."""


class _Read:
    """What is read of one module: the names and texts in its code, and what it imports."""

    __slots__ = ("imports", "is_suspect")

    def __init__(self, module: ModuleType) -> None:
        code = _code_of(module)
        self.imports: tuple[str, ...] = ()
        self.is_suspect = code is None
        if code is not None:
            names, texts, imports = set[str](), set[str](), dict[str, None]()
            _gather(code, names, texts, imports)
            if names & _BY_TEXT:
                names |= texts
            self.is_suspect = _names_an_effect(names)
            self.imports = tuple(imports)


_read: Final[WeakKeyDictionary[ModuleType, _Read]] = WeakKeyDictionary()


def may_cause_effects(home: str) -> bool:
    """Whether code of a top-level package, or user code that it uses, names clocks or chance.

    True where that cannot be told.
    """
    module = sys.modules.get(home)
    known = _told.get(home)
    if known is not None and known[:2] == (len(sys.modules), id(module)):
        return known[2]
    found = _is_any_suspect(home)
    _told[home] = len(sys.modules), id(module), found
    return found


_told: Final[dict[str, tuple[int, int, bool]]] = {}
"""What was found last, when so many modules were imported, and this one of the name."""


def _is_any_suspect(home: str) -> bool:
    is_known = False
    for name, module in _reached(home):
        if module is None:
            if _would_be_users(name):
                return True
        elif _is_of(home, name, module):
            is_known = True
            if _reading(module).is_suspect or any(map(_is_an_effect, list(vars(module).values()))):
                return True
    return not is_known


def reached_by(home: str) -> frozenset[str]:
    """Returns the modules that code of a top-level package, or user code that it uses, uses."""
    return frozenset(name for name, _ in _reached(home))


def is_among(reached: Collection[str], package: str) -> bool:
    """Whether modules that are reached are of a package, or it itself."""
    inside = f"{package}."
    return any(name == package or name.startswith(inside) for name in reached)


def _reached(home: str) -> Iterator[tuple[str, ModuleType | None]]:
    """Yields the modules of a top-level package, and all that user code from there on uses; None
    for what is not imported."""
    inside = f"{home}."
    waiting = [name for name in [*sys.modules] if name.startswith(inside)]
    waiting += [home] if home in sys.modules else []
    seen = set(waiting)
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        yield name, module
        if module is None or not _is_of(home, name, module):
            continue
        for other in _used_by(module, _reading(module)):
            if other not in seen:
                seen.add(other)
                waiting.append(other)


def _is_of(home: str, name: str, module: ModuleType) -> bool:
    return name.partition(".")[0] == home or _is_users(module)


def _reading(module: ModuleType) -> _Read:
    found = _read.get(module)
    if found is None:
        found = _read[module] = _Read(module)
    return found


def _names_an_effect(names: set[str]) -> bool:
    return any(not beside or names & beside for root, beside in _NAMES.items() if root in names)


def _is_an_effect(value: Any) -> bool:
    """Whether a value is a function that would be reported."""
    code = getattr(value, "__code__", None)
    return id(code) in FUNCTIONS or (isinstance(value, BuiltinFunctionType) and value in BUILTINS)


def _code_of(module: ModuleType) -> CodeType | None:
    """Returns the code that made a module, classes and all; None where that is not known."""
    spec = module.__spec__
    get_code: Any = getattr(getattr(spec, "loader", None), "get_code", None)
    try:
        code = get_code(module.__name__) if get_code is not None else None
    except Exception:  # A loader of anybody's.
        return None
    return code if isinstance(code, CodeType) else None


def _gather(code: CodeType, names: set[str], texts: set[str], imports: dict[str, None]) -> None:
    names.update(code.co_names)
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME" and step.argval:
            imports[step.argval] = None
            names.add(step.argval.partition(".")[0])
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _gather(constant, names, texts, imports)
        elif isinstance(constant, str):
            texts.add(constant)


def _used_by(module: ModuleType, read: _Read) -> Iterator[str]:
    """Yields the modules that a module imports, or holds something of."""
    yield from read.imports
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


@lru_cache(maxsize=1024)
def _would_be_users(name: str) -> bool:
    """Whether a module that is not imported yet would be user code."""
    spec = PathFinder.find_spec(name.partition(".")[0])
    return spec is not None and spec.origin is not None and not is_library(spec.origin)
