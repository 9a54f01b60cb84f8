"""Values that scenarios leave in variables of the pipeline's modules, for later scenarios.

A value that was left and reaches a request may stand in the source too, or be what a cache would
hold anyway. Only a run without it tells: `restore` prepares one, in a copy of this process.
*Not seen*: what libraries' objects, `lru_cache`, slots and generators keep.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import cache, lru_cache, partial
from itertools import count as numbers
from random import Random
from types import CellType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

_DEPTH_MAX: Final = 8
_VALUES_MAX: Final = 20_000
"""The number of values that are searched in one variable."""
_BITS_MAX: Final = 1_000
"""The size of a number that is written out: Python refuses to write very large ones."""
_SCALARS: Final = (int, float, str)
_FIXED: Final = (*_SCALARS, tuple, frozenset, ModuleType)
_PLAIN: Final = (*_SCALARS, dict, list, set, tuple, frozenset, deque)
_EMPTY: Final = CellType()
_CACHED: Final = type(lru_cache(len))

PutBack = tuple[Callable[[], object], ...]
"""Functions that give a variable, and the containers, classes and cells in it, a former content."""


class Modules(Protocol):
    """The modules of a pipeline."""

    def __call__(self, name: str, file: str) -> bool:
        """Return whether a module with a name and a file is one of them."""

    def names(self) -> Iterable[str]:
        """Return the names of those that are imported."""

    def used_names(self) -> Iterable[str]:
        """Return the names of those whose variables the pipeline may read."""


class NamedModules:
    """Modules that are known by their names."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __call__(self, name: str, file: str) -> bool:
        """Return whether a module with a name is one of them."""
        return name in self._names

    def names(self) -> list[str]:
        """Return the names of those that are imported."""
        return [name for name in self._names if name in sys.modules]

    used_names = names


IsHome: TypeAlias = Callable[[str], bool]
"""Function of a name: whether it is that of one of the pipeline's modules."""


def _is_home(modules: Modules, name: str) -> bool:
    file = getattr(sys.modules.get(name), "__file__", None)
    return bool(file) and modules(name, str(file))


class _Content(NamedTuple):
    """The content of a variable at some time."""

    texts: frozenset[str]
    """The texts, numbers and truth values in it, as they are written."""
    size: object
    """Another value, if something else is kept in it."""


class _Variable:
    """A variable of a module, or the environment, in this process."""

    def __init__(self, first: _Content, put_back: PutBack) -> None:
        self.first = first
        """As a scenario first saw it."""
        self.put_back = put_back
        """Functions that let it be so again."""
        self.texts_at_end: frozenset[str] | None = None
        """The texts in it when a scenario ended."""
        self.left_by: dict[str, str] = {}
        """Those of them that a scenario left, each with the scenario."""
        self.changed_by = ""
        """The scenario after which it was no more as it was first; empty while it is."""
        self.last_scenario = ""
        """The last one that found it."""

    def find(self, content: _Content, scenario: str) -> Mapping[str, str]:
        """Note what a scenario finds in it; return the texts that others left, each by whom."""
        if content.size == self.first.size:
            self.changed_by = ""
        elif not self.changed_by:
            self.changed_by = self.last_scenario
        self.last_scenario = scenario
        # If a fixture has changed it since then, nobody knows whose a value is.
        is_as_left = content.texts == self.texts_at_end
        return {text: by for text, by in self.left_by.items() if is_as_left and by != scenario}

    def leave(self, content: _Content, scenario: str) -> None:
        """Note what a scenario leaves in it."""
        new = content.texts - self.first.texts
        self.left_by = {text: self.left_by.get(text, scenario) for text in new}
        self.texts_at_end = content.texts


class _Process:
    """The variables of pipelines' modules, and the environment, by name, in this process."""

    def __init__(self) -> None:
        self.variables: dict[str, _Variable] = {}
        self.fixed: dict[str, tuple[object, _Content, Callable[[], PutBack]]] = {}
        """Variables that only another value can change, which most are: each with its value."""
        self.last_scenario = ""
        self.modules: Modules = NamedModules()
        self.left_to_last: dict[str, Mapping[str, str]] = {}
        """The variables that the last scenario found, with what others left in them."""
        self.put_back_last: dict[str, PutBack] = {}
        """Functions that let them be as it found them."""


_process: Final = _Process()


