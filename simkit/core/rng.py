"""Random numbers from one seed, split by name: a draw in one place changes no others."""

from __future__ import annotations

import hashlib
from random import Random

import msgspec


class Chance(msgspec.Struct, eq=False):
    """A named source of random numbers below the seed."""

    seed: int
    path: str = ""
    _random: Random | None = None

    @property
    def random(self) -> Random:
        """Return the generator.

        It is made on first use: many sources only have children, and seeding is slow.
        """
        generator = self._random
        if generator is None:
            digest = hashlib.sha256(f"{self.seed}/{self.path}".encode()).digest()
            generator = self._random = Random(int.from_bytes(digest[:8], "big"))
        return generator

    def child(self, name: str) -> Chance:
        """Return the source of that name; equal names give equal draws."""
        return Chance(self.seed, f"{self.path}/{name}")
