"""The generator behind the functions of `random`: each world has its own.

The functions of `random` are methods of one generator, and modules that imported them by name hold
them. So the generator itself looks up the world that it draws for; the state of the process is
never touched.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from random import Random
from typing import Any, Final

from simkit.core.determinism.redirecting import Recoded, Redirected
from simkit.core.determinism.worlds import current_world

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
    world = current_world()
    if world is not None and not world.real and _KEY in world.records:  # Graphs draw at each step.
        return world.records[_KEY].getrandbits(k)
    own = own_generator()
    return own.getrandbits(k) if own is not None else _bits.original(k)


_random: Final = Redirected(random, "random", 0, _draw)
_bits: Final = Redirected(random, "getrandbits", 1, _draw_bits)


def _getstate(__class__: Any = None) -> Any:
    def getstate(self: Any) -> Any:
        # This code runs with the globals of `random`, and holds the cell of its class.
        from simkit.core.determinism.generators import intended_generator, state_of

        return state_of(intended_generator(self), __class__)

    return getstate


def _setstate(__class__: Any = None) -> Any:
    def setstate(self: Any, state: Any) -> Any:
        from simkit.core.determinism.generators import intended_generator, put_state

        return put_state(intended_generator(self), state, __class__)

    return setstate


def _seed(__class__: Any = None) -> Any:
    def seed(self: Any, a: Any = None, version: int = 2) -> Any:
        from simkit.core.determinism.generators import intended_generator, seed_it

        return seed_it(intended_generator(self), a, version, __class__)

    return seed


def seed_it(generator: Any, a: Any, version: int, _: Any = None) -> None:
    """Seed a generator."""
    _states[2].original(generator, a, version)


def state_of(generator: Any, _: Any = None) -> Any:
    """Return a generator's state."""
    return _states[0].original(generator)


def put_state(generator: Any, state: Any, _: Any = None) -> None:
    """Put a generator into a state."""
    _states[1].original(generator, state)


_states: Final = (
    Recoded(Random.getstate, _getstate()),
    Recoded(Random.setstate, _setstate()),
    Recoded(Random.seed, _seed()),
)
SHARED: Final = (SharedGenerator(), _random, _bits, *_states)
"""Replacements that begin with the first installed world and end with the last."""
