"""One seed, split by name: a new draw in one place moves nothing elsewhere."""

from __future__ import annotations

import hashlib
from functools import cached_property
from random import Random


class Chance:
    """A named source of randomness below the one seed."""

    def __init__(self, seed: int, path: str = "") -> None:
        self._seed, self._path = seed, path

    @cached_property
    def random(self) -> Random:
        """The generator; many a source only has children, and to seed one takes its time."""
        digest = hashlib.sha256(f"{self._seed}/{self._path}".encode()).digest()
        return Random(int.from_bytes(digest[:8], "big"))

    def child(self, name: str) -> Chance:
        """Return the source of that name; equal names give equal draws."""
        return Chance(self._seed, f"{self._path}/{name}")