def begin(scenario: str, modules: Modules, given: Collection[str] = ()) -> None:
    """Note what the variables, and the environment, hold before a scenario.

    ``given`` are the variables of the environment that it sets itself.
    """
    _forget_gone_modules()
    variables = {name: (content, copy) for name, content, copy in _contents(modules)}
    variables["os.environ"] = _environment(given), tuple
    for name, (content, copy) in variables.items():
        if name not in _process.variables:
            _process.variables[name] = _Variable(content, copy())
    _process.last_scenario, _process.modules = scenario, modules
    _process.left_to_last = {
        name: _process.variables[name].find(content, scenario)
        for name, (content, _) in variables.items()
    }
    # Only then they are needed, and they keep objects alive.
    is_needed = any(_process.left_to_last.values())
    _process.put_back_last = {name: copy() for name, (_, copy) in variables.items() if is_needed}


def _forget_gone_modules() -> None:
    """Let variables of modules that are gone keep nothing alive."""
    for variables in (_process.variables, _process.fixed):
        for name in [name for name in variables if name.rpartition(".")[0] not in sys.modules]:
            del variables[name]


def _environment(given: Collection[str]) -> _Content:
    variables = frozenset(
        # One by one: runs side by side set and remove variables meanwhile.
        (name, os.environ.get(name))
        for name in os.environ
        if name not in given and not name.startswith("PYTEST_")
    )
    return _Content(frozenset(), variables)


def end(scenario: str) -> None:
    """Note what a scenario has left in them."""
    if scenario != _process.last_scenario:
        return  # Several run at once: nobody knows whose it is.
    for name, content, _ in _contents(_process.modules):
        if name in _process.variables:
            _process.variables[name].leave(content, scenario)


def changed_variables() -> list[tuple[str, str]]:
    """Return the variables that were changed before the last scenario, each by another one."""
    pairs = [(name, _process.variables[name].changed_by) for name in _process.left_to_last]
    return [(name, by) for name, by in pairs if by not in ("", _process.last_scenario)]


def sizes_in(modules: Modules) -> dict[str, object]:
    """Return the variables of the pipeline's modules, each with another size if it keeps more."""
    return {name: content.size for name, content, _ in _contents(modules)}


def left_to(scenario: str) -> Mapping[str, Mapping[str, str]]:
    """Return the variables with what others left in them to a scenario, each text by whom.

    It is empty if another scenario has begun meanwhile.
    """
    return _process.left_to_last if scenario == _process.last_scenario else {}


def restore(without: str) -> None:
    """Let the variables be as the last scenario found them, but one as the first one did."""
    copies = [*_process.put_back_last.values()]
    if without in _process.variables:  # It comes last: two variables may be one list.
        copies.append(_process.variables[without].put_back)
    for put_back in (each for copy in copies for each in copy):
        put_back()


def forget_all() -> None:
    """Forget what scenarios of this process left."""
    _process.__init__()  # type: ignore[misc]


def holder_of(text: str, modules: Modules) -> str:
    """Return the variable of the pipeline's modules that holds a text; empty if none does."""
    is_home = cache(partial(_is_home, modules))
    for name, module in modules_named(modules.names()):
        for variable, value in _variables(module):
            values = _Search(is_home, is_wide=True).values_in(value)
            if any(isinstance(inner, str) and text in inner for inner in values):
                return f"{name}.{variable}"
    return ""


def modules_named(names: Iterable[str]) -> Iterator[tuple[str, ModuleType]]:
    """Yield imported modules, by name."""
    for name in names:
        module = sys.modules.get(name)
        if isinstance(module, ModuleType):
            yield name, module


def _module_of(value: object) -> str:
    """Return the module that defines a function or a class, or the class of an object."""
    kind = value if isinstance(value, type | FunctionType) else type(value)
    return str(getattr(kind, "__module__", ""))


def _variables(home: ModuleType | type) -> list[tuple[str, Any]]:
    """Return what a module or a class holds; underscores begin what is Python's own."""
    pairs = [*vars(home).items()]
    return [(name, value) for name, value in pairs if not name.startswith("__")]


def _contents(modules: Modules) -> Iterator[tuple[str, _Content, Callable[[], PutBack]]]:
    """Yield each variable's name, its content, and a function that copies this content."""
    is_home = cache(partial(_is_home, modules))
    for home, module in modules_named(modules.used_names()):
        for name, value in _variables(module):
            if isinstance(value, type | FunctionType) and _module_of(value) != home:
                continue  # Its own module has it.
            key = f"{home}.{name}"
            fixed = _process.fixed.get(key)
            if fixed is None or fixed[0] is not value:
                values = [*_Search(is_home).values_in(value)]
                texts = [str(inner) for inner in values if isinstance(inner, _SCALARS)]
                content = _Content(frozenset(texts), hash((*texts,)))
                fixed = value, content, partial(_copy, module, name, [value, *values[1:]], is_home)
                if all(inner is None or isinstance(inner, _FIXED) for inner in values):
                    _process.fixed[key] = fixed
            yield key, *fixed[1:]


