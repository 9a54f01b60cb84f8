"""Draws: the shared generator, random bytes, unseeded generators, ids not made in Python.

Functions written in C are redirected, also for code that imported them by name.
"""

from __future__ import annotations

import ctypes
import functools
import operator
import os
import random
import sys
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Final
from uuid import UUID

from simkit.core.determinism.worlds import World, current_world, world_of_chance

# Redirect a function written in C, also for code that imported it by name.
#
# A builtin function is an object of four words after its head; the first two are its definition
# and the object that it is bound to. Both are copied from another builtin, a method of our own
# object that calls Python: errors, arguments and references work as usual, and no code of the
# interpreter is changed. Only CPython is built like this; on other interpreters the name in the
# module is replaced.


IS_POSSIBLE: Final = sys.implementation.name == "cpython"

_HEAD: Final = object.__basicsize__
"""Bytes of an object's head: its type and its reference count."""
_Words: Final = ctypes.c_void_p * 2


class Redirected:
    """A function written in C, of at most one argument, and the function in its place."""

    def __init__(self, module: ModuleType, name: str, arguments: int, answer: Any) -> None:
        """Prepare the redirection; ``answer`` gets the function's argument, or none as ``*_``."""
        self._module, self._name = module, name
        self._function: Any = getattr(module, name)
        self.is_in_c = IS_POSSIBLE and type(self._function) is type(len)
        """If false, the name in the module is replaced."""
        self._answer = _bound(answer, arguments) if self.is_in_c else answer
        self._before: tuple[Any, Any] | None = None
        self.original: Callable[..., Any] = (
            _copied(self._function) if self.is_in_c else self._function
        )
        """The original function, which still gives the real answer."""
        if self.is_in_c:
            # While redirected, the function holds a reference that is not counted otherwise.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._answer.__self__))

    def begin(self) -> None:
        """Redirect the function to the answer."""
        if not self.is_in_c:
            setattr(self._module, self._name, self._answer)
            return
        words = _words(self._function)
        self._before = words[0], words[1]
        words[0], words[1] = _words(self._answer)

    def end(self) -> None:
        """Undo the redirection."""
        if not self.is_in_c:
            setattr(self._module, self._name, self._function)
        elif self._before is not None:
            words = _words(self._function)
            words[0], words[1] = self._before
            self._before = None


class Recoded:
    """A Python function, and the code that runs in its place, under every name it has."""

    def __init__(self, function: Any, stand_in: Any) -> None:
        """Keep both codes; ``stand_in`` takes the same parameters and imports all that it uses."""
        self._function, self._code = function, stand_in.__code__
        self._before: CodeType = function.__code__
        self.original: Callable[..., Any] = FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        """A copy of the function with its original code."""
        self.original.__kwdefaults__ = function.__kwdefaults__

    def begin(self) -> None:
        """Run the replacement's code from now on."""
        self._before = self._function.__code__
        self._function.__code__ = self._code

    def end(self) -> None:
        """Run the original code again."""
        if self._function.__code__ is self._code:
            self._function.__code__ = self._before


def _words(function: Any) -> Any:
    return _Words.from_address(id(function) + _HEAD)


def _copied(function: Any) -> Callable[..., Any]:
    """Return a new function object with the same definition."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
    copy: Callable[..., Any] = make(_words(function)[0], function.__self__, function.__module__)
    return copy


def _bound(answer: Any, arguments: int) -> Any:
    """Return a method written in C that calls a function of Python."""
    if arguments:
        # An empty mapping that calls the function itself for each key.
        kind = type("_ComputedMapping", (dict,), {"__missing__": staticmethod(answer)})
        return kind().__getitem__
    # The only builtin method without arguments that calls a function it was given.
    cache: Any = functools._lru_cache_wrapper(lambda: None, 0, False, answer)  # type: ignore[call-arg]
    return cache.cache_info


# The generator behind the functions of `random`: each world has its own
#
# The functions of `random` are methods of one generator, and modules that imported them by name
# hold them. So the generator itself looks up the world that it draws for; the state of the
# process is never touched.


_SHARED: Final[Random] = random._inst
_IN_C: Final[Any] = Random.__mro__[1]
_C_RANDOM: Final[Callable[[Any], float]] = _IN_C.random
_C_BITS: Final[Callable[[Any, int], int]] = _IN_C.getrandbits
_KEY: Final = "random"


def own_generator() -> Random | None:
    """Return the generator of this code's world, or None if the process's own generator answers."""
    world = current_world()
    if world is None or "chance" in world.real:
        return None
    if _KEY not in world.records:
        world.records[_KEY] = Random(world.seed(_KEY))
    generator: Random = world.records[_KEY]
    return generator


def intended_generator(generator: Any) -> Any:
    """Return the world's generator for the shared one, and any other generator as it is."""
    return (own_generator() or generator) if generator is _SHARED else generator


class _Asking(Random):
    """The class of the shared generator while a world is installed."""

    def random(self) -> float:
        own = own_generator()
        return own.random() if own is not None else _C_RANDOM(self)

    def getrandbits(self, k: int, /) -> int:
        own = own_generator()
        return own.getrandbits(k) if own is not None else _C_BITS(self, k)

    @property
    def gauss_next(self) -> Any:
        """Return the second of two numbers that `gauss` draws at once."""
        own = own_generator()
        return own.gauss_next if own is not None else vars(self).get("gauss_next")  # type: ignore[attr-defined]

    @gauss_next.setter
    def gauss_next(self, value: Any) -> None:
        own = own_generator()
        if own is not None:
            own.gauss_next = value  # type: ignore[attr-defined]
        else:
            vars(self)["gauss_next"] = value


