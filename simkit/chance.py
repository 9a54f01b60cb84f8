"""One seed, split by name: a new draw in one place moves nothing elsewhere."""

from __future__ import annotations

import hashlib
from random import Random


class Chance:
    """A named source of randomness below the one seed."""

    def __init__(self, seed: int, path: str = "") -> None:
        self._seed, self._path = seed, path
        digest = hashlib.sha256(f"{seed}/{path}".encode()).digest()
        self.random = Random(int.from_bytes(digest[:8], "big"))

    def child(self, name: str) -> Chance:
        """Returns the source of that name; equal names give equal draws."""
        return Chance(self._seed, f"{self._path}/{name}")
