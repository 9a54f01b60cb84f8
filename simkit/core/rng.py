"""Random numbers from one seed, split by name: a draw in one place changes no others."""

from __future__ import annotations

import hashlib
from functools import cached_property
from random import Random


class Chance:
    """A named source of random numbers below the seed."""

    def __init__(self, seed: int, path: str = "") -> None:
        self._seed, self._path = seed, path

    @cached_property
    def random(self) -> Random:
        """Return the generator.

        It is made on first use: many sources only have children, and seeding is slow.
        """
        digest = hashlib.sha256(f"{self._seed}/{self._path}".encode()).digest()
        return Random(int.from_bytes(digest[:8], "big"))

    def child(self, name: str) -> Chance:
        """Return the source of that name; equal names give equal draws."""
        return Chance(self._seed, f"{self._path}/{name}")