class SharedGenerator:
    """The switch that makes the shared generator draw for the caller's world."""

    def begin(self) -> None:
        """Make the shared generator look up the caller's world."""
        _SHARED.__class__ = _Asking

    def end(self) -> None:
        """Give the shared generator back to the process."""
        _SHARED.__class__ = Random


def _draw(*_: Any) -> Any:
    own = own_generator()
    return own.random() if own is not None else _random.original()


def _draw_bits(k: Any) -> Any:
    own = own_generator()
    return own.getrandbits(k) if own is not None else _bits.original(k)


_random: Final = Redirected(random, "random", 0, _draw)
_bits: Final = Redirected(random, "getrandbits", 1, _draw_bits)


def _getstate(__class__: Any = None) -> Any:
    def getstate(self: Any) -> Any:
        # This code runs with the globals of `random`, and holds the cell of its class.
        from simkit.core.determinism.draws import call_original

        return call_original(0, __class__, self)

    return getstate


def _setstate(__class__: Any = None) -> Any:
    def setstate(self: Any, state: Any) -> Any:
        from simkit.core.determinism.draws import call_original

        return call_original(1, __class__, self, state)

    return setstate


def _seed(__class__: Any = None) -> Any:
    def seed(self: Any, a: Any = None, version: int = 2) -> Any:
        from simkit.core.determinism.draws import call_original

        return call_original(2, __class__, self, a, version)

    return seed


def call_original(index: int, _: Any, generator: Any, *arguments: Any) -> Any:
    """Call one of the original functions of generators, on the world's for the shared one."""
    return _states[index].original(intended_generator(generator), *arguments)


_states: Final = (
    Recoded(Random.getstate, _getstate()),
    Recoded(Random.setstate, _setstate()),
    Recoded(Random.seed, _seed()),
)
SHARED: Final = (SharedGenerator(), _random, _bits, *_states)
"""Replacements that begin with the first installed world and end with the last."""


# Random bytes, unseeded generators, and ids that are not made in Python


NODE: Final = 0x02_51_4D_4B_49_54
"""The network address in ids that contain one; no real device has an address of this kind."""


def random_bytes() -> Redirected:
    """Return ``os.urandom``, from which `uuid`, `secrets` and `SystemRandom` draw."""

    def urandom(size: Any) -> Any:
        return _drawn_bytes(size, sys._getframe(1), redirected.original)

    redirected = Redirected(os, "urandom", 1, urandom)
    return redirected


def getrandom(before: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``os.getrandom``."""

    def get(size: Any, flags: int = 0) -> Any:
        return _drawn_bytes(size, sys._getframe(1), partial(before, flags=flags))

    return get


def _drawn_bytes(size: Any, caller: FrameType, before: Callable[[Any], Any]) -> Any:
    outer_world = world_of_chance(caller)
    if outer_world is None or operator.index(size) < 0:
        return before(size)
    world, name = outer_world
    return world.generators[name].randbytes(operator.index(size))


def seed_of_generators(before: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``Random.seed``, which takes a missing seed from the world.

    Called on the shared generator, it seeds the world's own generator instead.
    """

    def seed(self: random.Random, a: Any = None, version: int = 2) -> Any:
        outer_world = world_of_chance(sys._getframe(1)) if a is None else None
        if outer_world is not None:
            world, name = outer_world
            a = world.generators[name].getrandbits(128)
        return before(intended_generator(self), a, version)

    return seed


def seed_of_all(before: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``random.seed``, which seeds the world's own generator."""
    shared = before.__self__  # type: ignore[attr-defined]
    return partial(seed_of_generators(before.__func__), shared)  # type: ignore[attr-defined]


def random_id(world: World, name: str) -> int:
    """Return the number of an id of version 4 (random)."""
    return UUID(bytes=world.generators[name].randbytes(16), version=4).int


def counted_id(world: World, name: str) -> int:
    """Return the number of an id of version 7: ordered by time, then by a counter."""
    world.counter += 1
    drawn = world.generators[name].getrandbits(32)
    count = world.counter & 0x3FF_FFFF_FFFF
    return (
        (world.wall_ns() // 1_000_000 & 0xFFFF_FFFF_FFFF) << 80
        | 0x7 << 76
        | (count >> 30 & 0xFFF) << 64
        | 0b10 << 62
        | (count & 0x3FFF_FFFF) << 32
        | drawn
    )


Number = Callable[[World, str], int]


def drawn(number: Number, is_plain: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a replacement for a function that makes ids, as numbers or as its own type."""

    def decorate(before: Callable[..., Any]) -> Callable[..., Any]:
        def give(*args: Any, **options: Any) -> Any:
            is_given = False
            for value in (*args, *options.values()) if options else args:
                is_given = is_given or value is not None
            world = None if is_given else world_of_chance(sys._getframe(1))
            if world is None:
                return before(*args, **options)
            value = number(*world)
            return value if is_plain else type(before(*args, **options))(int=value)

        return give

    return decorate


_WAYS: Final = (("uuid1", counted_id), ("uuid4", random_id), ("uuid6", counted_id))
IDS: Final[Mapping[str, tuple[tuple[str, Callable[..., Any]], ...]]] = {
    "uuid_utils": (*((name, drawn(way, False)) for name, way in (*_WAYS, ("uuid7", counted_id))),),
    "uuid_utils.compat": (
        ("_uuid4_int", drawn(random_id, True)),
        ("_uuid7_int", drawn(counted_id, True)),
    ),
    "fastuuid": (*((name, drawn(way, False)) for name, way in (*_WAYS, ("uuid7", counted_id))),),
}
"""Functions of modules that are not written in Python, and the functions that replace them."""
