"""State that a process has once and each world has for itself: last ids, names, numpy's state, TZ.

Entering a world puts its state in place, and leaving it takes the state out. If worlds run in
several threads at once, the last one's state is in place; Python functions that use it (`USERS`)
swap in the state of the calling world while they run. Three values are *shared by such worlds*: the
state of numpy's global generator, the local time zone, and the time when `logging` began.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import FunctionType
from typing import Any, Final, NamedTuple, Protocol

from simkit.core.determinism.draws import NODE, Recoded
from simkit.core.determinism.worlds import World, current_world


class _Record(Protocol):
    """One value that exists once a process, and is more than a variable."""

    kind: str
    """``clock`` or ``chance``: the part of a world that it belongs to."""
    module: str
    """The module that has it; without that module there is nothing to switch."""

    def read(self) -> Any:
        """Return the value; None if it does not exist yet."""

    def write(self, value: Any) -> None:
        """Put the value in place."""

    def fresh(self, world: World) -> Any:
        """Return the value that a new world begins with."""


class _NumpyGenerator:
    """The generator that the functions of `numpy.random` share."""

    kind, module = "chance", "numpy.random"

    def read(self) -> Any:
        numpy = sys.modules.get("numpy.random")
        get = getattr(numpy, "get_state", None)
        return get() if get is not None else None

    def write(self, value: Any) -> None:
        if value is not None:
            sys.modules["numpy.random"].set_state(value)

    def fresh(self, world: World) -> Any:
        if not hasattr(sys.modules.get("numpy.random"), "RandomState"):
            return None
        return _numpy_state_of(world.seed("numpy.random"))


@lru_cache(maxsize=64)
def _numpy_state_of(seed: int) -> Any:
    return sys.modules["numpy.random"].RandomState(seed).get_state()


class _Variable(NamedTuple):
    """A variable of a module, mostly with the last value given out; the next follows from it."""

    module: str
    name: str
    kind: str
    first: Any = None
    """Its value in a new world."""
    fresh: Callable[[World, Any], Any] | None = None
    """Function that makes it from the process's value."""


def _log_start(world: World, now: Any) -> Any:
    """Return the time when `logging` was imported, from which `relativeCreated` counts."""
    # Seconds up to Python 3.12, nanoseconds from 3.13 on.
    return world.start_ns if isinstance(now, int) else world.start_ns / 1_000_000_000


class _Zone:
    """The local time zone of the process."""

    kind, module = "clock", "os"

    def read(self) -> Any:
        return os.environ.get("TZ")

    def write(self, value: Any) -> None:
        if value is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = value
        if hasattr(time, "tzset"):
            time.tzset()

    def fresh(self, world: World) -> Any:
        return world.zone


_ZONE: Final = _Zone()
_zones: Final[list[list[Any]]] = []
"""The zone that the process had, then the zones of the running scenarios."""

# Not here: LangGraph's last checkpoint id. A checkpointer that outlives a scenario takes the
# highest id for the latest, so that ids of the next scenario must be higher still. Nothing shows
# these ids.
_NUMPY: Final = _NumpyGenerator()
_RECORDS: Final[tuple[_Record, ...]] = (_NUMPY, _ZONE)
_VARIABLES: Final = (
    _Variable("logging", "_startTime", "clock", fresh=_log_start),
    _Variable("uuid", "_node", "chance", NODE),
    *(
        _Variable("uuid", name, "clock")
        for name in (
            "_last_timestamp",
            "_last_timestamp_v6",
            "_last_timestamp_v7",
            "_last_counter_v7",
        )
    ),
    _Variable("pydantic_ai._uuid", "_last_timestamp_v7", "clock"),
    _Variable("pydantic_ai._uuid", "_last_counter_v7", "clock", 0),
    _Variable("uuid6", "_last_v6_timestamp", "clock"),
    _Variable("uuid6", "_last_v7_timestamp", "clock"),
    _Variable("uuid6", "_last_v8_timestamp", "clock"),
    _Variable("tempfile", "_name_sequence", "chance"),
)

_lock: Final = threading.RLock()
_stack: Final[list[World]] = []
"""The installed worlds; the state of the last one is in place."""
_placed: Final[list[World | None]] = [None]
"""The worlds whose state is in place; a `USERS` call puts another world on top for its duration."""
_outside: Final[dict[_Record | _Variable, Any]] = {}
"""The state of the process while no world is installed."""


def _switch_zone(zone: Any) -> None:
    if zone != _ZONE.read():
        _ZONE.write(zone)