def _copy(home: ModuleType, name: str, values: list[Any], is_home: IsHome) -> PutBack:
    """Copy a variable and the values in it; the first of these is its own."""
    put_back = [each for inner in values for each in _put_back(inner, is_home)]
    if _may_keep(values[:1], is_home):
        put_back.append(partial(_set_variable, home, name, values[0]))
    return (*put_back,)


def _put_back(holder: Any, is_home: IsHome) -> Iterator[Callable[[], object]]:
    if isinstance(holder, dict | set | list | deque) and not _may_keep(
        holder.values() if isinstance(holder, dict) else holder, is_home
    ):
        return
    if isinstance(holder, dict | set):
        content = {**holder} if isinstance(holder, dict) else {*holder}
        yield from (holder.clear, partial(holder.update, content))
    elif isinstance(holder, list | deque):
        yield from (holder.clear, partial(holder.extend, [*holder]))
    elif isinstance(holder, CellType) and holder != _EMPTY:
        yield partial(setattr, holder, "cell_contents", holder.cell_contents)
    elif isinstance(holder, type) and is_home(_module_of(holder)):
        yield from [
            partial(_set_variable, holder, name, value) for name, value in _variables(holder)
        ]


def _may_keep(values: Iterable[Any], is_home: IsHome) -> bool:
    """Return whether all are plain or the pipeline's: a task that is kept tells no error."""
    return all(
        value is None or isinstance(value, _PLAIN) or is_home(_module_of(value)) for value in values
    )


def _set_variable(home: ModuleType | type, name: str, value: object) -> None:
    if vars(home).get(name) is not value:  # Not every class can be changed.
        setattr(home, name, value)


class _Search:
    """Searches one variable; ``is_wide``: also the objects of libraries."""

    def __init__(self, is_home: IsHome, *, is_wide: bool = False) -> None:
        self._is_home, self._is_wide, self._left = is_home, is_wide, _VALUES_MAX
        self._visited: set[int] = set()

    def values_in(self, value: Any) -> Iterator[Any]:
        """Yield a value, and those in it, so many objects deep."""
        waiting = [(value, _DEPTH_MAX)]
        while waiting:
            value, depth = waiting.pop()
            is_scalar = isinstance(value, _SCALARS)
            is_huge = isinstance(value, int) and value.bit_length() > _BITS_MAX
            yield None if is_huge else value
            self._left -= 1
            if not (is_scalar or self._left < 0 or depth < 0 or id(value) in self._visited):
                self._visited.add(id(value))
                waiting += [(inner, depth - 1) for inner in self._inner(value)]

    def _inner(self, value: Any) -> Iterable[Any]:
        if isinstance(value, dict):
            return [*value.keys(), *value.values()]
        if isinstance(value, list | tuple | set | frozenset | deque):
            return [*value]
        if isinstance(value, CellType):
            return [] if value == _EMPTY else [value.cell_contents]
        if isinstance(value, ContextVar):
            return [value.get(None)]
        if (size := _size_of(value)) is not None:
            return [size]
        if self._is_home(_module_of(value)):
            return _parts(value)
        is_seen = self._is_wide and not isinstance(value, type | ModuleType)
        return [getattr(value, "__dict__", None)] if is_seen else []


def _size_of(value: Any) -> str | None:
    """Return what changes with an object of the standard library; None if that cannot be seen."""
    if isinstance(value, Random):
        return str(hash(value.getstate()))
    if isinstance(value, numbers):
        return repr(value)
    if type(value).__module__ == "sqlite3":
        with suppress(Exception):  # It may be another thread's.
            return f"{value.total_changes} changes"
    return f"{value.cache_info().currsize} cached" if isinstance(value, _CACHED) else None


def _parts(value: Any) -> Iterable[Any]:
    """Return what an object of the pipeline keeps; a function, also in defaults and closure."""
    if isinstance(value, type):
        return [inner for _, inner in _variables(value)]
    values = [getattr(value, "__dict__", None)]
    if isinstance(value, FunctionType):
        values += [*(value.__closure__ or ()), *(value.__defaults__ or ()), value.__kwdefaults__]
    return values
