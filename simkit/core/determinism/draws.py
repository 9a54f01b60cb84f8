"""Draws: random bytes, unseeded generators, and ids that are not made in Python."""

from __future__ import annotations

import operator
import os
import random
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final
from uuid import UUID

from simkit.core.determinism.generators import intended_generator
from simkit.core.determinism.redirecting import Redirected
from simkit.core.determinism.worlds import World, world_of_chance

NODE: Final = 0x02_51_4D_4B_49_54
"""The network address in ids that contain one; no real device has an address of this kind."""


def random_bytes() -> Redirected:
    """Return ``os.urandom``, from which `uuid`, `secrets` and `SystemRandom` draw."""

    def urandom(size: Any) -> Any:
        outer_world = world_of_chance(sys._getframe(1))
        if outer_world is None or operator.index(size) < 0:
            return redirected.original(size)
        world, place = outer_world
        return world.generators[place].randbytes(operator.index(size))

    redirected = Redirected(os, "urandom", 1, urandom)
    return redirected


def getrandom(before: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``os.getrandom``."""

    def get(size: Any, flags: int = 0) -> Any:
        outer_world = world_of_chance(sys._getframe(1))
        if outer_world is None:
            return before(size, flags)
        world, place = outer_world
        return world.generators[place].randbytes(operator.index(size))

    return get


def seed_of_generators(before: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``Random.seed``, which takes a missing seed from the world.

    Called on the shared generator, it seeds the world's own generator instead.
    """

    def seed(self: random.Random, a: Any = None, version: int = 2) -> Any:
        outer_world = world_of_chance(sys._getframe(1)) if a is None else None
        if outer_world is not None:
            world, place = outer_world
            a = world.generators[place].getrandbits(128)
        return before(intended_generator(self), a, version)

    return seed


def seed_of_all(before: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``random.seed``, which seeds the world's own generator."""
    shared = before.__self__  # type: ignore[attr-defined]
    return partial(seed_of_generators(before.__func__), shared)  # type: ignore[attr-defined]


def random_id(world: World, place: str) -> int:
    """Return the number of an id of version 4 (random)."""
    return UUID(bytes=world.generators[place].randbytes(16), version=4).int


def counted_id(world: World, place: str) -> int:
    """Return the number of an id of version 7: ordered by time, then by a counter."""
    world.counter += 1
    drawn = world.generators[place].getrandbits(32)
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