@contextmanager
def zoned(zone: str) -> Iterator[None]:
    """Set the time zone of the process while a scenario runs.

    Setting it takes half a millisecond, too long to do for every turn. If scenarios run in several
    threads, the last one to begin wins.
    """
    entry = [zone]
    with _lock:
        if not _zones:
            _zones.append([_ZONE.read()])
        _zones.append(entry)
        _switch_zone(zone)
    try:
        yield
    finally:
        with _lock:
            index = next(i for i, candidate in enumerate(_zones) if candidate is entry)
            del _zones[index]
            _switch_zone(_zones[-1][0])
            if len(_zones) == 1:
                _zones.clear()


def enter(world: World) -> None:
    """Put a world's state in place, until `leave`."""
    with _lock:
        before = _stack[-1] if _stack else None
        _stack.append(world)
        _switch(before, world)


def leave(world: World) -> None:
    """Take a world's state out again."""
    with _lock:
        before = _stack[-1]
        _stack.reverse()
        _stack.remove(world)
        _stack.reverse()
        _switch(before, _stack[-1] if _stack else None)


USERS: Final = {
    "uuid": ("uuid1", "uuid6", "uuid7", "getnode"),
    "tempfile": ("_get_candidate_names",),
    "pydantic_ai._uuid": ("uuid7",),
    "uuid6": ("uuid6", "uuid7", "uuid8"),
}
"""Python functions that use such state, by module."""
_STAND_IN: Final = """
def {name}(*args, **options):
    from simkit.core.determinism.library_rng import call_in_place
    return call_in_place({key!r}, args, options)
"""
_users: Final[dict[str, Recoded]] = {}


def users_of(module: str) -> Iterator[Recoded]:
    """Yield the functions of a module that run with the state of the calling world."""
    for name in USERS.get(module, ()):
        key, function = f"{module}.{name}", getattr(sys.modules.get(module), name, None)
        if isinstance(function, FunctionType) and not function.__closure__:
            if key not in _users:
                users: dict[str, Any] = {}
                exec(_STAND_IN.format(name=name, key=key), users)
                _users[key] = Recoded(function, users[name])
            yield _users[key]


def call_in_place(key: str, args: Any, options: Any) -> Any:
    """Call one of the `USERS` with the state of the calling world in place."""
    function, world = _users[key].original, current_world()
    with _lock:
        placed = _placed[-1]
        if placed is world or (world is not None and world not in _stack):
            return function(*args, **options)
        _exchange(placed, world)
        _placed.append(world)  # The function may call another one of `USERS`.
        try:
            return function(*args, **options)
        finally:
            _placed.pop()
            _exchange(world, placed)


def arrived(module: str) -> None:
    """Give the current world its own state of a module that was just imported."""
    with _lock:
        if module != "numpy.random" or not _stack:
            return
        for world in _stack:
            world.records.pop(_NUMPY, None)
        _NUMPY.write(_value_in(_stack[-1], _NUMPY, _NUMPY.read()))


def _switch(before: World | None, now: World | None) -> None:
    """Keep the state of one world, and put that of another in place; None is the process.

    Every turn does it, and mostly there is nothing to do: so it calls next to nothing.
    """
    _placed[-1] = now
    old_values = before.records if before is not None else _outside
    for record in _RECORDS:
        if record.module not in sys.modules:
            continue
        value = old_values[record] = record.read()
        after = _outside.get(record) if now is None else _value_in(now, record, value)
        if after is not value and not (record is _ZONE and after == value):
            record.write(after)
    _exchange(before, now)


def _value_in(world: World, record: _Record, value: Any) -> Any:
    """Return a world's value of a record, which has another ``value`` now."""
    if record.kind in world.real:
        return value
    values = world.records
    if record not in values or values[record] is None:
        values[record] = record.fresh(world)
    return values[record]


def _exchange(before: World | None, now: World | None) -> None:
    """Do the same for the variables alone."""
    old_values = before.records if before is not None else _outside
    values = now.records if now is not None else _outside
    modules, real = sys.modules, now.real if now is not None else ()
    for variable in _VARIABLES:
        if variable.module not in modules or modules[variable.module] is None:
            continue
        names = modules[variable.module].__dict__
        if variable.name not in names:
            continue
        before_value = old_values[variable] = names[variable.name]
        if variable.kind in real:
            continue
        value = values.get(variable)
        if value is None and variable.fresh is not None:
            value = before_value if now is None else variable.fresh(now, before_value)
        elif value is None and now is not None:
            value = variable.first
        names[variable.name] = value
